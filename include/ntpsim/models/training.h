#pragma once

#include <cstdint>
#include <numeric>

#include "ntpsim/models/hardware.h"

namespace ntpsim::models {

enum class Recompute : unsigned char { kNone, kSelective, kFull };

/// How a job is cut over GPUs, under Megatron's names.
struct TrainingSpec {
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t virtual_pipeline_model_parallel_size = 1;  ///< model chunks per pipeline rank
  std::int64_t context_parallel_size = 1;
  std::int64_t expert_model_parallel_size = 1;
  std::int64_t expert_tensor_parallel_size = 1;
  std::int64_t data_parallel_size = 1;  ///< resolved: replicas of the healthy job
  std::int64_t micro_batch_size = 1;    ///< sequences
  std::int64_t global_batch_size = 1;   ///< sequences per step of the healthy job
  std::int64_t seq_length = 1;          ///< tokens
  Precision precision = Precision::kBf16;
  Recompute recompute_granularity = Recompute::kNone;
  bool fused_attention = true;  ///< FlashAttention kind; otherwise the scores pass through memory
  bool sequence_parallel = true;
  bool tp_comm_overlap = false;      ///< collectives of sequence parallelism hidden behind GEMMs
  bool overlap_grad_reduce = true;   ///< gradient reduction behind the last backward
  bool overlap_param_gather = true;  ///< parameter gather behind the next forward
  bool use_distributed_optimizer = true;

  /// GPUs of one data-parallel replica.
  [[nodiscard]] std::int64_t gpus_per_replica() const {
    return tensor_model_parallel_size * pipeline_model_parallel_size * context_parallel_size;
  }
  /// Sequences that one healthy replica takes per step.
  [[nodiscard]] std::int64_t local_batch() const { return global_batch_size / data_parallel_size; }
  /// Microbatches that one healthy replica takes per step.
  [[nodiscard]] std::int64_t microbatches() const { return local_batch() / micro_batch_size; }
  /// Expert-parallel groups span data-parallel replicas once they need more ranks than one pipeline stage of
  /// one replica has: this many replicas must come and go together.
  [[nodiscard]] std::int64_t replicas_per_expert_group() const {
    const std::int64_t expert_ranks = expert_model_parallel_size * expert_tensor_parallel_size;
    const std::int64_t stage_ranks = tensor_model_parallel_size * context_parallel_size;
    return std::lcm(expert_ranks, stage_ranks) / stage_ranks;
  }

  bool operator==(const TrainingSpec&) const = default;
};

}  // namespace ntpsim::models
