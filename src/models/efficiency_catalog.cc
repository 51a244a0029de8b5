#include <array>
#include <cstddef>

#include "ntpsim/models/efficiency.h"

// Fitted by `ntpsim calibrate` to the published runs of data/validation/measured.csv, on one half of their
// configurations (analysis/validation.h says which); `ntpsim validate` shows both halves. No row has an A100
// small enough for kernel launches to matter: the 12 us there are what an operation of eager PyTorch takes.

namespace ntpsim::models {
namespace {

constexpr std::array<PrecisionEfficiency, kPrecisions> kPrecisionEfficiencies = {{
    {.gemm = 1, .casts = 0},  // BF16 and FP16 are what `Efficiency::gemm` is relative to
    {.gemm = 1, .casts = 0},
    {.gemm = 1.26, .casts = 0.576},  // FP8
    {.gemm = 1.27, .casts = 0.328},  // MXFP8
    {.gemm = 0.765, .casts = 1.11},  // NVFP4
}};

constexpr Efficiency kAmpere{.gemm = 0.744,
                             .gemm_fill_bytes = 77.8,
                             .attention = 0.642,
                             .dispatch = 2.01,
                             .memory = 0.93,
                             .launch_s = 1.95e-05};
constexpr Efficiency kHopper{.gemm = 0.708,
                             .gemm_fill_bytes = 632,
                             .attention = 0.493,
                             .dispatch = 0.5,
                             .memory = 0.5,
                             .launch_s = 3.97e-05};
constexpr Efficiency kBlackwell{.gemm = 0.57,
                                .gemm_fill_bytes = 524,
                                .attention = 0.896,
                                .dispatch = 2.52,
                                .memory = 0.5,
                                .launch_s = 3.97e-05};

constexpr std::array<EfficiencySet, 3> kEfficiencies = {{
    {.gpu = kAmpere, .precisions = kPrecisionEfficiencies},
    {.gpu = kHopper, .precisions = kPrecisionEfficiencies},
    {.gpu = kBlackwell, .precisions = kPrecisionEfficiencies},
}};

}  // namespace

const EfficiencySet& efficiency_of(GpuGeneration generation) {
  return kEfficiencies.at(static_cast<std::size_t>(generation));
}

}  // namespace ntpsim::models
