#include "ntpsim/models/layer_weights.h"

#include <algorithm>

#include "ntpsim/plan/head_cut.h"
#include "ntpsim/plan/shard_layout.h"
#include "ntpsim/plan/sync_plan.h"

namespace ntpsim::models {
namespace {

double real(std::int64_t value) {
  return static_cast<double>(value);
}

/// Weights of the attention block that each rank holds whole: the latent down projections.
double copied_attention_parameters(const TransformerSpec& model) {
  if (!model.latent_attention) return 0;
  const auto& latent = *model.latent_attention;
  return real(model.hidden_size) *
         real(latent.q_lora_rank + latent.kv_lora_rank + latent.qk_pos_emb_head_dim);
}

/// The experts of an MoE model; none of a dense one.
TransformerSpec::Experts experts_of(const TransformerSpec& model) {
  return model.experts.value_or(TransformerSpec::Experts{});
}

/// Expert ranks that are left when the TP groups under them have `degree` ranks, in units of 1/tp.
std::int64_t expert_ranks_times_tp(const TrainingSpec& training, int degree) {
  return std::max(training.expert_model_parallel_size * degree, training.tensor_model_parallel_size);
}

bool experts_cut_over_tp_group(const TrainingSpec& training) {
  return training.expert_tensor_parallel_size == training.tensor_model_parallel_size;
}

/// Ranks that an expert is cut over. Where those are the whole TP group, they are what is left of it.
std::int64_t expert_tp(const TrainingSpec& training, int degree) {
  return experts_cut_over_tp_group(training) ? degree : training.expert_tensor_parallel_size;
}

std::int64_t local_experts(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  if (experts_cut_over_tp_group(training)) {
    return plan::max_units(experts_of(model).num_experts, training.expert_model_parallel_size);
  }
  return plan::max_units(experts_of(model).num_experts * training.tensor_model_parallel_size,
                         expert_ranks_times_tp(training, degree));
}

}  // namespace

RankWeights& RankWeights::operator+=(const RankWeights& other) {
  dense += other.dense;
  experts += other.experts;
  return *this;
}

AttentionShard attention_shard(const TransformerSpec& model, std::int64_t tensor_model_parallel_size,
                               int degree) {
  const plan::HeadCut cut = head_cut(model, tensor_model_parallel_size);
  if (!cut.copies_groups) {
    const std::int64_t units = plan::max_units(cut.units(), degree);
    return {.heads = units * cut.heads_per_unit(), .groups = units};
  }
  const plan::ShardLayout heads =
      plan::sync_layout(cut.heads, static_cast<int>(tensor_model_parallel_size), degree);
  const plan::GroupCopies copies(heads, cut.heads_per_group());
  AttentionShard fullest{};
  for (int rank = 0; rank < degree; ++rank) {
    const AttentionShard shard = {.heads = heads.units_of(rank), .groups = copies.count_of(rank)};
    if (shard.heads + shard.groups > fullest.heads + fullest.groups) fullest = shard;
  }
  return fullest;
}

RankWeights layer_weights(const TransformerSpec& model, const TrainingSpec& training, LayerKind kind,
                          int degree) {
  const int full_degree = static_cast<int>(training.tensor_model_parallel_size);
  RankWeights weights;
  weights.dense = copied_attention_parameters(model);
  for (const auto& tensors : {attention_tensors(model, training), mlp_tensors(model, kind)}) {
    for (const TpTensor& tensor : tensors) {
      weights.dense += elements_on_fullest_rank(tensor, full_degree, degree);
    }
  }
  if (kind.moe) {
    weights.dense += real(model.hidden_size * experts_of(model).num_experts);  // every rank has the router
    const ExpertShard shard = expert_shard(model, training, degree);
    weights.experts = real(shard.experts * shard.columns * model.hidden_size) * model.mlp_matrices();
  }
  return weights;
}

RankWeights vocabulary_weights(const TransformerSpec& model, int degree) {
  return {.dense = elements_on_fullest_rank(embedding_tensor(model), degree, degree), .experts = 0};
}

double layer_reshard_weights(const TransformerSpec& model, const TrainingSpec& training, LayerKind kind,
                             int compute_degree, int sync_degree) {
  const int full_degree = static_cast<int>(training.tensor_model_parallel_size);
  double weights = 0;
  for (const TpTensor& tensor : layer_tensors(model, training, kind)) {
    weights += resharded_elements(tensor, full_degree, compute_degree, sync_degree);
  }
  return weights;
}

double vocabulary_reshard_weights(const TransformerSpec& model, int compute_degree, int sync_degree) {
  return resharded_elements(embedding_tensor(model), compute_degree, compute_degree, sync_degree);
}

std::int64_t mlp_columns(const TransformerSpec& model, LayerKind kind) {
  return kind.moe ? experts_of(model).shared_expert_intermediate_size : model.ffn_hidden_size;
}

ExpertShard expert_shard(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  const std::int64_t cut = expert_tp(training, degree);
  return {.experts = local_experts(model, training, degree),
          .columns = plan::max_units(experts_of(model).ffn_hidden_size, cut),
          .cut = cut,
          .ranks = experts_cut_over_tp_group(training) ? real(training.expert_model_parallel_size)
                                                       : real(expert_ranks_times_tp(training, degree)) /
                                                             real(training.tensor_model_parallel_size)};
}

}  // namespace ntpsim::models
