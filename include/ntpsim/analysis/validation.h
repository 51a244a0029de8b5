#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ntpsim/analysis/results.h"
#include "ntpsim/analysis/throughput_table.h"
#include "ntpsim/analysis/validation_baseline.h"
#include "ntpsim/models/efficiency.h"

// Predictions against measured training runs, compared on the time of a step.
//
// What was measured is `step_s`; without it gbs x seq / (tokens_per_s_per_gpu x gpus); without that, FLOPs of
// a step / (tflops_per_gpu x gpus), with the FLOPs counted as the source counts them:
//   "model..." or blank:  models::model_flops_per_token
//   "hardware...":        96 B s l h^2 (1 + s / (6 h) + V / (16 l h)), Narayanan et al., SC'21, equation 3,
//                         with the forward pass computed again counted
//   "model", and the source is Megatron-LM's README: 6 s l a d per token more than model FLOPs (a heads of
//                         width d), since its logs of Core r0.8.0 counted the masked half of attention, too
//
// A configuration is what a user asks for: model, system, GPUs, precision and sequence length. How it is laid
// out and how large its batch is are the recipe's, which changes from release to release. Configurations are
// cut into two halves by the top bit of the FNV-1a hash (64 bits) of these five, as text, joined by "|". The
// catalog's efficiencies are fitted to rows of the first half only (analysis/calibration.h); the second half
// is unseen.

namespace ntpsim::analysis {

enum class Half : unsigned char { kFitted, kUnseen };

/// "fitted", "unseen".
[[nodiscard]] std::string_view to_string(Half half);

/// One run and what is predicted of it.
struct ComparedRun {
  MeasuredRun run;
  Half half = Half::kFitted;
  double measured_step_s = 0;
  double predicted_step_s = 0;
  double predicted_memory_gib = 0;  ///< peak on the fullest GPU

  /// Of the step time: 0.1 for a prediction that is 10% too long.
  [[nodiscard]] double error() const { return predicted_step_s / measured_step_s - 1; }
  /// Of the memory, where it was measured.
  [[nodiscard]] std::optional<double> memory_error() const;
};

/// The text whose hash tells the half: "llama3-70b|DGX-H100|64|fp8|8192".
[[nodiscard]] std::string configuration_of(const ThroughputRow& row);
[[nodiscard]] Half half_of(const ThroughputRow& row);

/// Seconds of a step as the source states them. REQUIRES: one of the three figures.
[[nodiscard]] double measured_step_s(const MeasuredRun& run);

/// Predicts every run, in the order of the table. Some ten microseconds a run, whatever its size.
[[nodiscard]] std::vector<ComparedRun> compare(std::span<const MeasuredRun> runs);
/// The same with these efficiencies, by `models::GpuGeneration`.
[[nodiscard]] std::vector<ComparedRun> compare(std::span<const MeasuredRun> runs,
                                               const std::array<models::EfficiencySet, 3>& efficiencies);

/// Those of the newest container of their configuration, and all whose source names no container. Containers
/// are those of the source's "container 26.04.01", and compared number by number.
[[nodiscard]] std::vector<ComparedRun> newest_of(std::span<const ComparedRun> runs);

/// Absolute errors of some rows.
struct ErrorSummary {
  std::size_t rows = 0;
  double mape = 0;  ///< mean
  double median_ape = 0;
  double within_10_percent = 0;  ///< share of the rows
  std::string worst_id;
  double worst_error = 0;  ///< with its sign
};

struct ErrorGroup {
  std::string name;
  ErrorSummary errors;
};

struct ValidationSummary {
  ErrorSummary all;
  /// Fitted and unseen; dense and MoE, as a whole, fitted and unseen; then by generation of GPUs and
  /// precision. Only those with rows.
  std::vector<ErrorGroup> groups;
  std::optional<ErrorSummary> memory;  ///< of rows whose memory was measured
};

[[nodiscard]] ValidationSummary summarize(std::span<const ComparedRun> runs);

/// What `ntpsim validate` prints. Rows are those compared, whatever the baseline covers.
struct Validation {
  std::string table;    ///< as the user named it
  std::string command;  ///< that gives the same rows
  bool newest_only = false;
  std::vector<ComparedRun> runs;
  ValidationSummary summary;
  std::optional<BaselineCheck> baseline;
};

/// Ready to print. A pure function: the same validation gives the same bytes.
[[nodiscard]] std::string render(const Validation& validation, Format format);

}  // namespace ntpsim::analysis
