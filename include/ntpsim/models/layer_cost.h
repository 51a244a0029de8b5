#pragma once

#include <cstdint>

#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/tensor_parallel.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// Seconds that one layer takes for one microbatch, on the fullest rank of a tensor-parallel (TP) group.
//
// Compute:
//   GEMM m x n x k:
//     the longer of 2 m n k / (peak * attainable * sustained * x / (x + x0) * speed), with x the smallest of
//     m, n, k, and of its bytes over the attainable memory bandwidth. The backward pass is two such GEMMs;
//     that of the weights also reads and writes FP32 gradients.
//   attention:
//     fused, 2 (d_qk + d_v) FLOPs per query, key in sight and head at a fixed share of the 16-bit peak, 2.5
//     times as many backward (scores are recomputed: Dao, FlashAttention-2, 2023). Unfused, the whole square
//     of scores as GEMMs, and 13 bytes a score forward and 17 backward through memory.
//   element-wise:
//     bytes over memory bandwidth: a norm and a residual of each block, activation, rotary embedding, casts
//     of GEMM operands below 16 bits, permutation of tokens to experts, cross entropy.
//   experts:
//     GEMMs grouped by the experts of the rank, tokens balanced over experts.
//   recomputation:
//     full, the forward pass of a layer again, collectives included; selective, attention only.
// `speed` is the GPU's speed at its power relative to TDP; it divides what the tensor cores bound, not what
// memory or networks bound.
//
// Communication not hidden (sizes by Korthikanti et al. 2022, arXiv 2205.05198):
//   TP:
//     with sequence parallelism an all-gather before and a reduce-scatter after each block, forward and
//     backward, and in the backward pass one more all-gather of the block's input; else an all-reduce per
//     block and direction. The backward collectives of a block's first GEMM always run beside its own two
//     backward GEMMs. `tp_comm_overlap` cuts the others (sequence parallelism only) into `degree` pieces
//     behind the GEMM they belong to: exposed is one piece, or what is longer than the GEMM.
//   CP:
//     a ring of cp - 1 exchanges of keys and values, each behind 1/cp of the attention; twice the bytes
//     backward.
//   EP:
//     an all-to-all before and after the experts, in each direction, exposed.
//
// A degree need not divide anything: the planner cuts the tensors (models/tensor_parallel.h), and the fullest
// rank is priced. An expert-parallel group that lost TP ranks spreads its experts over those left.
//
// Holds for dense models within the bounds of tests/validation/throughput_test.cc.

namespace ntpsim::models {

/// What a generation of GPUs reaches in training runs: fitted to published runs, one set per generation.
struct Efficiency {
  double gemm_sustained;  ///< GEMM rate in a long run over the best measured one, 16 bits (power throttling)
  double gemm_sustained_narrow;  ///< the same for 8 and 4 bits
  double gemm_half_dimension;    ///< x0: the smallest dimension at which a GEMM reaches half its rate
  double attention_forward;      ///< fused attention over the 16-bit peak
  double attention_backward;
  double memory;  ///< attainable over peak memory bandwidth
};

[[nodiscard]] const Efficiency& efficiency_of(GpuGeneration generation);

/// Seconds of one pass.
struct PassTime {
  double compute_s = 0;
  double tp_s = 0;  ///< exposed
  double cp_s = 0;  ///< exposed
  double ep_s = 0;  ///< exposed

  [[nodiscard]] double total_s() const { return compute_s + tp_s + cp_s + ep_s; }
  PassTime& operator+=(const PassTime& other);
};

/// Seconds of both passes.
struct PieceTime {
  PassTime forward;
  PassTime backward;  ///< recomputation included

  [[nodiscard]] double total_s() const { return forward.total_s() + backward.total_s(); }
  PieceTime& operator+=(const PieceTime& other);
};

/// Attention heads on the fullest rank of a TP group.
struct AttentionShard {
  std::int64_t heads;
  std::int64_t groups;  ///< KV groups that they need
};

/// Of a TP group that runs at `degree`, the lowest of a job of this TP size. REQUIRES: 1 <= degree <= the TP
/// size.
[[nodiscard]] AttentionShard attention_shard(const TransformerSpec& model,
                                             std::int64_t tensor_model_parallel_size, int degree);

/// Weights of the fullest rank. Those of experts are counted apart: they are synced over fewer ranks.
struct RankWeights {
  double dense = 0;
  double experts = 0;

