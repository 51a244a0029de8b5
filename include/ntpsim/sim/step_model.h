#pragma once

#include <cstdint>
#include <vector>

#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// The step of one replica: its layers' passes (models/layer_cost.h) played in a pipeline (sim/pipeline.h).
//
// Data-parallel sync over DP x CP ranks (experts: over those that hold the same ones), per core rank and
// model chunk: with the distributed optimizer gradients are reduce-scattered and 16-bit weights gathered,
// else gradients are all-reduced. Where a job has reduced replicas (sync degree below the own degree), extra
// ranks first send their gradients to the core ranks over NVLink, and afterwards get back gradients, or with
// the distributed optimizer weights. `overlap_grad_reduce` runs the gradients' way beside the backward passes
// that follow, `overlap_param_gather` the weights' beside the first forward passes. Fully sharded weights are
// gathered and their gradients reduced in every pass instead. The optimizer step (Adam) moves 30 bytes per
// weight that a rank owns.

namespace ntpsim::sim {

/// What distinguishes one replica of a job from another as far as its step time goes.
struct ReplicaShape {
  int tp_degree = 1;    ///< ranks of each TP group
  int sync_degree = 1;  ///< smallest TP degree in the job: gradients sync among this many core ranks
  std::int64_t microbatches = 1;  ///< per step
  double compute_speed = 1;       ///< of compute-bound work, relative to TDP (power boost)
  /// Ranks of the TP group of every pipeline rank, where they differ; empty: `tp_degree` throughout.
  std::vector<int> stage_degrees = {};
};

/// Seconds of one step, by what the slowest pipeline stage spends them on. The parts sum to the step time.
struct StepBreakdown {
  double compute_s = 0;            ///< GEMM, attention, element-wise, recomputation
  double exposed_tp_s = 0;         ///< tensor-parallel communication not hidden
  double exposed_cp_s = 0;         ///< context-parallel communication not hidden
  double exposed_ep_s = 0;         ///< expert-parallel all-to-all not hidden
  double exposed_pp_s = 0;         ///< pipeline sends not hidden
  double bubble_s = 0;             ///< pipeline warm-up and drain
  double exposed_grad_sync_s = 0;  ///< data-parallel sync and resharding not hidden
  double optimizer_s = 0;

  [[nodiscard]] double total_s() const {
    return compute_s + exposed_tp_s + exposed_cp_s + exposed_ep_s + exposed_pp_s + bubble_s +
           exposed_grad_sync_s + optimizer_s;
  }
};

/// The time of one training step of one replica. Immutable and thread-safe after construction.
class StepModel {
 public:
  /// REQUIRES: the training fits the model and system (the scenario reader checks it): sizes are positive,
  /// the TP degree is at most the domain size, and the GPU has the precision.
  StepModel(models::SystemSpec system, models::TransformerSpec model, models::TrainingSpec training);

  /// Cost independent of the number of microbatches. REQUIRES: 1 <= sync_degree <= tp_degree (and every stage
  /// degree) <= tensor_model_parallel_size, microbatches >= 1, compute_speed > 0.
  [[nodiscard]] StepBreakdown step(const ReplicaShape& shape) const;

  /// The healthy replica of the healthy job.
  [[nodiscard]] ReplicaShape healthy_shape() const;

 private:
  models::SystemSpec system_;
  models::TransformerSpec model_;
  models::TrainingSpec training_;
};

}  // namespace ntpsim::sim
