#pragma once

#include <cstdint>

#include "ntpsim/models/tensor_parallel.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// What the fullest rank of a TP group holds of a layer. A degree need not divide anything: the planner cuts
// the tensors (models/tensor_parallel.h). An expert-parallel group that lost TP ranks spreads its experts
// over those left.

namespace ntpsim::models {

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

/// Columns of the MLP that TP cuts, all ranks together: the dense one's, or those of an MoE layer's shared
/// experts.
[[nodiscard]] std::int64_t mlp_columns(const TransformerSpec& model, LayerKind kind);

/// Routed experts of the fullest rank.
struct ExpertShard {
  std::int64_t experts = 0;  ///< that it holds, or a cut of each
  std::int64_t columns = 0;  ///< of each, on this rank
  std::int64_t cut = 1;      ///< ranks that an expert is cut over
  double ranks = 1;          ///< expert-parallel ranks that are left
};

/// REQUIRES: an MoE model; 1 <= degree <= the TP size.
[[nodiscard]] ExpertShard expert_shard(const TransformerSpec& model, const TrainingSpec& training,
                                       int degree);

}  // namespace ntpsim::models
