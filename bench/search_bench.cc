// Speed of the layout search: all layouts of a job on 32,768 GPUs. "evaluations" counts layouts whose memory
// is known, priced or not.

#include <string>

#include <benchmark/benchmark.h>

#include "ntpsim/analysis/search.h"

namespace {

namespace analysis = ntpsim::analysis;
namespace models = ntpsim::models;

void search(benchmark::State& state, const std::string& model, std::int64_t sequences, std::int64_t tokens) {
  const ntpsim::sim::ClusterSpec cluster{.system = *models::find_system("b200-nvl32"), .gpus = 32768};
  models::TrainingSpec training;
  training.global_batch_size = sequences;
  training.seq_length = tokens;
  analysis::SearchOptions options;
  options.threads = static_cast<unsigned>(state.range(0));
  analysis::LayoutSearch found;
  for (auto _ : state) {
    found = search_layouts(cluster, *models::find_model(model), training, options);
    benchmark::DoNotOptimize(found);
  }
  const auto memory = static_cast<std::size_t>(analysis::Refusal::kMemory);
  const auto evaluations = static_cast<double>(found.priced + found.refused.at(memory));
  state.counters["layouts"] = static_cast<double>(found.considered);
  state.counters["priced"] = static_cast<double>(found.priced);
  state.counters["evaluations"] =
      benchmark::Counter(evaluations, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(search, dense, "ntp-paper-480b", 2048, 8192)
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(search, experts, "deepseek-v3", 16384, 4096)
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
