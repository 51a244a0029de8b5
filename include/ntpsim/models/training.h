#pragma once

#include <cstdint>
#include <numeric>

#include "ntpsim/models/hardware.h"

namespace ntpsim::models {

/// What is launched as a CUDA graph: nothing, what has static shapes in every layer (attention, router,
/// preprocessing: Transformer Engine's scoped graphs), or the whole iteration.
enum class CudaGraphs : unsigned char { kNone, kScoped, kFullIteration };

/// How tokens get to their experts: NCCL's all-to-all between permutations, with the host waiting for the
/// counts, or kernels that permute as they send (DeepEP, HybridEP: Megatron's "flex").
enum class TokenDispatcher : unsigned char { kAllToAll, kFlex };

/// What the backward pass computes again instead of keeping it: nothing, the attention core, whole layers of
/// the first `recompute_num_layers` of each model chunk (Megatron's "block" method), or all layers.
enum class Recompute : unsigned char { kNone, kSelective, kBlock, kFull };

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
  std::int64_t recompute_num_layers = 0;  ///< of each model chunk; with kBlock only
  /// Layers of the first and of the last pipeline rank, all its chunks together; 0: spread evenly, short of a
  /// layer there before elsewhere.
  std::int64_t decoder_first_pipeline_num_layers = 0;
  std::int64_t decoder_last_pipeline_num_layers = 0;
  bool fused_attention = true;  ///< FlashAttention kind; otherwise the scores pass through memory
  bool sequence_parallel = true;
  bool tp_comm_overlap = false;      ///< collectives of sequence parallelism hidden behind GEMMs
  bool overlap_grad_reduce = true;   ///< gradient reduction behind the last backward
  bool overlap_param_gather = true;  ///< parameter gather behind the next forward
  bool use_distributed_optimizer = true;
  bool grad_reduce_in_fp32 = true;  ///< gradients are kept and reduced in FP32, else in 16 bits
  /// Weights and gradients, too, are sharded over data-parallel ranks; a layer's weights are gathered before
  /// each of its passes. Implies a distributed optimizer.
  bool use_fsdp = false;
  bool overlap_moe_expert_parallel_comm = false;  ///< all-to-all behind another microbatch's compute
  TokenDispatcher moe_token_dispatcher = TokenDispatcher::kFlex;
  bool moe_fused_grouped_mlp = false;  ///< casts and activation of all experts fused into their GEMMs
  CudaGraphs cuda_graphs = CudaGraphs::kNone;
  bool fp8_dot_product_attention = false;  ///< attention's GEMMs in 8 bits, too

  /// Bytes of a weight's gradient, in memory and in its reduction.
  [[nodiscard]] double gradient_bytes() const { return grad_reduce_in_fp32 ? 4 : 2; }
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
