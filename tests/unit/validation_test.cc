#include "ntpsim/analysis/validation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/default_table.h"
#include "ntpsim/models/transformer.h"

#include "messages.h"

namespace ntpsim {
namespace {

using analysis::ComparedRun;
using analysis::MeasuredRun;
using analysis::ThroughputRow;
using analysis::ThroughputTable;
using Json = nlohmann::json;

ThroughputTable default_runs() {
  const auto models = scenario::parse_model_table(analysis::default_models(), "built-in models");
  REQUIRE(models);
  const auto table = analysis::parse_throughput_table(analysis::default_table(), "built-in table", *models);
  REQUIRE(table);
  return *table;
}

/// A run of a small model, measured at 2 s a step.
MeasuredRun some_run() {
  MeasuredRun run;
  run.stated.id = "a";
  run.stated.model = "llama3-8b";
  run.stated.system = "DGX-H100";
  run.stated.gpus = 8;
  run.stated.gbs = 16;
  run.stated.seq = 1000;
  run.stated.step_s = 2;
  run.model = *models::find_model("llama3-8b");
  run.system = *models::find_system("dgx-h100");
  return run;
}

/// A comparison with this error, measured at 1 s.
ComparedRun with_error(const std::string& id, double error) {
  ComparedRun each;
  each.run = some_run();
  each.run.stated.id = id;
  each.measured_step_s = 1;
  each.predicted_step_s = 1 + error;
  return each;
}

ComparedRun from_source(const std::string& id, const std::string& source) {
  ComparedRun each = with_error(id, 0);
  each.run.stated.source = source;
  return each;
}

std::vector<std::string> ids_of(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> ids;
  for (const ComparedRun& each : runs) ids.push_back(each.run.stated.id);
  return ids;
}

}  // namespace

TEST_CASE("the measured step is the step stated, else what the throughput makes of it") {
  MeasuredRun run = some_run();
  run.stated.tokens_per_s_per_gpu = 500;
  run.stated.tflops_per_gpu = 1;
  CHECK(measured_step_s(run) == 2);
  run.stated.step_s.reset();
  CHECK(measured_step_s(run) == doctest::Approx(16 * 1000 / (500.0 * 8)));
  run.stated.tokens_per_s_per_gpu.reset();
  const double model_flops = 16e3 * models::model_flops_per_token(run.model, 1000);
  CHECK(measured_step_s(run) == doctest::Approx(model_flops / 8e12));
}

TEST_CASE("FLOP/s become seconds by the source's own formula") {
  MeasuredRun run = some_run();
  run.stated.step_s.reset();
  run.stated.tflops_per_gpu = 1;
  // SC'21: 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)), of 32 layers, width 4096, vocabulary 128256.
  run.stated.flops_convention = "hardware: 96Bslh^2(1+s/6h+V/16lh)";
  const double hardware =
      96 * 16e3 * 32 * 4096.0 * 4096 * (1 + 1000 / (6 * 4096.0) + 128256 / (16 * 32 * 4096.0));
  CHECK(measured_step_s(run) == doctest::Approx(hardware / 8e12));
  // Megatron-LM's logs: the masked half of attention on top of model FLOPs.
  run.stated.flops_convention = "model";
  run.stated.source = "Megatron-LM README weak scaling";
  const double model_flops = 16e3 * models::model_flops_per_token(run.model, 1000);
  CHECK(measured_step_s(run) == doctest::Approx((model_flops + 16e3 * 32 * 6 * 1000 * 4096) / 8e12));
}

TEST_CASE("all rows of a configuration are in one half, and the halves are about equal") {
  const ThroughputTable table = default_runs();
  std::set<std::string> fitted;
  std::set<std::string> unseen;
  for (const MeasuredRun& run : table.runs) {
    const bool is_fitted = half_of(run.stated) == analysis::Half::kFitted;
    (is_fitted ? fitted : unseen).insert(configuration_of(run.stated));
  }
  for (const std::string& each : fitted) CHECK_FALSE(unseen.contains(each));
  const std::size_t all = fitted.size() + unseen.size();
  CHECK(fitted.size() >= all / 3);
  CHECK(unseen.size() >= all / 3);

  ThroughputRow row = some_run().stated;
  CHECK(configuration_of(row) == "llama3-8b|DGX-H100|8|bf16|1000");
  const auto half = half_of(row);
  row.tp = 8;
  row.source = "container 99.99";
  row.mbs = 4;
  CHECK(half_of(row) == half);
}

TEST_CASE("the newest container of a configuration is kept, with all its layouts") {
  std::vector<ComparedRun> runs = {from_source("old", "summary, container 26.04"),
                                   from_source("patch", "summary, container 26.04.01"),
                                   from_source("older", "summary, container 25.11"),
                                   from_source("paper", "a paper"),
                                   from_source("patch, other layout", "summary, container 26.04.01"),
                                   from_source("other", "summary, container 25.09")};
  runs[4].run.stated.tp = 2;
  runs[0].run.stated.gbs = 32;  // a batch is the recipe's
  runs[5].run.stated.seq = 32;
  CHECK(ids_of(analysis::newest_of(runs)) ==
        std::vector<std::string>{"patch", "paper", "patch, other layout", "other"});
}

TEST_CASE("summaries count absolute errors, and groups split them up") {
  std::vector<ComparedRun> runs = {with_error("a", 0.1), with_error("b", -0.3), with_error("c", 0.02),
                                   with_error("d", 0.06)};
  runs[3].half = analysis::Half::kUnseen;
  runs[3].run.stated.peak_mem_gib = 50;
  runs[3].predicted_memory_gib = 55;
  const analysis::ValidationSummary summary = analysis::summarize(runs);
  CHECK(summary.all.rows == 4);
  CHECK(summary.all.mape == doctest::Approx(0.12));
  CHECK(summary.all.median_ape == doctest::Approx(0.08));
  CHECK(summary.all.worst_id == "b");
  CHECK(summary.all.worst_error == doctest::Approx(-0.3));
  CHECK(summary.all.within_10_percent >= 0.5);
  REQUIRE(summary.memory.has_value());
  CHECK(summary.memory->rows == 1);
  CHECK(summary.memory->mape == doctest::Approx(0.1));
  std::vector<std::string> names;
  for (const auto& group : summary.groups) names.push_back(group.name);
  CHECK(names ==
        std::vector<std::string>{"fitted", "unseen", "dense", "dense fitted", "dense unseen", "hopper bf16"});
  CHECK(summary.groups[0].errors.rows == 3);
  CHECK(summary.groups[1].errors.worst_id == "d");
}

TEST_CASE("every row of the built-in table gets a prediction, the same each time") {
  const ThroughputTable table = default_runs();
  const std::vector<ComparedRun> runs = analysis::compare(table.runs);
  REQUIRE(runs.size() == table.runs.size());
  for (const ComparedRun& each : runs) {
    CAPTURE(each.run.stated.id);
    CHECK(std::isfinite(each.predicted_step_s));
    CHECK(each.predicted_step_s > 0);
    CHECK(each.predicted_memory_gib > 0);
  }
  const std::vector<ComparedRun> again = analysis::compare(table.runs);
  for (std::size_t i = 0; i < runs.size(); ++i) CHECK(runs[i].predicted_step_s == again[i].predicted_step_s);
}

TEST_CASE("a baseline reads back, and notices what moved, went missing or came") {
  const std::vector<ComparedRun> runs = {with_error("a", 0.1), with_error("b", 0.2), with_error("c", 0.3)};
  auto baseline = analysis::parse_baseline(analysis::baseline_json(runs), "baseline.json");
  REQUIRE(baseline);
  CHECK_FALSE(baseline->version.empty());
  CHECK(analysis::check_baseline(runs, *baseline, 0).holds());

  baseline->predicted_step_s["a"] = 1.1 * 1.004;
  baseline->predicted_step_s["b"] = 1.2 * 1.006;
  baseline->predicted_step_s["z"] = 1;
  baseline->predicted_step_s.erase("c");
  const analysis::BaselineCheck check = analysis::check_baseline(runs, *baseline, 0.005);
  CHECK_FALSE(check.holds());
  REQUIRE(check.moved.size() == 1);
  CHECK(check.moved[0].id == "b");
  CHECK(check.moved[0].change() == doctest::Approx(1 / 1.006 - 1));
  CHECK(check.missing == std::vector<std::string>{"z"});
  CHECK(check.added == std::vector<std::string>{"c"});
}

TEST_CASE("what is no baseline is refused") {
  using testing::messages;
  const auto refused = [](std::string_view text) {
    return messages(analysis::parse_baseline(text, "b.json"));
  };
  CHECK(refused("{")[0].find("no JSON at byte") != std::string::npos);
  CHECK(refused("[]").size() == 1);
  CHECK(refused("{}").size() == 2);
  CHECK(refused(R"({"tool": {"version": "1"}, "predicted_step_s": {"a": -1, "b": "x", "c": 1}})").size() ==
        2);
}

TEST_CASE("JSON and CSV carry every row") {
  analysis::Validation validation;
  validation.table = "runs.csv";
  validation.command = "ntpsim validate --table runs.csv";
  validation.runs = {with_error("a", 0.1), with_error("b, c", -0.3)};
  validation.runs[1].run.stated.peak_mem_gib = 50;
  validation.summary = analysis::summarize(validation.runs);
  const Json json = Json::parse(render(validation, analysis::Format::kJson));
  CHECK(json["rows"].size() == 2);
  CHECK(json["rows"][1]["error"].get<double>() == doctest::Approx(-0.3));
  CHECK(json["rows"][0]["measured_memory_gib"].is_null());
  CHECK(json["rows"][0]["half"] == "fitted");
  CHECK(json["summary"]["worst"]["id"] == "b, c");
  CHECK(json["summary"]["by_group"]["dense"]["rows"] == 2);
  CHECK(json["baseline"].is_null());
  const std::string csv = render(validation, analysis::Format::kCsv);
  CHECK(std::ranges::count(csv, '\n') == 3);
  CHECK(csv.find("\"b, c\",dense,fitted,llama3-8b,DGX-H100,bf16,8,1,0.7,") != std::string::npos);
  const std::string text = render(validation, analysis::Format::kText);
  CHECK(text.find("-30.0%") != std::string::npos);
  CHECK(text.find("ntpsim validate --table runs.csv") != std::string::npos);
}

}  // namespace ntpsim
