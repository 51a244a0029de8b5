#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/analysis/progress.h"
#include "ntpsim/analysis/results.h"
#include "ntpsim/models/memory.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/sim/specs.h"
#include "ntpsim/sim/step_model.h"

// The fastest way to cut a training job over the GPUs of a cluster. All layouts within Megatron Core's rules
// are listed, those that fit are priced in closed form, and the step model plays the fastest of them:
//
// - TP: divisors of the attention heads, up to a domain, that cut KV groups and MLP columns evenly.
// - CP: powers of two that leave each rank 1,024 tokens of a sequence.
// - PP: divisors of the GPUs / (TP x CP), up to the layers.
// - Virtual stages that make chunks equal, or short of a layer where the embedding and the output are.
// - EP: divisors of the experts, each expert whole or cut over the TP group.
// - Microbatches of 1, 2, 4 and 8 sequences.
//
// DP follows. For each the least recomputation that fits is taken (`models::least_recompute`): what is
// recomputed without need only costs time. All else (batch, precision, overlaps, dispatcher, CUDA graphs) is
// the job's own; sequence parallelism is left out at TP 1, and the layers of the pipeline's ends are spread
// evenly.

namespace ntpsim::analysis {

/// Why a layout is not priced; the first that holds.
enum class Refusal : unsigned char {
  kBatch,         ///< the global batch does not divide into microbatches on every replica
  kInterleaving,  ///< virtual stages need a multiple of PP microbatches
  kExpertGroups,  ///< an expert-parallel group needs replicas that do not divide DP
  kMemory,        ///< does not fit, even if all layers are recomputed
};
inline constexpr std::size_t kRefusals = 4;

/// As a key of results: "batch_not_divisible".
[[nodiscard]] std::string_view name_of(Refusal refusal);
/// As a sentence's end: "do not divide the batch".
[[nodiscard]] std::string_view reason_of(Refusal refusal);

/// A layout of the job that fits, and what a step costs.
struct FoundLayout {
  models::TrainingSpec training;
  double estimated_s = 0;  ///< by which it was chosen to be played
  sim::StepBreakdown step;
  models::MemoryBreakdown memory;  ///< of the fullest GPU
};

struct LayoutSearch {
  sim::ClusterSpec cluster;
  models::TransformerSpec model;
  std::int64_t considered = 0;
  std::int64_t priced = 0;
  std::array<std::int64_t, kRefusals> refused{};
  std::vector<FoundLayout> best;  ///< by step time; empty if nothing fits

  /// Of all GPUs of the cluster, idle ones included.
  [[nodiscard]] double tokens_per_s_per_gpu(const FoundLayout& layout) const;
  /// By the convention of `models::model_flops_per_token`.
  [[nodiscard]] double model_flops_per_s_per_gpu(const FoundLayout& layout) const;
  /// The same over the dense peak of the job's precision.
  [[nodiscard]] double mfu(const FoundLayout& layout) const;
};

/// A setting of a layout, under the scenario's name.
struct LayoutSetting {
  std::string_view key;    ///< "tensor_model_parallel_size"
  std::string_view title;  ///< "TP"
  std::int64_t models::TrainingSpec::* value;
};
/// All of them but recomputation.
[[nodiscard]] std::span<const LayoutSetting> layout_settings();

/// A setting that all layouts are to have.
struct FixedSetting {
  std::int64_t models::TrainingSpec::* setting = nullptr;
  std::int64_t value = 1;
};

struct SearchOptions {
  unsigned threads = 1;         ///< changes no result
  std::size_t finalists = 64;   ///< layouts that the step model plays
  std::size_t most_found = 10;  ///< of them in the result
  std::vector<FixedSetting> fixed;
  Progress progress;  ///< may be empty
};

/// Layouts of `job` on the cluster; the degrees and the recomputation that `job` has are not looked at.
/// REQUIRES: a whole number of domains; the GPU has the precision.
[[nodiscard]] LayoutSearch search_layouts(const sim::ClusterSpec& cluster,
                                          const models::TransformerSpec& model,
                                          const models::TrainingSpec& job, const SearchOptions& options);

/// One thing that a step spends its time on, as results name it.
struct StepPart {
  std::string_view key;    ///< "exposed_tp_s"
  std::string_view title;  ///< "TP"
  double sim::StepBreakdown::* seconds;
};
[[nodiscard]] std::span<const StepPart> step_parts();

/// The results of `ntpsim search`, ready to print.
[[nodiscard]] std::string render(const LayoutSearch& search, const scenario::LoadedScenario& loaded,
                                 Format format);

}  // namespace ntpsim::analysis
