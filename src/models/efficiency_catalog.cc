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
    {.gemm = 1.26, .casts = 0.3},  // FP8
    {.gemm = 1.22, .casts = 0.3},  // MXFP8
    {.gemm = 1.17, .casts = 4},    // NVFP4
}};

constexpr Efficiency kAmpere{.gemm = 0.772,
                             .gemm_fill_bytes = 111,
                             .attention = 0.6,
                             .dispatch = 1,
                             .memory = 0.93,
                             .launch_s = 1.2e-05};
constexpr Efficiency kHopper{.gemm = 0.708,
                             .gemm_fill_bytes = 984,
                             .attention = 0.486,
                             .dispatch = 0.5,
                             .memory = 0.56,
                             .launch_s = 3.99e-05};
constexpr Efficiency kBlackwell{.gemm = 0.57,
                                .gemm_fill_bytes = 497,
                                .attention = 0.725,
                                .dispatch = 1.95,
                                .memory = 0.5,
                                .launch_s = 3.98e-05};

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
