// Damaged scenarios give errors or a scenario, never a crash, a hang or an exception.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "ntpsim/core/random.h"
#include "ntpsim/scenario/scenario.h"

namespace {

using namespace ntpsim;  // NOLINT(google-build-using-namespace)
using nlohmann::json;

constexpr std::uint64_t kSeed = 20260;

std::vector<std::string> shipped_texts() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(NTPSIM_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  REQUIRE_FALSE(paths.empty());
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

const std::string& pick(const std::vector<std::string>& from, RandomStream& random) {
  return from[random.next_index(from.size())];
}

// What must hold for any text whatever; returns whether it was a scenario.
bool check(const std::string& text, const scenario::LoadOptions& options = {}) {
  CAPTURE(text);
  const auto loaded = scenario::parse_scenario(text, "fuzz.json", options);
  const Diagnostics& said = loaded ? loaded->warnings : loaded.error();
  CHECK(loaded.has_value() != said.has_errors());
  for (const Diagnostic& each : said.items()) {
    CHECK_FALSE(each.file.empty());
    CHECK_FALSE(each.message.empty());
    CHECK(to_string(each).find('\n') == std::string::npos);
  }
  if (loaded) {
    const auto again = scenario::parse_scenario(loaded->resolved_json, "resolved.json", {});
    REQUIRE(again);
    CHECK(again->resolved_json == loaded->resolved_json);
    CHECK(again->scenario.failures == loaded->scenario.failures);
    CHECK(again->scenario.job == loaded->scenario.job);
    CHECK(again->scenario.cluster == loaded->scenario.cluster);
    CHECK(again->scenario.run == loaded->scenario.run);
    for (const Diagnostic& each : again->warnings.items()) {
      CAPTURE(each.message);
      CHECK(std::ranges::find(said.items(), each.message, &Diagnostic::message) != said.items().end());
    }
  }
  return loaded.has_value();
}

std::string with_damaged_bytes(std::string text, RandomStream& random) {
  const std::uint64_t damages = 1 + random.next_index(4);
  for (std::uint64_t i = 0; i < damages && !text.empty(); ++i) {
    const std::size_t at = random.next_index(text.size());
    switch (random.next_index(5)) {
      case 0:
        text[at] = static_cast<char>(random.next_index(256));
        break;
      case 1:
        text.erase(at, 1 + random.next_index(20));
        break;
      case 2:
        text.insert(at, text.substr(random.next_index(text.size()), random.next_index(60)));
        break;
      case 3:
        text.insert(at, 1, "{}[]\",:0-e.\\"[random.next_index(12)]);
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

json odd_value(RandomStream& random) {
  static const std::vector<json> values = {nullptr,
                                           true,
                                           0,
                                           -1,
                                           1,
                                           2,
                                           3,
                                           7,
                                           64,
                                           4096,
                                           1e300,
                                           -0.0,
                                           0.5,
                                           1e-300,
                                           9223372036854775807,
                                           18446744073709551615U,
                                           "",
                                           "8",
                                           "5 d",
                                           "0 s",
                                           "-1 s",
                                           "1e400 s",
                                           "1e-300 s",
                                           "200 y",
                                           "1 /s",
                                           "1e300 /y",
                                           "1e-200 /y",
                                           "1 MB/s",
                                           "1e15 B/s",
                                           "1 W",
                                           "1e24 FLOP/s",
                                           10000000,
                                           1000000000,
                                           "none",
                                           "exponential",
                                           "gpu",
                                           "domain",
                                           "ntp",
                                           "ntp_pw",
                                           "peers",
                                           "nan",
                                           "x.json",
                                           "mixtral-8x7b",
                                           "deepseek-v3",
                                           std::string(500, 'x'),
                                           "\u0000\n\x7f",
                                           json::array(),
                                           json::object(),
                                           json::array({1, "a"}),
                                           {{"family", "weibull"}, {"shape", 0.2}},
                                           {{"family", "lognormal"}, {"mean", "1 d"}, {"sigma", 3}},
                                           {{"model_type", "llama"}},
                                           {{"", ""}, {"a/b~c", 1}}};
  return values[random.next_index(values.size())];
}

// A random value inside, each step taken with the same chance.
json* random_place(json& root, RandomStream& random) {
  json* place = &root;
  while (place->is_structured() && !place->empty() && random.next_index(4) != 0) {
    place = &*std::next(place->begin(), static_cast<std::ptrdiff_t>(random.next_index(place->size())));
  }
  return place;
}

json with_damaged_structure(json document, const json& donor_source, RandomStream& random) {
  const std::uint64_t damages = 1 + random.next_index(3);
  for (std::uint64_t i = 0; i < damages; ++i) {
    json* place = random_place(document, random);
    json donor = donor_source;
    switch (random.next_index(4)) {
      case 0:
        *place = odd_value(random);
        break;
      case 1:
        *place = json(*random_place(donor, random));
        break;
      case 2:
        if (place->is_object() && !place->empty()) {
          const auto index = static_cast<std::ptrdiff_t>(random.next_index(place->size()));
          place->erase(std::next(place->begin(), index));
        }
        break;
      default:
        if (place->is_array()) place->push_back(odd_value(random));
        if (place->is_object()) (*place)[random.next_index(2) == 0 ? "share" : "gpus"] = odd_value(random);
    }
  }
  return document;
}

}  // namespace

TEST_CASE("damaged bytes") {
  const auto texts = shipped_texts();
  RandomStream random(kSeed, 0, "fuzz/bytes");
  for (int i = 0; i < 2000; ++i) check(with_damaged_bytes(pick(texts, random), random));
}

TEST_CASE("damaged structure") {
  const auto texts = shipped_texts();
  RandomStream random(kSeed, 0, "fuzz/structure");
  int scenarios = 0;
  for (int i = 0; i < 2000; ++i) {
    const json damaged =
        with_damaged_structure(json::parse(pick(texts, random)), json::parse(pick(texts, random)), random);
    scenarios += check(damaged.dump()) ? 1 : 0;
  }
  // Both outcomes must be common, or the cases above test little.
  CHECK(scenarios > 100);
  CHECK(scenarios < 1900);
}

TEST_CASE("damaged --set and --policies") {
  const auto texts = shipped_texts();
  const std::vector<std::string> sets = {"training.seq_length=8192", "/failures/classes/0/share=0.5",
                                         "policies.0=ntp", "cluster={\"gpus\": 8}", "a.b.c.d=[1, 2]"};
  RandomStream random(kSeed, 0, "fuzz/options");
  for (int i = 0; i < 1000; ++i) {
    scenario::LoadOptions options;
    options.sets = {with_damaged_bytes(pick(sets, random), random), pick(sets, random)};
    if (random.next_index(2) == 0) options.policies = {with_damaged_bytes("dp_drop", random), "ntp"};
    CAPTURE(options.sets[0]);
    check(pick(texts, random), options);
  }
}

TEST_CASE("a scenario cut off anywhere is refused") {
  const std::string text = shipped_texts().back();
  const std::size_t end = text.find_last_of('}');
  for (std::size_t size = 0; size <= end; ++size) CHECK_FALSE(check(text.substr(0, size)));
}
