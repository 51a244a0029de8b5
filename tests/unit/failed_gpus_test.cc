#include "ntpsim/plan/failed_gpus.h"

#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

#include "aborts.h"
#include "messages.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::plan::FailedDomain;
using ntpsim::plan::FailedGpus;
using ntpsim::plan::parse_failed_gpus;
using ntpsim::testing::messages;
using Failed = std::vector<FailedDomain>;
using Texts = std::vector<std::string>;

constexpr std::int64_t kDomains = 16;
constexpr int kSize = 8;

// What was read; a domain -1 when there were errors.
Failed read(const std::string& text) {
  const auto parsed = parse_failed_gpus(text, kDomains, kSize);
  if (!parsed) return {{-1, {}}};
  return {parsed->failed().begin(), parsed->failed().end()};
}

Texts errors(const std::string& text) {
  Texts messages;
  const auto parsed = parse_failed_gpus(text, kDomains, kSize);
  if (parsed) return messages;
  for (const ntpsim::Diagnostic& diagnostic : parsed.error().items()) {
    CHECK(diagnostic.file == "--failed");
    CHECK(diagnostic.pointer.empty());
    messages.push_back(diagnostic.message);
  }
  return messages;
}

TEST_CASE("failed GPUs by domain") {
  const FailedGpus failed(4, 8, {{3, {7, 4}}, {2, {}}, {1, {0}}});
  CHECK(failed.domains() == 4);
  CHECK(failed.domain_size() == 8);
  CHECK(Failed(failed.failed().begin(), failed.failed().end()) == Failed{{1, {0}}, {3, {4, 7}}});
  CHECK(failed.slots(0).empty());
  CHECK(failed.slots(2).empty());
  CHECK(failed.slots(3).size() == 2);
  CHECK(failed.healthy(0) == 8);
  CHECK(failed.healthy(3) == 6);
  CHECK(failed.count() == 3);
  CHECK(FailedGpus(4, 8).count() == 0);
}

TEST_CASE("what a user types") {
  CHECK(read("domain 3: gpu 4,7; domain 11: gpu 0") == Failed{{3, {4, 7}}, {11, {0}}});
  CHECK(read("domain 11: gpu 0; domain 3: gpu 7,4") == Failed{{3, {4, 7}}, {11, {0}}});
  CHECK(read("domain 0: gpus 0-3") == Failed{{0, {0, 1, 2, 3}}});
  CHECK(read("domain 0: gpus 6-7, 0-0, 3") == Failed{{0, {0, 3, 6, 7}}});
  CHECK(read("domain 15: all") == Failed{{15, {0, 1, 2, 3, 4, 5, 6, 7}}});
  CHECK(read(" \tdomain  3 :gpu  4 , 5 - 7\n;domain 4:gpu 1 ") == Failed{{3, {4, 5, 6, 7}}, {4, {1}}});
  CHECK(read("domain3:gpu4;DOMAIN 004:GPUs 1") == Failed{{3, {4}}, {4, {1}}});
}

TEST_CASE("everything wrong is reported at once, with what was found and expected") {
  CHECK(
      errors("dmain 3: gpu 8; domain 16: gpu 1,x; domain 4: gpuz 1; ; domain 5 gpu 1") ==
      Texts{R"(dmain 3: found "dmain", expected "domain" and its number)",
            R"(dmain 3: found "8", expected a GPU from 0 to 7, or an ascending range of them such as 4-7)",
            R"(domain 16: found "16", expected a domain from 0 to 15)",
            R"(domain 16: found "x", expected a GPU from 0 to 7, or an ascending range of them such as 4-7)",
            R"(domain 4: found "gpuz", expected "gpu" or "gpus" with their numbers, or "all" alone)",
            R"(entry 4 is empty, expected one such as "domain 3: gpu 4,7")",
            R"(found "domain 5 gpu 1", expected a ":" after the domain, as in "domain 3: gpu 4,7")"});
}

TEST_CASE("GPUs and domains are named once") {
  CHECK(errors("domain 1: gpu 2,3,2; domain 4: gpus 0-3,2-5; domain 1: gpu 6") ==
        Texts{"domain 1: gpu 2 is named more than once, expected each GPU once",
              "domain 4: gpu 2-5 is named more than once, expected each GPU once",
              "domain 1 is named more than once, expected all its GPUs together"});
}

TEST_CASE("empty texts, entries and lists") {
  CHECK(errors("") == Texts{R"(found nothing, expected failed GPUs such as "domain 3: gpu 4,7")"});
  CHECK(errors(" \n") == errors(""));
  CHECK(errors("domain 3: gpu 4;") == Texts{R"(entry 2 is empty, expected one such as "domain 3: gpu 4,7")"});
  CHECK(errors(";;").size() == 3);
  CHECK(errors("domain 3: gpu").size() == 1);
  CHECK(errors("domain 3: gpu 1,,2").front().starts_with("domain 3: found nothing, expected a GPU"));
  CHECK(errors("domain 3:").front().starts_with("domain 3: found nothing, expected \"gpu\""));
  CHECK(errors("domain: gpu 1").front() == "domain: found nothing, expected a domain from 0 to 15");
  CHECK(errors(":").size() == 2);
}

