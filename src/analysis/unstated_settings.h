#pragma once

#include "ntpsim/analysis/throughput_table.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

namespace ntpsim::analysis {

/// The settings of a run: what its row states, and one rule for what it leaves open, the same for all rows.
///
/// Microbatches of one sequence, no virtual stages, no tensor parallelism within experts, no recomputation.
/// All overlap is on, unless the source says "no overlap". The runs on A100s (2021 and 2022) predate fused
/// attention and overlapped tensor parallelism, and full recomputation there predates sequence parallelism.
/// Weights are sharded (FSDP) where `fsdp` is above 1.
///
/// REQUIRES: a row that the table's reader let through, with its model and system. The result is one that
/// `sim::StepModel` takes.
[[nodiscard]] models::TrainingSpec training_of(const ThroughputRow& row, const models::TransformerSpec& model,
                                               const models::SystemSpec& system);

}  // namespace ntpsim::analysis
