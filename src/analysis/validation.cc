#include "ntpsim/analysis/validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"
#include "ntpsim/core/random.h"
#include "ntpsim/models/memory.h"
#include "ntpsim/sim/step_model.h"

#include "run_groups.h"
#include "unstated_settings.h"

namespace ntpsim::analysis {
namespace {

/// FLOPs of a step as the source of the row counts them.
double stated_flops(const MeasuredRun& run) {
  const ThroughputRow& row = run.stated;
  const models::TransformerSpec& model = run.model;
  const auto seq = static_cast<double>(row.seq);
  const double tokens = static_cast<double>(row.gbs) * seq;
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto layers = static_cast<double>(model.num_layers);
  const auto vocabulary = static_cast<double>(model.vocab_size);
  if (row.flops_convention.starts_with("hardware")) {
    return 96 * tokens * layers * hidden * hidden *
           (1 + seq / (6 * hidden) + vocabulary / (16 * layers * hidden));
  }
  const double model_flops = tokens * models::model_flops_per_token(model, row.seq);
  if (row.source.find("Megatron-LM README") == std::string::npos) return model_flops;
  return model_flops +
         tokens * layers * 6 * seq * static_cast<double>(model.num_attention_heads * model.kv_channels);
}

ComparedRun compared(const MeasuredRun& run) {
  const models::TrainingSpec training = training_of(run.stated, run.model, run.system);
  const sim::StepModel step_model(run.system, run.model, training);
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto memory =
      models::memory_per_gpu(run.model, training, static_cast<int>(training.tensor_model_parallel_size));
  return {.run = run,
          .half = half_of(run.stated),
          .measured_step_s = measured_step_s(run),
          .predicted_step_s = step_model.step(step_model.healthy_shape()).total_s(),
          .predicted_memory_gib = memory.total().value() / kGib};
}

struct NamedError {
  std::string_view id;
  double error = 0;
};

ErrorSummary summary_of(const std::vector<NamedError>& errors) {
  invariant(!errors.empty(), "a group has rows");
  ErrorSummary summary;
  summary.rows = errors.size();
  std::vector<double> sizes;
  std::size_t within = 0;
  double sum = 0;
  for (const NamedError& each : errors) {
    const double size = std::abs(each.error);
    sizes.push_back(size);
    sum += size;
    constexpr double kTenPercent = 0.1;
    if (size <= kTenPercent) ++within;
    if (summary.worst_id.empty() || size > std::abs(summary.worst_error)) {
      summary.worst_id = each.id;
      summary.worst_error = each.error;
    }
  }
  std::ranges::sort(sizes);
  const std::size_t middle = sizes.size() / 2;
  summary.mape = sum / static_cast<double>(sizes.size());
  summary.median_ape = sizes.size() % 2 == 1 ? sizes[middle] : (sizes[middle - 1] + sizes[middle]) / 2;
  summary.within_10_percent = static_cast<double>(within) / static_cast<double>(sizes.size());
  return summary;
}

/// Names of the groups that a run is in, in the order of their first mention by `group_order`.
std::vector<std::string> groups_of(const ComparedRun& each) {
  const std::string_view half = to_string(each.half);
  const std::string_view kind = kind_of(each);
  return {std::string(half), std::string(kind), fmt::format("{} {}", kind, half),
          fmt::format("{} {}", generation_name(each), models::to_string(each.run.stated.precision))};
}

/// The groups that come first; the others follow by generation, oldest first, and precision.
std::vector<std::string> group_order() {
  std::vector<std::string> order = {"fitted",       "unseen", "dense",      "dense fitted",
                                    "dense unseen", "moe",    "moe fitted", "moe unseen"};
  for (const std::string_view generation : generation_names()) {
    for (const models::Precision precision : models::all_precisions()) {
      order.push_back(fmt::format("{} {}", generation, models::to_string(precision)));
    }
  }
  return order;
}

}  // namespace

std::string_view to_string(Half half) {
  return half == Half::kFitted ? "fitted" : "unseen";
}

std::optional<double> ComparedRun::memory_error() const {
  if (!run.stated.peak_mem_gib) return std::nullopt;
  return predicted_memory_gib / *run.stated.peak_mem_gib - 1;
}

std::string configuration_of(const ThroughputRow& row) {
  return fmt::format("{}|{}|{}|{}|{}", row.model, row.system, row.gpus, models::to_string(row.precision),
                     row.seq);
}

Half half_of(const ThroughputRow& row) {
  constexpr unsigned kTopBit = 63;
  return (stable_hash(configuration_of(row)) >> kTopBit) == 0 ? Half::kFitted : Half::kUnseen;
}

double measured_step_s(const MeasuredRun& run) {
  const ThroughputRow& row = run.stated;
  if (row.step_s) return *row.step_s;
  const auto gpus = static_cast<double>(row.gpus);
  if (row.tokens_per_s_per_gpu) {
    return static_cast<double>(row.gbs) * static_cast<double>(row.seq) / (*row.tokens_per_s_per_gpu * gpus);
  }
  invariant(row.tflops_per_gpu.has_value(), "a row has a figure");
  constexpr double kTera = 1e12;
  return stated_flops(run) / (*row.tflops_per_gpu * kTera * gpus);
}

std::vector<ComparedRun> compare(std::span<const MeasuredRun> runs) {
  std::vector<ComparedRun> result;
  result.reserve(runs.size());
  for (const MeasuredRun& run : runs) result.push_back(compared(run));
  return result;
}

std::vector<ComparedRun> compare(std::span<const MeasuredRun> runs,
                                 const std::array<models::EfficiencySet, 3>& efficiencies) {
  std::vector<ComparedRun> result;
  result.reserve(runs.size());
  for (MeasuredRun run : runs) {
    run.system.gpu.efficiency =
        efficiencies.at(static_cast<std::size_t>(models::generation_of(run.system.gpu)));
    result.push_back(compared(run));
  }
  return result;
}

std::vector<ComparedRun> newest_of(std::span<const ComparedRun> runs) {
  std::map<std::string, std::vector<int>> newest;
  for (const ComparedRun& each : runs) {
    auto& container = newest[configuration_of(each.run.stated)];
    container = std::max(container, container_of(each.run.stated.source));
  }
  std::vector<ComparedRun> kept;
  for (const ComparedRun& each : runs) {
    const std::vector<int> container = container_of(each.run.stated.source);
    if (container.empty() || container == newest[configuration_of(each.run.stated)]) kept.push_back(each);
  }
  return kept;
}

ValidationSummary summarize(std::span<const ComparedRun> runs) {
  std::map<std::string, std::vector<NamedError>> errors;
  std::vector<NamedError> all;
  std::vector<NamedError> memory;
  for (const ComparedRun& each : runs) {
    const NamedError error = {.id = each.run.stated.id, .error = each.error()};
    all.push_back(error);
    for (const std::string& group : groups_of(each)) errors[group].push_back(error);
    if (const auto of_memory = each.memory_error()) memory.push_back({error.id, *of_memory});
  }
  ValidationSummary summary;
  summary.all = summary_of(all);
  for (const std::string& name : group_order()) {
    if (errors.contains(name)) summary.groups.push_back({.name = name, .errors = summary_of(errors[name])});
  }
  if (!memory.empty()) summary.memory = summary_of(memory);
  return summary;
}

}  // namespace ntpsim::analysis
