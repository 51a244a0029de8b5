#include "ntpsim/core/diagnostics.h"

#include <string>

#include <doctest/doctest.h>

#include "ntpsim/core/invariant.h"

#include "aborts.h"

namespace ntpsim {
namespace {

TEST_CASE("a diagnostic reads as one line that names severity, file and place") {
  CHECK(to_string({Severity::kError, "a.json", "/training/seq_length", "must be positive"}) ==
        "error: a.json: /training/seq_length: must be positive");
  CHECK(to_string({Severity::kWarning, "--set", "", "has no effect"}) == "warning: --set: has no effect");
  CHECK(to_string({Severity::kError, "", "", "no policy"}) == "error: no policy");
  CHECK(to_string({Severity::kError, "", "/seed", "negative"}) == "error: /seed: negative");
}

TEST_CASE("diagnostics are kept in the order found") {
  Diagnostics found;
  CHECK(found.empty());
  found.warning("a.json", "/b", "odd");
  found.error("a.json", "/c", "wrong");
  found.error("a.json", "/c", "wrong again");
  REQUIRE(found.items().size() == 3);
  CHECK(found.items()[0] == Diagnostic{Severity::kWarning, "a.json", "/b", "odd"});
  CHECK(found.items()[1] == Diagnostic{Severity::kError, "a.json", "/c", "wrong"});
  CHECK(found.items()[2].message == "wrong again");
  CHECK_FALSE(found.empty());
}

TEST_CASE("only errors count as errors") {
  Diagnostics found;
  CHECK_FALSE(found.has_errors());
  found.warning("", "", "odd");
  CHECK_FALSE(found.has_errors());
  found.error("", "", "wrong");
  CHECK(found.has_errors());
}

TEST_CASE("appending keeps both lists in order") {
  Diagnostics first;
  first.error("", "", "one");
  Diagnostics second;
  second.warning("", "", "two");
  second.error("", "", "three");
  first.append(second);
  REQUIRE(first.items().size() == 3);
  CHECK(first.items()[1].message == "two");
  CHECK(first.items()[2].message == "three");
  CHECK(second.items().size() == 2);
}

TEST_CASE("a result holds a value or all the reasons why there is none") {
  const Result<int> value = 7;
  CHECK(*value == 7);
  Diagnostics reasons;
  reasons.error("a.json", "/x", "bad");
  const Result<int> nothing = tl::unexpected(reasons);
  REQUIRE_FALSE(nothing.has_value());
  CHECK(nothing.error().items().size() == 1);
}

TEST_CASE("a broken invariant aborts, one that holds does nothing") {
  CHECK(testing::aborts([] { invariant(false, "broken on purpose"); }));
  CHECK_FALSE(testing::aborts([] { invariant(true, "holds"); }));
}

}  // namespace
}  // namespace ntpsim
