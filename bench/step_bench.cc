#include <vector>

#include <benchmark/benchmark.h>

#include "ntpsim/analysis/default_table.h"
#include "ntpsim/analysis/validation.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/scenario/model_table.h"
#include "ntpsim/sim/step_model.h"

// Simulated steps and predictions per second.

namespace ntpsim {
namespace {

// Llama 3.1 405B on 256 GB200, as in the performance summaries: TP 4, PP 16, 4 chunks a rank.
void step_of_405b(benchmark::State& state) {
  models::TrainingSpec training;
  training.tensor_model_parallel_size = 4;
  training.pipeline_model_parallel_size = 16;
  training.virtual_pipeline_model_parallel_size = 4;
  training.data_parallel_size = 4;
  training.global_batch_size = 4 * state.range(0);
  training.seq_length = 8192;
  training.precision = models::Precision::kFp8;
  training.tp_comm_overlap = true;
  const sim::StepModel model(*models::find_system("gb200-nvl72"), *models::find_model("llama3.1-405b"),
                             training);
  const sim::ReplicaShape shape = model.healthy_shape();
  double step_s = 0;
  for (auto _ : state) {
    step_s = model.step(shape).total_s();
    benchmark::DoNotOptimize(step_s);
  }
  state.counters["steps"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["simulated_s"] = step_s;
}
BENCHMARK(step_of_405b)->Arg(384)->Arg(1000)->Arg(1'000'000)->Unit(benchmark::kMicrosecond);

void validate_all_rows(benchmark::State& state) {
  const auto models = scenario::parse_model_table(analysis::default_models(), "built-in models");
  const auto table = analysis::parse_throughput_table(analysis::default_table(), "built-in table", *models);
  for (auto _ : state) benchmark::DoNotOptimize(analysis::compare(table->runs));
  state.counters["rows"] = benchmark::Counter(static_cast<double>(table->runs.size()),
                                              benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(validate_all_rows)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ntpsim
