#pragma once

#include <array>
#include <cstddef>

namespace ntpsim::models {

enum class Precision : unsigned char { kBf16, kFp16, kFp8, kMxfp8, kNvfp4 };
inline constexpr std::size_t kPrecisions = 5;

/// The tensor cores' generation.
enum class GpuGeneration : unsigned char { kAmpere, kHopper, kBlackwell };

/// What a generation of GPUs and its software reach of their ceilings in training runs. Fitted to published
/// runs, one set per generation (src/models/efficiency_catalog.cc).
struct Efficiency {
  double gemm = 1;             ///< long-run rate of a large 16-bit GEMM over the best measured one (power)
  double gemm_fill_bytes = 0;  ///< bytes of K that filling and draining a tile's pipeline costs
  double attention = 1;        ///< fused attention, forward, over the bound of tensor cores and exponentials
  double dispatch = 1;         ///< memory passes of moving tokens to experts over the least possible
  double memory = 1;           ///< attainable over peak memory bandwidth
  double launch_s = 0;         ///< gap between two kernels outside of CUDA graphs

  bool operator==(const Efficiency&) const = default;
};

/// What a number format reaches, on every generation that has it.
struct PrecisionEfficiency {
  double gemm = 1;   ///< long-run GEMM rate over its ceiling, relative to that of 16 bits
  double casts = 1;  ///< memory passes of casting an operand over the least possible

  bool operator==(const PrecisionEfficiency&) const = default;
};

/// All fitted parameters that bear on one GPU.
struct EfficiencySet {
  Efficiency gpu;
  std::array<PrecisionEfficiency, kPrecisions> precisions;

  [[nodiscard]] const PrecisionEfficiency& of(Precision precision) const {
    return precisions[static_cast<std::size_t>(precision)];
  }

  bool operator==(const EfficiencySet&) const = default;
};

/// The catalog's. O(1).
[[nodiscard]] const EfficiencySet& efficiency_of(GpuGeneration generation);

}  // namespace ntpsim::models
