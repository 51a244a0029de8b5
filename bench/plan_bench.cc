// Speed of the planner: gradient sync plans of tensors and whole models, and the rule that Megatron Core uses
// for the same.

#include <array>
#include <vector>

#include <benchmark/benchmark.h>

#include "ntpsim/analysis/tensor_plan.h"
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
  state.counters["max_units_per_rank"] =
      static_cast<double>(*std::max_element(split->computed.begin(), split->computed.end()));
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

}  // namespace
