#include "ntpsim/models/gemm_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

constexpr double kResultBytes = 2;          // results are written in 16 bits
constexpr double kAccumulatedGradient = 8;  // an FP32 gradient read and written
constexpr double kPowerExponent = 1.0;

/// Tiles of the result that libraries have kernels for, with their rate relative to the largest.
struct Tile {
  double rows;
  double outputs;
  double rate;
};
constexpr std::array kTiles = {Tile{128, 256, 1}, Tile{256, 128, 1}, Tile{128, 128, 0.92},
                               Tile{64, 128, 0.75}, Tile{64, 64, 0.5}};
constexpr std::array kSplits = {1.0, 2.0, 4.0, 8.0};

struct Generation {
  double multiprocessors;
  double watts_per_tflops;  ///< of its first GPU, dense 16 bits
};
/// A100, H100 and B200, by their datasheets.
constexpr std::array kGenerations = {Generation{108, 400.0 / 312}, Generation{132, 700.0 / 989},
                                     Generation{148, 1000.0 / 2250}};

const Generation& datasheet_of(const GpuSpec& gpu) {
  return kGenerations.at(static_cast<std::size_t>(generation_of(gpu)));
}

}  // namespace

GemmCost::GemmCost(const GpuSpec& gpu, double compute_speed)
    : gpu_(&gpu),
      efficiency_(&efficiency_of(gpu)),
      speed_(compute_speed),
      memory_rate_(efficiency_->gpu.memory * gpu.memory_bandwidth.value()),
      multiprocessors_(datasheet_of(gpu).multiprocessors),
      power_(std::pow(gpu.tdp.value() / (gpu.peak_bf16.value() / 1e12) / datasheet_of(gpu).watts_per_tflops,
                      kPowerExponent)) {
  invariant(compute_speed > 0, "a GPU computes");
}

double GemmCost::tensor_s(const Gemm& gemm, Precision precision) const {
  const bool narrow = bytes_of(precision) < 2;
  const double ceiling = narrow ? gpu_->attainable_fp8 : gpu_->attainable;
  const double share =
      std::min(1.0, efficiency_->gpu.gemm * efficiency_->of(precision).gemm * power_) * ceiling;
  const double rate = gpu_->peak(precision).value_or(FlopRate()).value() * share * speed_ / multiprocessors_;
  const double fill = efficiency_->gpu.gemm_fill_bytes / bytes_of(precision);
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles =
        gemm.count * std::ceil(gemm.rows / tile.rows) * std::ceil(gemm.outputs / tile.outputs);
    const double flops = 2 * tile.rows * tile.outputs / (rate * tile.rate);
    for (const double split : kSplits) {
      const double waves = std::ceil(tiles * split / multiprocessors_);
      const double seconds = waves * flops * (gemm.inputs / split + fill);
      if (best == 0 || seconds < best) best = seconds;
    }
  }
  return best;
}

double GemmCost::bounded_s(const Gemm& gemm, Precision precision, double result_bytes) const {
  if (gemm.rows <= 0 || gemm.outputs <= 0 || gemm.inputs <= 0 || gemm.count <= 0) return 0;
  const double operands = (gemm.rows + gemm.outputs) * gemm.inputs * bytes_of(precision);
  const double bytes = gemm.count * (operands + gemm.rows * gemm.outputs * result_bytes);
  return std::max(tensor_s(gemm, precision), bytes / memory_rate_);
}

double GemmCost::forward_s(const Gemm& gemm, Precision precision) const {
  return bounded_s(gemm, precision, kResultBytes);
}

double GemmCost::data_gradient_s(const Gemm& gemm, Precision precision) const {
  const Gemm transposed{
      .rows = gemm.rows, .outputs = gemm.inputs, .inputs = gemm.outputs, .count = gemm.count};
  return bounded_s(transposed, precision, kResultBytes);
}

double GemmCost::weight_gradient_s(const Gemm& gemm, Precision precision) const {
  const Gemm transposed{
      .rows = gemm.outputs, .outputs = gemm.inputs, .inputs = gemm.rows, .count = gemm.count};
  return bounded_s(transposed, precision, kAccumulatedGradient);
}

}  // namespace ntpsim::models
