#pragma once

#include <cstdint>

#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// The step of one replica, from the times of its layers (models/layer_cost.h).
//
// Pipeline: layers go to p x v model chunks (ranks x virtual stages) as evenly as possible, the first and the
// last chunk short before others, the embedding to the first and the output layer to the last; chunk c runs
// on rank c mod p. With t_i = forward and backward seconds of one microbatch on rank i and t the longest,
// 1F1B and its interleaved form (Narayanan et al., SC'21) take
//
//   T = m t + (sum of t_i - t) / v + sends
//
// for m microbatches. Of the sends between ranks, the warm-up and the drain expose p - 1 each, and without
// virtual stages every microbatch exposes one in each direction; with them they run beside the compute. The
// time at the end of the pipeline when m does not divide into rounds of p is left out.
//
// Data-parallel sync over DP x CP ranks (experts: over those that hold the same ones), per core rank of the
// fullest stage: with the distributed optimizer FP32 gradients are reduce-scattered and 16-bit weights
// gathered, else gradients are all-reduced. Where a job has reduced replicas (sync degree below the own
// degree), extra ranks first send their FP32 gradients to the core ranks over NVLink, and afterwards get back
// gradients, or with the distributed optimizer weights. `overlap_grad_reduce` hides the gradients' way behind
// the backward pass of the last microbatch, `overlap_param_gather` the weights' behind the forward pass of
// the first, but for one layer's share of it; an interleaved pipeline takes its chunks in turn for p
// microbatches each, so the window is 1 + (p - 1) (v - 1) / v microbatches long. The optimizer step (Adam)
// moves 30 bytes per weight that it owns.

namespace ntpsim::sim {

/// What distinguishes one replica of a job from another as far as its step time goes.
struct ReplicaShape {
  int tp_degree = 1;    ///< ranks of each TP group
  int sync_degree = 1;  ///< smallest TP degree in the job: gradients sync among this many core ranks
  std::int64_t microbatches = 1;  ///< per step
  double compute_speed = 1;       ///< of compute-bound work, relative to TDP (power boost)
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

  /// Cost independent of the number of microbatches. REQUIRES: 1 <= sync_degree <= tp_degree <=
  /// tensor_model_parallel_size, microbatches >= 1, compute_speed > 0.
  [[nodiscard]] StepBreakdown step(const ReplicaShape& shape) const;

  /// The healthy replica of the healthy job.
  [[nodiscard]] ReplicaShape healthy_shape() const;

 private:
  models::SystemSpec system_;
  models::TransformerSpec model_;
  models::TrainingSpec training_;
};

}  // namespace ntpsim::sim
