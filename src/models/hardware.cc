#include "ntpsim/models/hardware.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

constexpr std::array kAllPrecisions = {Precision::kBf16, Precision::kFp16, Precision::kFp8, Precision::kMxfp8,
                                       Precision::kNvfp4};

double interpolate(double x, double x0, double x1, double y0, double y1) {
  return y0 + (x - x0) * (y1 - y0) / (x1 - x0);
}

}  // namespace

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
    case Precision::kFp8:
      return "fp8";
    case Precision::kMxfp8:
      return "mxfp8";
    case Precision::kNvfp4:
      return "nvfp4";
  }
  invariant(false, "a precision of the enumeration");
  return {};
}

std::span<const Precision> all_precisions() {
  return kAllPrecisions;
}

double bytes_of(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
    case Precision::kFp16:
      return 2;
    case Precision::kFp8:
    case Precision::kMxfp8:
      return 1;
    case Precision::kNvfp4:
      return 0.5;
  }
  invariant(false, "a precision of the enumeration");
  return 0;
}

PowerCurve::PowerCurve(std::vector<PowerPoint> points) : points_(std::move(points)) {
  invariant(!points_.empty() && points_.front() == PowerPoint{1, 1}, "a power curve starts at (1, 1)");
  for (std::size_t i = 1; i < points_.size(); ++i) {
    invariant(points_[i].power_fraction > points_[i - 1].power_fraction &&
                  points_[i].compute_speed > points_[i - 1].compute_speed,
              "a power curve rises strictly");
  }
}

double PowerCurve::speed_at(double power_fraction) const {
  invariant(!empty() && power_fraction >= 1 && power_fraction <= max_power(), "power within the curve");
  const auto above = std::ranges::lower_bound(points_, power_fraction, {}, &PowerPoint::power_fraction);
  if (above->power_fraction == power_fraction) return above->compute_speed;
  const auto below = above - 1;
  return interpolate(power_fraction, below->power_fraction, above->power_fraction, below->compute_speed,
                     above->compute_speed);
}

std::optional<double> PowerCurve::power_for(double speed) const {
  invariant(!empty(), "a power curve with points");
  if (speed <= 1) return 1;
  const auto above = std::ranges::lower_bound(points_, speed, {}, &PowerPoint::compute_speed);
  if (above == points_.end()) return std::nullopt;
  const auto below = above - 1;
  return interpolate(speed, below->compute_speed, above->compute_speed, below->power_fraction,
                     above->power_fraction);
}

std::optional<FlopRate> GpuSpec::peak(Precision precision) const {
  const auto if_any = [](FlopRate rate) { return rate > FlopRate() ? std::optional(rate) : std::nullopt; };
  switch (precision) {
    case Precision::kBf16:
    case Precision::kFp16:
      return if_any(peak_bf16);
    case Precision::kFp8:
      return if_any(peak_fp8);
    case Precision::kMxfp8:
      // Block scales need the tensor cores of Blackwell, the first with FP4.
      return peak_fp4 > FlopRate() ? if_any(peak_fp8) : std::nullopt;
    case Precision::kNvfp4:
      return if_any(peak_fp4);
  }
  invariant(false, "a precision of the enumeration");
  return std::nullopt;
}

GpuGeneration generation_of(const GpuSpec& gpu) {
  if (gpu.peak_fp4 > FlopRate()) return GpuGeneration::kBlackwell;
  return gpu.peak_fp8 > FlopRate() ? GpuGeneration::kHopper : GpuGeneration::kAmpere;
}

const EfficiencySet& efficiency_of(const GpuSpec& gpu) {
  return gpu.efficiency ? *gpu.efficiency : efficiency_of(generation_of(gpu));
}

const GpuSpec* find_gpu(std::string_view name) {
  const auto found = std::ranges::find(gpu_catalog(), name, &GpuSpec::name);
  return found == gpu_catalog().end() ? nullptr : &*found;
}

const SystemSpec* find_system(std::string_view name) {
  const auto found = std::ranges::find(system_catalog(), name, &SystemSpec::name);
  return found == system_catalog().end() ? nullptr : &*found;
}

}  // namespace ntpsim::models
