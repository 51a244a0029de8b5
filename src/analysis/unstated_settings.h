#pragma once

#include "ntpsim/analysis/throughput_table.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

namespace ntpsim::analysis {

/// The settings of a run: what its row states, and one rule for what it leaves open, the same for all rows.
///
///   micro-batch    one sequence; without a pipeline, the most that divide the local batch (by powers of two)
///   and fit virtual stages as many, up to 8, as divide the layers evenly, the ends of the model counted as a
///   layer each or not recomputation  the least that fits memory, with 5% to spare experts        no tensor
///   parallelism within them overlap        all of it, unless the source says "no overlap"; none on A100,
///   whose runs (2021 and 2022) also
///                  predate fused attention and the distributed optimizer, and full recomputation there
///                  sequence parallelism
///   gradients      reduced in 16 bits by Megatron Bridge's recipes (sources that name a container), else in
///   FP32 MoE software   scoped CUDA graphs and kernels that permute as they send; from container 26.06 on,
///   in MXFP8 on
///                  racks, whole-iteration graphs, hidden all-to-all, 8-bit attention and fused experts.
///                  Models with clamped activations run neither fused experts nor, before those graphs, such
///                  a dispatcher.
///
/// REQUIRES: a row that the table's reader let through, with its model and system. The result is one that
/// `sim::StepModel` takes.
[[nodiscard]] models::TrainingSpec training_of(const ThroughputRow& row, const models::TransformerSpec& model,
                                               const models::SystemSpec& system);

}  // namespace ntpsim::analysis
