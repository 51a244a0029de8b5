#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/gemm_cost.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/layer_weights.h"
#include "ntpsim/models/pass_program.h"
#include "ntpsim/models/replica_groups.h"
#include "ntpsim/models/tensor_parallel.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// Operations of one layer for one microbatch on the fullest rank of a tensor-parallel (TP) group, priced and
// put on streams (models/pass_program.h).
//
// Compute:
//   GEMMs:          models/gemm_cost.h; the backward pass is two. The output layer and the router run in 16
//   bits, the
//                   experts of a rank as one grouped GEMM, tokens balanced over experts.
//   attention:      fused, S scores (query, key in sight and head) take forward
//                     (2 (d_qk + d_v) S / peak + S / exponentials) / e
//                   with e the `attention` efficiency; backward 2.5 times the FLOPs (scores are computed
//                   again: Dao, FlashAttention-2, 2023) and the exponentials once more, at 0.85 e. Peak is
//                   that of 16 bits, or of 8 with `fp8_dot_product_attention`; a multiprocessor does 16
//                   exponentials a clock. Unfused, the whole square of scores as GEMMs, and 13 bytes a score
//                   forward and 17 backward through memory.
//   element-wise:   bytes over memory bandwidth times its efficiency: norms, residuals, activations, rotary
//                   embedding, permutations of tokens to experts and back, cross entropy; casts of GEMM
//                   operands below 16 bits that no norm or activation writes itself (2 + 2 b bytes a value, b
//                   in the narrow format, times the format's `casts`).
//   launches:       the host launches every kernel outside of CUDA graphs in `launch_s`, and experts one
//   kernel each
//                   unless fused; where it waits for the counts of tokens, nothing is launched ahead.
//   recomputation:  full or block, the forward pass of a layer again, collectives included; selective,
//   attention only.
// `compute_speed` divides what the tensor cores bound, not what memory, networks or the host bound.
//
// Communication (sizes by Korthikanti et al. 2022, arXiv 2205.05198):
//   TP:    with sequence parallelism an all-gather before and a reduce-scatter after each block, forward and
//   backward,
//          and in the backward pass one more all-gather of the block's input; else an all-reduce per block
//          and direction. The backward collectives of a block's first GEMM run beside its own two backward
//          GEMMs. `tp_comm_overlap` cuts the others (sequence parallelism only) into `degree` pieces behind
//          the GEMM that they belong to.
//   CP:    a ring of cp - 1 exchanges of keys and values beside the attention; twice the bytes backward.
//   EP:    an all-to-all before and after the experts, in each direction: of every copy of a token, or, with
//   kernels
//          that permute as they send, of one for each rank that holds experts of it (expected number, experts
//          equally likely). `overlap_moe_expert_parallel_comm` runs them beside a whole pass.
//   FSDP:  weights gathered beside each pass, gradients reduced beside the backward one.
//
// How well this describes published runs: `ntpsim validate` and tests/validation/throughput_test.cc.

namespace ntpsim::models {

/// Seconds of both passes.
struct PieceTime {
  PassTime forward;
  PassTime backward;  ///< recomputation included

  [[nodiscard]] double total_s() const { return forward.total_s() + backward.total_s(); }
  PieceTime& operator+=(const PieceTime& other);
};

/// Prices layers at one TP degree and speed. Keeps pointers: the specs must outlive it. A pass takes some
/// microseconds to price.
class LayerCost {
 public:
  /// REQUIRES: 1 <= degree <= tensor_model_parallel_size, compute_speed > 0, the GPU has the precision.
  LayerCost(const SystemSpec& system, const TransformerSpec& model, const TrainingSpec& training, int degree,
            double compute_speed);

  [[nodiscard]] PassProgram forward(LayerKind kind) const;
  /// `recomputed`: the whole layer is computed again first.
  [[nodiscard]] PassProgram backward(LayerKind kind, bool recomputed) const;
  /// Both passes, played.
  [[nodiscard]] PieceTime layer(LayerKind kind, bool recomputed) const;

