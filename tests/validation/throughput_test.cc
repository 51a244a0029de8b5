#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ntpsim/analysis/default_table.h"
#include "ntpsim/analysis/validation.h"
#include "ntpsim/scenario/model_table.h"

// Step times and memory of published training runs: the bars that `ntpsim validate --latest` is held to.

namespace ntpsim::analysis {
namespace {

std::vector<ComparedRun> newest_runs() {
  const auto models = scenario::parse_model_table(default_models(), "built-in models");
  REQUIRE(models.has_value());
  const auto table = parse_throughput_table(default_table(), "built-in table", *models);
  REQUIRE(table.has_value());
  return newest_of(compare(table->runs));
}

const ErrorSummary& group(const ValidationSummary& summary, const std::string& name) {
  for (const ErrorGroup& each : summary.groups) {
    if (each.name == name) return each.errors;
  }
  FAIL("no group " << name);
  return summary.all;
}

}  // namespace

TEST_CASE("step times match published runs, those that the efficiencies were not fitted to as well") {
  const ValidationSummary summary = summarize(newest_runs());
  for (const char* name : {"fitted", "unseen", "dense", "moe"}) {
    const ErrorSummary& errors = group(summary, name);
    MESSAGE(fmt::format("{}: {} rows, mean {:.1f}%, within 10%: {:.1f}%, worst {:+.1f}% ({})", name,
                        errors.rows, 100 * errors.mape, 100 * errors.within_10_percent,
                        100 * errors.worst_error, errors.worst_id));
  }
  CHECK(summary.all.rows >= 90);
  CHECK(group(summary, "dense").mape < 0.06);
  CHECK(group(summary, "moe").mape < 0.10);
  CHECK(std::abs(summary.all.worst_error) < 0.25);
  CHECK(group(summary, "unseen").mape < 1.3 * group(summary, "fitted").mape + 0.001);
  CHECK(summary.all.within_10_percent > 0.84);
}

TEST_CASE("peak memory matches published runs") {
  const ValidationSummary summary = summarize(newest_runs());
  REQUIRE(summary.memory.has_value());
  CHECK(summary.memory->rows == 16);
  CHECK(std::abs(summary.memory->worst_error) < 0.015);
}

TEST_CASE("the built-in table is the shared one") {
  const std::ifstream file(NTPSIM_SHARED_DATA "/throughput/measured.csv");
  if (!file) {
    MESSAGE("SKIPPED: no throughput/measured.csv under " NTPSIM_SHARED_DATA "; nothing was compared");
    return;
  }
  std::ostringstream text;
  text << file.rdbuf();
  std::string shared = text.str();
  std::erase(shared, '\r');
  CHECK(shared == default_table());
}

}  // namespace ntpsim::analysis
