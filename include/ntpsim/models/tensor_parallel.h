#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/plan/head_cut.h"

// The tensors of a transformer that tensor parallelism cuts, under Megatron Core's names, and how: into units
// that stay whole (plan/shard_layout.h). What every rank holds whole (norms, biases, routers, the down
// projections of latent attention) is not among them.

namespace ntpsim::models {

/// What tells the layers of a model apart.
struct LayerKind {
  bool moe = false;
  bool windowed = false;
};

[[nodiscard]] LayerKind kind_of(const TransformerSpec& model, std::int64_t layer);

/// A weight that TP cuts; its gradient and optimizer state are cut alike.
struct TpTensor {
  std::string_view name;         ///< within its layer, as "self_attention.linear_qkv"
  std::string_view unit;         ///< what stays whole, as "KV group"
  std::int64_t units = 0;        ///< in the whole tensor
  double elements_per_unit = 0;  ///< a whole number
  std::int64_t heads_per_group =
      0;  ///< above 0: KV groups copied next to their query heads (plan/head_cut.h)

  [[nodiscard]] bool is_copied() const { return heads_per_group > 0; }
};

/// How attention is cut in a job of this TP size. Latent attention has no KV groups to share: its unit is the
/// head.
[[nodiscard]] plan::HeadCut head_cut(const TransformerSpec& model, std::int64_t tensor_model_parallel_size);

/// The tensors of attention, in the order of the forward pass.
[[nodiscard]] std::vector<TpTensor> attention_tensors(const TransformerSpec& model,
                                                      const TrainingSpec& training);
/// Those of the MLP: dense, or the shared experts of an MoE layer; none if it has no shared experts.
[[nodiscard]] std::vector<TpTensor> mlp_tensors(const TransformerSpec& model, LayerKind kind);
/// Those of the routed experts. Cut over the whole TP group, a pair of their columns is a unit. Spread over
/// expert-parallel ranks, an expert is one, and the tensor is what one TP group holds of them; with fewer
/// expert-parallel ranks than the group has, copies count each. Experts that are whole on every rank, or cut
/// over a part of the group, are none of TP's.
[[nodiscard]] std::vector<TpTensor> expert_tensors(const TransformerSpec& model,
                                                   const TrainingSpec& training);
/// The word embedding, or the output layer.
[[nodiscard]] TpTensor embedding_tensor(const TransformerSpec& model);
[[nodiscard]] TpTensor output_tensor(const TransformerSpec& model);

/// All tensors of a layer.
[[nodiscard]] std::vector<TpTensor> layer_tensors(const TransformerSpec& model, const TrainingSpec& training,
                                                  LayerKind kind);

/// Elements of the tensor on the fullest rank of a TP group that runs at `degree` in a job of TP size
/// `full_degree`; of copied KV groups, as if no other group ran at a lower degree. REQUIRES: 1 <= degree <=
/// full_degree.
[[nodiscard]] double elements_on_fullest_rank(const TpTensor& tensor, int full_degree, int degree);

/// Elements that the busiest rank of a TP group of `compute_degree` sends or receives in one reshard when the
/// job syncs at `sync_degree` (plan/sync_plan.h); of copied KV groups, what comes on top of the sum over
/// copies in a whole job. REQUIRES: 1 <= sync_degree <= compute_degree <= full_degree.
[[nodiscard]] double resharded_elements(const TpTensor& tensor, int full_degree, int compute_degree,
                                        int sync_degree);

}  // namespace ntpsim::models
