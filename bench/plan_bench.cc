// Speed of the planner: gradient sync plans of tensors and whole models, and the rule that Megatron Core uses
// for the same.

#include <algorithm>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "ntpsim/analysis/tensor_plan.h"
#include "ntpsim/models/tensor_parallel.h"
#include "ntpsim/plan/step_schedule.h"
#include "ntpsim/plan/sync_plan.h"

#include "megatron_rule.h"

namespace {

namespace analysis = ntpsim::analysis;
namespace models = ntpsim::models;
namespace plan = ntpsim::plan;

constexpr std::int64_t kColumns = 53248;

// The FFN of a 405B model between groups of 72 and one that lost two GPUs.
void sync_plan(benchmark::State& state) {
  for (auto _ : state) {
    const plan::SyncPlan plan(kColumns, 72, 72, 70);
    benchmark::DoNotOptimize(plan);
  }
  const plan::SyncPlan plan(kColumns, 72, 72, 70);
  state.counters["units"] = static_cast<double>(kColumns);
  state.counters["bottleneck_units"] = static_cast<double>(plan.objective());
  state.counters["bound_units"] = static_cast<double>(plan.lower_bound());
  state.counters["max_units_per_rank"] = static_cast<double>(plan.compute().max_units());
  state.counters["messages"] = static_cast<double>(plan.pre_sync().transfers().size());
}
BENCHMARK(sync_plan)->Unit(benchmark::kMicrosecond);

// The same tensor under Megatron's rule. It serves one tensor of one layer; Megatron applies it in Python to
// every parameter of every layer.
void megatron_rule(benchmark::State& state) {
  for (auto _ : state) {
    auto split = ntpsim::testing::megatron_split(kColumns, 72, 2);
    benchmark::DoNotOptimize(split);
  }
  const auto split = ntpsim::testing::megatron_split(kColumns, 72, 2);
  std::int64_t messages = 0;
  std::int64_t most_sent = 0;
  for (const auto& row : split->sent) {
    std::int64_t sent = 0;
    for (const std::int64_t units : row) {
      sent += units;
      messages += units > 0 ? 1 : 0;
    }
    most_sent = std::max(most_sent, sent);
  }
  state.counters["units"] = static_cast<double>(kColumns);
  state.counters["bottleneck_units"] = static_cast<double>(most_sent);
  state.counters["max_units_per_rank"] = static_cast<double>(std::ranges::max(split->computed));
  state.counters["messages"] = static_cast<double>(messages);
}
BENCHMARK(megatron_rule)->Unit(benchmark::kMicrosecond);

// All tensors of a 126-layer model, rounds included, in a job of TP groups of 72, or of several degrees.
void whole_model(benchmark::State& state, const std::vector<int>& degrees) {
  const models::TransformerSpec& model = *models::find_model("llama3.1-405b");
  models::TrainingSpec training;
  training.tensor_model_parallel_size = degrees.front();
  std::size_t tensors = 0;
  for (auto _ : state) {
    const analysis::TensorPlan plan = analysis::plan_tensors(model, training, degrees);
    tensors = plan.tensors.size();
    benchmark::DoNotOptimize(plan);
  }
  state.counters["layers"] = static_cast<double>(model.num_layers);
  state.counters["tensor_kinds"] = static_cast<double>(tensors);
}
BENCHMARK_CAPTURE(whole_model, tp72_70, {72, 70})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(whole_model, tp32_31_30_28, {32, 31, 30, 28})->Unit(benchmark::kMillisecond);

// The ops of the last backward pass and the gradient sync of that model, a reshard per tensor.
void step_schedule(benchmark::State& state) {
  const models::TransformerSpec& model = *models::find_model("llama3.1-405b");
  models::TrainingSpec training;
  training.tensor_model_parallel_size = 72;
  plan::BackwardPass pass;
  for (std::int64_t layer = model.num_layers - 1; layer >= 0; --layer) {
    plan::BackwardPiece& piece = pass.pieces.emplace_back();
    piece.name = "layers." + std::to_string(layer);
    for (const models::TpTensor& tensor : models::layer_tensors(model, training, {})) {
      if (tensor.is_copied()) continue;
      const auto same = [&](const plan::SyncPlan& each) { return each.sync().units() == tensor.units; };
      const auto found = std::ranges::find_if(pass.plans, same);
      const auto index = static_cast<std::size_t>(found - pass.plans.begin());
      if (found == pass.plans.end()) pass.plans.emplace_back(tensor.units, 72, 72, 70);
      piece.ready.push_back(pass.tensors.size());
      pass.tensors.push_back({.name = piece.name + "." + std::string(tensor.name),
                              .plan = index,
                              .gradient_bytes = static_cast<std::int64_t>(tensor.elements_per_unit) * 4});
    }
  }
  std::size_t ops = 0;
  for (auto _ : state) {
    const auto schedule = plan::StepSchedule::make(pass, plan::ScheduleOptions::upstream());
    ops = schedule->ops().size();
    benchmark::DoNotOptimize(schedule);
  }
  state.counters["layers"] = static_cast<double>(model.num_layers);
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK(step_schedule)->Unit(benchmark::kMillisecond);

}  // namespace
