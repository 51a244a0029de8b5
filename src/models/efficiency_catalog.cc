#include <array>
#include <cstddef>

#include "ntpsim/models/efficiency.h"

namespace ntpsim::models {
namespace {

constexpr std::array<PrecisionEfficiency, kPrecisions> kPrecisionEfficiencies = {{
    {.gemm = 1, .casts = 0},       // bf16
    {.gemm = 1, .casts = 0},       // fp16
    {.gemm = 1, .casts = 1},       // fp8
    {.gemm = 1, .casts = 1},       // mxfp8
    {.gemm = 1, .casts = 1},       // nvfp4
}};

constexpr std::array<EfficiencySet, 3> kEfficiencies = {{
    {.gpu = {.gemm = 0.9, .gemm_fill_bytes = 256, .attention = 0.6, .dispatch = 1, .memory = 0.8, .launch_s = 4e-6},
     .precisions = kPrecisionEfficiencies},
    {.gpu = {.gemm = 0.85, .gemm_fill_bytes = 256, .attention = 0.7, .dispatch = 1, .memory = 0.8, .launch_s = 2e-6},
     .precisions = kPrecisionEfficiencies},
    {.gpu = {.gemm = 0.75, .gemm_fill_bytes = 256, .attention = 0.8, .dispatch = 1, .memory = 0.8, .launch_s = 2e-6},
     .precisions = kPrecisionEfficiencies},
}};

}  // namespace

const EfficiencySet& efficiency_of(GpuGeneration generation) {
  return kEfficiencies.at(static_cast<std::size_t>(generation));
}

}  // namespace ntpsim::models
