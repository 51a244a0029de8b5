#include "ntpsim/models/tensor_parallel.h"

#include <algorithm>
#include <array>
#include <span>

#include "ntpsim/core/invariant.h"
#include "ntpsim/plan/sync_plan.h"

namespace ntpsim::models {
namespace {

double real(std::int64_t value) {
  return static_cast<double>(value);
}

std::vector<TpTensor> latent_attention_tensors(const TransformerSpec& model) {
  const TransformerSpec::LatentAttention& latent = *model.latent_attention;
  const std::int64_t heads = model.num_attention_heads;
  const bool compressed = latent.q_lora_rank > 0;
  const double query_inputs = real(compressed ? latent.q_lora_rank : model.hidden_size);
  return {
      {.name = compressed ? "self_attention.linear_q_up_proj" : "self_attention.linear_q_proj",
       .unit = "head",
       .units = heads,
       .elements_per_unit = query_inputs * real(model.query_width())},
      {.name = "self_attention.linear_kv_up_proj",
       .unit = "head",
       .units = heads,
       .elements_per_unit = real(latent.kv_lora_rank * (latent.qk_head_dim + latent.v_head_dim))},
      {.name = "self_attention.linear_proj",
       .unit = "head",
       .units = heads,
       .elements_per_unit = real(latent.v_head_dim * model.hidden_size)},
  };
}

/// First and last matrix of an MLP whose columns are cut; gate and up column of a pair stay together.
std::vector<TpTensor> column_tensors(const std::array<std::string_view, 2>& names, std::string_view unit,
                                     std::int64_t columns, double per_matrix, double mlp_matrices) {
  if (columns == 0) return {};
  return {
      {.name = names[0],
       .unit = unit,
       .units = columns,
       .elements_per_unit = (mlp_matrices - 1) * per_matrix},
      {.name = names[1], .unit = unit, .units = columns, .elements_per_unit = per_matrix},
  };
}

constexpr std::array<std::string_view, 2> kExpertNames = {"mlp.experts.linear_fc1", "mlp.experts.linear_fc2"};

/// Copies that the busiest rank sends or receives.
std::int64_t copies_moved(const plan::ShardLayout& compute, const plan::ShardLayout& sync,
                          std::int64_t heads_per_group) {
  const std::vector<plan::Transfer> transfers =
      plan::gather_group_copies(plan::GroupCopies(compute, heads_per_group), sync, heads_per_group);
  return plan::traffic_of(transfers, compute.degree()).bottleneck();
}

}  // namespace

LayerKind kind_of(const TransformerSpec& model, std::int64_t layer) {
  return {.moe = model.is_moe_layer(layer), .windowed = model.is_windowed_layer(layer)};
}

plan::HeadCut head_cut(const TransformerSpec& model, std::int64_t tensor_model_parallel_size) {
  const std::int64_t groups = model.latent_attention ? model.num_attention_heads : model.num_query_groups;
  return {model.num_attention_heads, groups, static_cast<int>(tensor_model_parallel_size)};
}

std::vector<TpTensor> attention_tensors(const TransformerSpec& model, const TrainingSpec& training) {
  if (model.latent_attention) return latent_attention_tensors(model);
  const plan::HeadCut cut = head_cut(model, training.tensor_model_parallel_size);
  const double head = real(model.kv_channels * model.hidden_size);
  const double heads = real(cut.heads_per_unit());
  if (!cut.copies_groups) {
    const std::string_view unit = cut.heads_per_group() > 1 ? "KV group" : "head";
    return {
        {.name = "self_attention.linear_qkv",
         .unit = unit,
         .units = cut.units(),
         .elements_per_unit = (heads + 2) * head},
        {.name = "self_attention.linear_proj",
         .unit = unit,
         .units = cut.units(),
         .elements_per_unit = heads * head},
    };
  }
  return {
      {.name = "self_attention.linear_qkv.query",
       .unit = "query head",
       .units = cut.units(),
       .elements_per_unit = head},
      {.name = "self_attention.linear_qkv.key_value",
       .unit = "KV group",
       .units = cut.groups,
       .elements_per_unit = 2 * head,
       .heads_per_group = cut.heads_per_group()},
      {.name = "self_attention.linear_proj",
       .unit = "query head",
       .units = cut.units(),
       .elements_per_unit = head},
  };
}

std::vector<TpTensor> mlp_tensors(const TransformerSpec& model, LayerKind kind) {
  const double hidden = real(model.hidden_size);
  if (!kind.moe) {
    return column_tensors({"mlp.linear_fc1", "mlp.linear_fc2"}, "FFN column", model.ffn_hidden_size, hidden,
                          model.mlp_matrices());
  }
  const std::int64_t columns = model.experts ? model.experts->shared_expert_intermediate_size : 0;
  return column_tensors({"mlp.shared_experts.linear_fc1", "mlp.shared_experts.linear_fc2"}, "FFN column",
                        columns, hidden, model.mlp_matrices());
}

std::vector<TpTensor> expert_tensors(const TransformerSpec& model, const TrainingSpec& training) {
  if (!model.experts) return {};
  const std::int64_t tp = training.tensor_model_parallel_size;
  const std::int64_t ep = training.expert_model_parallel_size;
  const double column = real(model.hidden_size);
  if (training.expert_tensor_parallel_size > 1 && training.expert_tensor_parallel_size != tp) return {};
  if (training.expert_tensor_parallel_size > 1) {
    const double local = real(plan::max_units(model.experts->num_experts, ep));
    return column_tensors(kExpertNames, "expert column", model.experts->ffn_hidden_size, local * column,
                          model.mlp_matrices());
  }
  if (ep == 1) return {};
  return column_tensors(kExpertNames, "expert", plan::max_units(model.experts->num_experts * tp, ep),
                        real(model.experts->ffn_hidden_size) * column, model.mlp_matrices());
}

TpTensor embedding_tensor(const TransformerSpec& model) {
  return {.name = "embedding.word_embeddings",
          .unit = "vocabulary row",
          .units = model.vocab_size,
          .elements_per_unit = real(model.hidden_size)};
}

TpTensor output_tensor(const TransformerSpec& model) {
  TpTensor output = embedding_tensor(model);
  output.name = "output_layer";
  return output;
}

std::vector<TpTensor> layer_tensors(const TransformerSpec& model, const TrainingSpec& training,
                                    LayerKind kind) {
  std::vector<TpTensor> tensors = attention_tensors(model, training);
  const auto append = [&tensors](const std::vector<TpTensor>& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
  };
  append(mlp_tensors(model, kind));
  if (kind.moe) append(expert_tensors(model, training));
  return tensors;
}

double elements_on_fullest_rank(const TpTensor& tensor, int full_degree, int degree) {
  invariant(degree >= 1 && degree <= full_degree, "degree within the TP group");
  std::int64_t most = 0;
  if (tensor.is_copied()) {
    const plan::ShardLayout heads =
        plan::sync_layout(tensor.units * tensor.heads_per_group, full_degree, degree);
    const plan::GroupCopies copies(heads, tensor.heads_per_group);
    for (int rank = 0; rank < degree; ++rank) most = std::max(most, copies.count_of(rank));
  } else {
    most = plan::max_units(tensor.units, degree);
  }
  return real(most) * tensor.elements_per_unit;
}

double resharded_elements(const TpTensor& tensor, int full_degree, int compute_degree, int sync_degree) {
  invariant(compute_degree <= full_degree, "degree within the TP group");
  std::int64_t moved = 0;
  if (tensor.is_copied()) {
    const std::int64_t heads = tensor.units * tensor.heads_per_group;
    const plan::SyncPlan plan(heads, full_degree, compute_degree, sync_degree);
    const plan::ShardLayout whole(heads, full_degree);
    moved = std::max<std::int64_t>(0, copies_moved(plan.compute(), plan.sync(), tensor.heads_per_group) -
                                          copies_moved(whole, whole, tensor.heads_per_group));
  } else {
    moved = plan::sync_traffic(tensor.units, compute_degree, sync_degree).bottleneck();
  }
  return real(moved) * tensor.elements_per_unit;
}

}  // namespace ntpsim::models
