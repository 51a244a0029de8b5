#define DOCTEST_CONFIG_IMPLEMENT
#include <string_view>

#include <doctest/doctest.h>

namespace {

// Listens for MESSAGE("SKIPPED: why"), with which a test says that it had nothing to work on.
class SkipListener : public doctest::IReporter {
 public:
  explicit SkipListener(const doctest::ContextOptions& /*options*/) {}

  void log_message(const doctest::MessageData& message) override {
    if (std::string_view(message.m_string.c_str()).starts_with("SKIPPED")) heard = true;
  }

  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_start(const doctest::TestCaseData& /*data*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}

  static inline bool heard = false;
};

REGISTER_LISTENER("skips", 1, SkipListener);

}  // namespace

// Exit status 77, which ctest shows as skipped: nothing failed, but some test had nothing to work on.
int main(int argc, char** argv) {
  const int failed = doctest::Context(argc, argv).run();
  constexpr int kSkipped = 77;
  return failed == 0 && SkipListener::heard ? kSkipped : failed;
}
