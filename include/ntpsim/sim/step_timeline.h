#pragma once

#include <cstdint>

#include "ntpsim/core/timeline.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/sim/step_model.h"

namespace ntpsim::sim {

struct StepTimelineOptions {
  std::int64_t microbatches = 0;           ///< the first ones of the step, as a step of its own; 0: all
  std::int64_t detailed_microbatches = 1;  ///< of them, those whose operations are shown one by one
};

/// The step of one replica, played: a process a pipeline rank, with a track for compute and one each for the
/// streams of tensor, context and expert parallelism, pipeline sends and data-parallel sync. Passes are
/// slices; those of the first detailed microbatches hold their operations. Sends are flows. O(passes +
/// operations). REQUIRES: what `StepModel` does; microbatches >= 0.
[[nodiscard]] Timeline step_timeline(const models::SystemSpec& system, const models::TransformerSpec& model,
                                     const models::TrainingSpec& training, const ReplicaShape& shape,
                                     const StepTimelineOptions& options);

}  // namespace ntpsim::sim
