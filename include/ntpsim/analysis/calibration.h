#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ntpsim/analysis/results.h"
#include "ntpsim/analysis/validation.h"
#include "ntpsim/models/efficiency.h"

// Fits the catalog's efficiencies (models/efficiency.h) to measured runs: six numbers a generation of GPUs
// and two a number format below 16 bits, never one a run. It sees the fitted half of the configurations only.
//
// What is made small is the mean over these rows of a + 4 max(0, a - 8%), with a the absolute logarithm of
// predicted over measured step time, by a search along one parameter at a time from a few fixed starts, with
// steps that halve. Deterministic.

namespace ntpsim::analysis {

/// By `models::GpuGeneration`; formats are the same for all.
using Efficiencies = std::array<models::EfficiencySet, 3>;

/// Those of the catalog.
[[nodiscard]] Efficiencies catalog_efficiencies();

/// One fitted number.
struct Parameter {
  std::string name;  ///< as "hopper gemm"
  double value = 0;
  double catalog = 0;    ///< the catalog's
  std::size_t rows = 0;  ///< fitted rows of its generation or format; none: the catalog's is kept
};

struct Calibration {
  std::string table;
  Efficiencies efficiencies;
  std::vector<Parameter> parameters;
  std::vector<ComparedRun> runs;  ///< both halves, predicted with them
  ValidationSummary summary;
};

/// Fits to the fitted half of these runs. Some thousand predictions of each: a second for a hundred runs.
/// REQUIRES: runs.
[[nodiscard]] Calibration calibrate(std::string table, std::span<const MeasuredRun> runs);

/// Ready to print. A pure function.
[[nodiscard]] std::string render(const Calibration& calibration, Format format);

}  // namespace ntpsim::analysis