  /// Token embedding, on the first stage.
  [[nodiscard]] PassProgram embedding_forward() const;
  [[nodiscard]] PassProgram embedding_backward() const;
  [[nodiscard]] PieceTime embedding() const;
  /// Output layer (in 16 bits) and cross entropy, on the last stage; with multi-token prediction, as many
  /// times more.
  [[nodiscard]] PassProgram output_forward() const;
  [[nodiscard]] PassProgram output_backward() const;
  [[nodiscard]] PieceTime output() const;

  /// Tokens of one microbatch on one context-parallel rank.
  [[nodiscard]] double tokens() const { return tokens_; }
  /// Tokens of them whose activations one rank keeps between blocks: its share with sequence parallelism,
  /// else all.
  [[nodiscard]] double resident_tokens() const { return resident_tokens_; }

 private:
  class Builder;

  /// A GEMM of the layer with the casts of its operands.
  struct Projection {
    std::string_view name;
    Gemm shape;
    Precision precision = Precision::kBf16;
    double kernels = 1;
    bool casts_input = false;  ///< norms and activations write the narrow format themselves
    bool casts_gradient = true;
  };

  struct AttentionWork {
    std::optional<Projection> down;  ///< of latent attention
    Projection entry;
    std::optional<Projection> up;  ///< of latent attention: keys and values
    Projection exit;
    double entry_width = 0;  ///< per token, of what is gathered for the entry
    double rotated = 0;      ///< values per token
  };

  /// Of the routed experts on the fullest rank.
  struct ExpertWork {
    double sent_rows = 0;  ///< tokens times experts that one rank sends
    double rows = 0;       ///< that the experts of one rank get, all together
    double columns = 0;    ///< of an expert on the rank
    std::int64_t cut = 1;  ///< ranks that an expert is cut over
    Projection up;
    Projection down;
    double permuted_s = 0;  ///< one permutation of the rows
    double exchanged_bytes = 0;
    double exchange_s = 0;
    double gathered_bytes = 0;
    double gather_s = 0;
  };

  [[nodiscard]] double streamed_s(double bytes) const { return bytes / memory_rate_; }
  [[nodiscard]] double hidden_s(double values_per_element) const;
  [[nodiscard]] double bytes_of_tokens(double width) const;
  [[nodiscard]] double attention_s(bool windowed, bool backward) const;
  [[nodiscard]] double ring_bytes() const;
  [[nodiscard]] double exchange_s(double bytes) const;
  [[nodiscard]] Projection projection(std::string_view name, double rows, double outputs,
                                      double inputs) const;
  [[nodiscard]] AttentionWork attention_work() const;
  [[nodiscard]] ExpertWork expert_work() const;
  [[nodiscard]] double activation_passes() const;

  void forward_layer(Builder& to, LayerKind kind) const;
  void backward_layer(Builder& to, LayerKind kind) const;
  void forward_attention(Builder& to, bool windowed) const;
  void backward_attention(Builder& to, bool windowed) const;
  void forward_core(Builder& to, bool windowed) const;
  void forward_mlp(Builder& to, double columns) const;
  void backward_mlp(Builder& to, double columns) const;
  void forward_experts(Builder& to) const;
  void backward_experts(Builder& to) const;
  void exchange_tokens(Builder& to, std::string_view name, const ExpertWork& work) const;
  void shard_weights(Builder& to, LayerKind kind, bool and_reduce) const;
  void forward_output(Builder& to) const;
  void backward_output(Builder& to) const;

  const SystemSpec* system_;
  const TransformerSpec* model_;
  const TrainingSpec* training_;
  CollectiveCost collectives_;
  GemmCost gemms_;
  const EfficiencySet* efficiency_;
  std::int64_t degree_;
  double speed_;
  double memory_rate_;  // bytes/s
  double tokens_;
  double resident_tokens_;
  AttentionShard shard_;
};

}  // namespace ntpsim::models
