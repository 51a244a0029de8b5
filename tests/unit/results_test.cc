#include "ntpsim/analysis/results.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/table.h"

namespace {

using ntpsim::analysis::AvailabilityOptions;
using ntpsim::analysis::Format;
using ntpsim::analysis::Table;
using ntpsim::scenario::LoadedScenario;
using Json = nlohmann::json;

LoadedScenario small(const std::vector<std::string>& sets = {}) {
  auto loaded = ntpsim::scenario::load_scenario(NTPSIM_SOURCE_DIR "/scenarios/small.json",
                                                {.sets = sets, .policies = {}});
  REQUIRE(loaded.has_value());
  return *std::move(loaded);
}

std::string run(const LoadedScenario& loaded, unsigned threads, Format format) {
  return render(ntpsim::analysis::run_goodput_study(loaded.scenario, {.threads = threads, .progress = {}}),
                loaded, format);
}

std::string availability(const LoadedScenario& loaded, unsigned threads, Format format) {
  const AvailabilityOptions options{.failed_fractions = {0.01, 0.05}, .draws = 50};
  return render(ntpsim::analysis::run_availability_study(loaded.scenario, options,
                                                         {.threads = threads, .progress = {}}),
                options.draws, loaded, format);
}

TEST_CASE("1, 2 and 8 threads give the same bytes") {
  const LoadedScenario loaded = small();
  for (const Format format : {Format::kText, Format::kJson, Format::kCsv}) {
    const std::string one = run(loaded, 1, format);
    CHECK(run(loaded, 2, format) == one);
    CHECK(run(loaded, 8, format) == one);
    const std::string point = availability(loaded, 1, format);
    CHECK(availability(loaded, 2, format) == point);
    CHECK(availability(loaded, 8, format) == point);
  }
  CHECK(run(small({"seed=2"}), 1, Format::kCsv) != run(loaded, 1, Format::kCsv));
}

TEST_CASE("JSON has the documented keys, and every ledger sums to the horizon to the nanosecond") {
  const LoadedScenario loaded = small({"replications=7", "horizon=12345.678901234 s"});
  const Json json = Json::parse(run(loaded, 2, Format::kJson));
  CHECK(json["schema_version"] == 1);
  CHECK(json["tool"].contains("version"));
  CHECK(json["tool"].contains("git"));
  CHECK(json["seed"] == loaded.scenario.run.seed);
  CHECK(json["replications"] == 7);
  CHECK(json["horizon_ns"] == 12'345'678'901'234);
  for (const char* key : {"mean", "peak", "time_above_fraction"}) CHECK(json["failed_gpus"].contains(key));
  CHECK(json["failed_gpus"]["time_above_fraction"].contains("0.001"));
  REQUIRE(json["policies"].size() == loaded.scenario.policies.size());
  for (const Json& policy : json["policies"]) {
    for (const char* key : {"name", "goodput", "goodput_per_provisioned", "throughput_loss", "tokens_per_s",
                            "ledger_s", "failures", "restarts", "pause_fraction", "boosted_domain_hours"}) {
      CHECK(policy.contains(key));
    }
    CHECK(policy["goodput"]["ci95"].size() == 2);
    std::int64_t sum_ns = policy["ledger_ns"]["goodput_time"].get<std::int64_t>();
    double sum_s = policy["ledger_s"]["goodput_time"].get<double>();
    for (const auto& [name, value] : policy["ledger_ns"]["badput_time"].items()) {
      sum_ns += value.get<std::int64_t>();
      sum_s += policy["ledger_s"]["badput_time"][name].get<double>();
    }
    CHECK(sum_ns == 12'345'678'901'234);
    CHECK(sum_s == doctest::Approx(12345.678901234).epsilon(1e-12));
  }
}

TEST_CASE("one replication has no interval, and says so") {
  const LoadedScenario loaded = small({"replications=1"});
  const Json json = Json::parse(run(loaded, 1, Format::kJson));
  CHECK(json["policies"][0]["goodput"]["ci95"].is_null());
  const std::string text = run(loaded, 1, Format::kText);
  CHECK(text.find("n/a") != std::string::npos);
  CHECK(text.find("one replication gives no interval") != std::string::npos);
}

TEST_CASE("the resolved scenario of a result gives the result again") {
  const LoadedScenario loaded = small();
  const std::string result = run(loaded, 1, Format::kJson);
  const std::string resolved = Json::parse(result)["scenario"].dump();
  const auto again = ntpsim::scenario::parse_scenario(resolved, "resolved.json", {});
  REQUIRE(again.has_value());
  CHECK(Json::parse(run(*again, 1, Format::kJson))["policies"] == Json::parse(result)["policies"]);
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

TEST_CASE("CSV has one row a policy or point, and every column a unit") {
  const LoadedScenario loaded = small();
  const auto rows = lines(run(loaded, 1, Format::kCsv));
  REQUIRE(rows.size() == loaded.scenario.policies.size() + 1);
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  for (const std::string& row : rows) CHECK(commas(row) == commas(rows[0]));
  std::istringstream header(rows[0]);
  const std::set<std::string> plain = {"scenario", "policy",       "label",       "spare_domains",
                                       "seed",     "replications", "tokens_per_s"};
  for (std::string column; std::getline(header, column, ',');) {
    CAPTURE(column);
    const bool has_unit = column.ends_with("_s") || column.ends_with("_ratio") ||
                          column.ends_with("_count") || column.ends_with("_h") || column.ends_with("_w");
    CHECK((has_unit || plain.contains(column)));
  }
  CHECK(lines(availability(loaded, 1, Format::kCsv)).size() == 2 * loaded.scenario.policies.size() + 1);
}

TEST_CASE("labels with commas and quotes are quoted in CSV") {
  LoadedScenario loaded = small();
  loaded.scenario.policies[0].label = "a \"b\", c";
  CHECK(run(loaded, 1, Format::kCsv).find("\"a \"\"b\"\", c\"") != std::string::npos);
}

TEST_CASE("tables align their columns") {
  Table table({{"name", Table::Align::kLeft}, {"x"}});
  table.add_row({"a", "1"});
  table.add_row({"long name", "23"});
  CHECK(table.to_string() == "name        x\na           1\nlong name  23\n");
}

TEST_CASE("a policy's results do not depend on the other policies of the study") {
  const std::string crowd =
      R"(policies=[{"name":"hot_spares","spare_domains":2},{"name":"dp_drop","spare_domains":6}])";
  const std::string alone = R"(policies=[{"name":"hot_spares","spare_domains":2}])";
  CHECK(Json::parse(run(small({crowd}), 1, Format::kJson))["policies"][0] ==
        Json::parse(run(small({alone}), 1, Format::kJson))["policies"][0]);
  CHECK(Json::parse(availability(small({crowd}), 1, Format::kJson))["points"][2]["loss"] ==
        Json::parse(availability(small({alone}), 1, Format::kJson))["points"][1]["loss"]);
}

TEST_CASE("availability falls with the failed fraction and needs no failures in the scenario") {
  const Json json = Json::parse(availability(small(), 1, Format::kJson));
  const std::size_t policies = small().scenario.policies.size();
  REQUIRE(json["points"].size() == 2 * policies);
  for (std::size_t i = 0; i < policies; ++i) {
    CHECK(json["points"][i]["loss"]["mean"] <= json["points"][i + policies]["loss"]["mean"]);
    CHECK(json["points"][i]["domain_availability"] > json["points"][i + policies]["domain_availability"]);
    CHECK(json["points"][i]["failed_gpus"] == 1);
    CHECK(json["points"][i + policies]["failed_gpus"] == 6);
  }
}

}  // namespace
