#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/core/quantity.h"
#include "ntpsim/models/efficiency.h"

namespace ntpsim::models {

/// The name in scenarios: "bf16", "fp16", "fp8", "mxfp8", "nvfp4".
[[nodiscard]] std::string_view to_string(Precision precision);
[[nodiscard]] std::span<const Precision> all_precisions();
/// Bytes of one element of a GEMM operand.
[[nodiscard]] double bytes_of(Precision precision);

/// One point of a GPU's speed against its power.
struct PowerPoint {
  double power_fraction;  ///< of TDP
  double compute_speed;   ///< of the speed at TDP, for compute-bound work

  bool operator==(const PowerPoint&) const = default;
};

/// How fast compute-bound work runs at a power above TDP. Piecewise linear between the points.
class PowerCurve {
 public:
  PowerCurve() = default;
  /// REQUIRES: `points` start at (1, 1) and rise strictly in power and in speed.
  explicit PowerCurve(std::vector<PowerPoint> points);

  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] std::span<const PowerPoint> points() const { return points_; }

  /// Speed at a power fraction from 1 to the curve's end. REQUIRES: not empty; `power_fraction` within the
  /// curve.
  [[nodiscard]] double speed_at(double power_fraction) const;
  /// The least power fraction that reaches `speed`; nothing when even the curve's end is slower.
  /// 1 for a speed of 1 or less. REQUIRES: not empty.
  [[nodiscard]] std::optional<double> power_for(double speed) const;
  /// REQUIRES: not empty.
  [[nodiscard]] double max_power() const { return points_.back().power_fraction; }

  bool operator==(const PowerCurve&) const = default;

 private:
  std::vector<PowerPoint> points_;
};

/// A kind of GPU. Rates are per GPU; compute peaks are dense (no structured sparsity).
struct GpuSpec {
  std::string name;    ///< catalog id, "h100-sxm"
  std::string source;  ///< where the figures come from
  FlopRate peak_bf16;
  FlopRate peak_fp8;          ///< zero where the kind has none
  FlopRate peak_fp4;          ///< zero where the kind has none
  double attainable = 1;      ///< best measured GEMM rate over peak, BF16
  double attainable_fp8 = 1;  ///< the same for FP8, and for FP4 for want of a measurement
  Bytes memory;
  Bandwidth memory_bandwidth;
  Power tdp;
  PowerCurve power_curve;  ///< empty where no source gives one: such a GPU cannot be boosted
  std::string power_curve_source;
  std::optional<EfficiencySet> efficiency = {};  ///< absent: its generation's

  /// Dense peak in this precision; nothing where the kind lacks it.
  [[nodiscard]] std::optional<FlopRate> peak(Precision precision) const;

  bool operator==(const GpuSpec&) const = default;
};

/// A cluster of equal scale-up domains (racks or servers with one NVLink fabric each), joined by NICs.
struct SystemSpec {
  std::string name;
  std::string source;
  GpuSpec gpu;
  int domain_size = 0;         ///< GPUs in one scale-up domain
  int gpus_per_tray = 0;       ///< GPUs that leave service together when their tray (host) does
  Bandwidth nvlink_bandwidth;  ///< per GPU, one direction
  Bandwidth nic_bandwidth;     ///< per GPU, one direction
  Time nvlink_latency;         ///< of one collective step within a domain
  Time nic_latency;            ///< of one collective step between domains

  bool operator==(const SystemSpec&) const = default;
};

/// Told by the narrowest format a GPU has: FP4 since Blackwell, FP8 since Hopper.
[[nodiscard]] GpuGeneration generation_of(const GpuSpec& gpu);
/// Its own, or its generation's. Lives as long as `gpu`.
[[nodiscard]] const EfficiencySet& efficiency_of(const GpuSpec& gpu);

/// The kinds of GPU that ship with ntpsim, in a fixed order.
[[nodiscard]] std::span<const GpuSpec> gpu_catalog();
/// The systems that ship with ntpsim, in a fixed order.
[[nodiscard]] std::span<const SystemSpec> system_catalog();

/// The catalog entry with this name, or null. The catalog lives as long as the program.
[[nodiscard]] const GpuSpec* find_gpu(std::string_view name);
[[nodiscard]] const SystemSpec* find_system(std::string_view name);

}  // namespace ntpsim::models