  RankWeights& operator+=(const RankWeights& other);
};

/// Weights of a layer on the fullest rank at this TP degree. REQUIRES: 1 <= degree <= the TP size.
[[nodiscard]] RankWeights layer_weights(const TransformerSpec& model, const TrainingSpec& training,
                                        LayerKind kind, int degree);
/// Weights of the embedding, or of the output layer.
[[nodiscard]] RankWeights vocabulary_weights(const TransformerSpec& model, int degree);

/// Weights that the busiest rank sends or receives when the extra ranks of a layer hand their gradients to
/// the core ranks, tensor after tensor (`resharded_elements`). REQUIRES: 1 <= sync_degree <= compute_degree
/// <= the TP size.
[[nodiscard]] double layer_reshard_weights(const TransformerSpec& model, const TrainingSpec& training,
                                           LayerKind kind, int compute_degree, int sync_degree);
[[nodiscard]] double vocabulary_reshard_weights(const TransformerSpec& model, int compute_degree,
                                                int sync_degree);

/// Prices layers at one TP degree and speed. Keeps pointers: the specs must outlive it. O(1) per call.
class LayerCost {
 public:
  /// REQUIRES: 1 <= degree <= tensor_model_parallel_size, compute_speed > 0, the GPU has the precision.
  LayerCost(const SystemSpec& system, const TransformerSpec& model, const TrainingSpec& training, int degree,
            double compute_speed);

  [[nodiscard]] PieceTime layer(LayerKind kind) const;
  /// Token embedding, on the first stage.
  [[nodiscard]] PieceTime embedding() const;
  /// Output layer (in 16 bits) and cross entropy, on the last stage.
  [[nodiscard]] PieceTime output() const;

  /// Tokens of one microbatch on one context-parallel rank.
  [[nodiscard]] double tokens() const { return tokens_; }
  /// Tokens of them whose activations one rank keeps between blocks: its share with sequence parallelism,
  /// else all.
  [[nodiscard]] double resident_tokens() const { return resident_tokens_; }

 private:
  /// Forward and backward seconds of one kind of work.
  struct Span {
    double forward = 0;
    double backward = 0;
    Span& operator+=(Span other);
  };
  struct Gemm {
    double rows = 0;
    double outputs = 0;
    double inputs = 0;
    double count = 1;  ///< of such GEMMs, grouped
  };

  [[nodiscard]] Span gemm(const Gemm& shape, Precision precision) const;
  [[nodiscard]] Span model_gemm(const Gemm& shape) const { return gemm(shape, training_->precision); }
  [[nodiscard]] Span casts(const Gemm& shape) const;
  /// `bytes` forward and twice as many backward.
  [[nodiscard]] Span elementwise(double bytes) const;
  [[nodiscard]] Span attention_core(bool windowed) const;
  [[nodiscard]] Span norm_and_residual() const;
  [[nodiscard]] PieceTime attention_block(bool windowed) const;
  [[nodiscard]] PieceTime mlp_block(double ffn_columns) const;
  [[nodiscard]] PieceTime expert_block() const;
  /// Work of one rank alone.
  [[nodiscard]] static PieceTime local(Span span);
  /// A block's column-parallel first GEMM with its collectives; `width` is what an all-gather moves per
  /// token.
  [[nodiscard]] PieceTime entry_gemm(Span gemm, double width) const;
  /// A block's row-parallel last GEMM with its collectives.
  [[nodiscard]] PieceTime exit_gemm(Span gemm) const;
  [[nodiscard]] double gather_s(double width, std::int64_t ranks) const;
  [[nodiscard]] double reduce_s() const;
  [[nodiscard]] double behind(double collective_s, double gemm_s) const;
  [[nodiscard]] Span ring_exchange(Span attention) const;

  const SystemSpec* system_;
  const TransformerSpec* model_;
  const TrainingSpec* training_;
  CollectiveCost collectives_;
  Efficiency efficiency_;
  std::int64_t degree_;
  double speed_;
  double memory_rate_;  // bytes/s
  double tokens_;
  double resident_tokens_;
  AttentionShard shard_;
};

}  // namespace ntpsim::models