TEST_CASE("numbers out of range, backward ranges and stray words") {
  const std::string huge(1000, '9');
  CHECK(errors("domain " + huge + ": all").front() == "domain " + std::string(33, '9') + "...: found \"" +
                                                          std::string(40, '9') +
                                                          "...\", expected a domain from 0 to 15");
  for (const std::string item : {"8", "-1", "7-4", "4-8", "4-", "-", "1-2-3", "1 2", "0x1", "4.5", "gpu 1"}) {
    CHECK(errors("domain 3: gpu " + item).size() == 1);
  }
  CHECK(errors("domain 3: gpu " + huge).size() == 1);
  CHECK(errors("domain 3: gpu 0-" + huge).size() == 1);
  CHECK(errors("domain -3: all").size() == 1);
  CHECK(errors("domain 3-5: all").size() == 1);
  CHECK(errors("domain 3: all 4").size() == 1);
  CHECK(errors("domain 3: 4,7").size() == 1);
}

TEST_CASE("no text crashes, and whatever is read is within the cluster") {
  constexpr std::array<const char*, 16> kPieces = {
      "domain", "gpu", "gpus", "all", ":", ";", ",", "-", " ", "0", "7", "15", "99999999999999999999",
      "x",      "\n",  "\xff"};
  RandomStream random(1, 0, "test/failed_gpus");
  int read_well = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = round % 2 == 0 ? "domain 3: gpu " : "";
    for (std::uint64_t left = random.next_index(12); left > 0; --left) {
      text += kPieces.at(random.next_index(kPieces.size()));
    }
    const auto parsed = parse_failed_gpus(text, kDomains, kSize);
    if (!parsed) {
      REQUIRE(parsed.error().has_errors());
      continue;
    }
    ++read_well;
    REQUIRE(parsed->count() >= 1);
    for (const FailedDomain& entry : parsed->failed()) {
      REQUIRE(entry.domain < kDomains);
      REQUIRE(entry.slots.back() < kSize);
    }
  }
  CHECK(read_well > 100);
  CHECK(errors(std::string(100'000, ';')).size() == 100'001);
  CHECK(errors("domain 0: gpu " + std::string(100'000, ',')).size() == 100'001);
}

TEST_CASE("what was written is read") {
  RandomStream random(2, 0, "test/failed_gpus");
  for (int round = 0; round < 1000; ++round) {
    Failed written;
    std::string text;
    for (std::int64_t domain = 0; domain < kDomains; ++domain) {
      FailedDomain entry{domain, {}};
      for (int slot = 0; slot < kSize; ++slot) {
        if (random.next_index(8) == 0) entry.slots.push_back(slot);
      }
      if (entry.slots.empty()) continue;
      text += (text.empty() ? "domain " : "; domain ") + std::to_string(domain) + ": gpu ";
      for (const int slot : entry.slots)
        text += (slot == entry.slots.front() ? "" : ",") + std::to_string(slot);
      written.push_back(std::move(entry));
    }
    if (!written.empty()) REQUIRE(read(text) == written);
  }
}

TEST_CASE("contracts") {
  using ntpsim::testing::aborts;
  CHECK(aborts([] { (void)FailedGpus(0, 8); }));
  CHECK(aborts([] { (void)FailedGpus(4, 0); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8, {{4, {0}}}); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8, {{-1, {0}}}); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8, {{1, {0}}, {1, {1}}}); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8, {{1, {8}}}); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8, {{1, {-1}}}); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8, {{1, {2, 2}}}); }));
  CHECK(aborts([] { (void)FailedGpus(4, 8).slots(4); }));
  CHECK(aborts([] { (void)parse_failed_gpus("", 0, 8); }));
}

TEST_CASE("arguments that may be wrong") {
  CHECK(FailedGpus::make(4, 8, {{3, {7, 4}}, {1, {0}}}).value() == FailedGpus(4, 8, {{1, {0}}, {3, {4, 7}}}));
  CHECK(messages(FailedGpus::make(0, 5000)) ==
        Texts{"domains: found 0, expected 1 to 33554432", "domain_size: found 5000, expected 1 to 4096"});
  CHECK(messages(FailedGpus::make(4, 8, {{4, {0}}, {1, {8, 2, 2}}, {1, {3}}})) ==
        Texts{"domain 1 failed GPU 2: found more than once, expected each GPU once",
              "domain 1 failed GPU: found 8, expected 0 to 7",
              "domain 1: found more than once, expected all its GPUs together",
              "failed domain: found 4, expected 0 to 3"});
  const auto parsed = parse_failed_gpus("domain 0: all", 1'000'000, 4096);
  CHECK(messages(parsed) == Texts{"domains * domain_size: found 4096000000, expected 1 to 33554432"});
}

}  // namespace
