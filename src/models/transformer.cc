#include "ntpsim/models/transformer.h"

namespace ntpsim::models {
namespace {

double real(std::int64_t value) {
  return static_cast<double>(value);
}

double latent_attention_parameters(const TransformerSpec& model,
                                   const TransformerSpec::LatentAttention& latent) {
  const double hidden = real(model.hidden_size);
  const double heads = real(model.num_attention_heads);
  const double queries = heads * real(latent.qk_head_dim + latent.qk_pos_emb_head_dim);
  const double query_rank = real(latent.q_lora_rank);
  const double query = latent.q_lora_rank > 0 ? query_rank * (hidden + queries) : hidden * queries;
  const double kv_down = hidden * real(latent.kv_lora_rank + latent.qk_pos_emb_head_dim);
  const double kv_up = real(latent.kv_lora_rank) * heads * real(latent.qk_head_dim + latent.v_head_dim);
  return query + kv_down + kv_up + heads * real(latent.v_head_dim) * hidden;
}

}  // namespace

std::int64_t TransformerSpec::query_width() const {
  return latent_attention ? latent_attention->qk_head_dim + latent_attention->qk_pos_emb_head_dim
                          : kv_channels;
}

std::int64_t TransformerSpec::value_width() const {
  return latent_attention ? latent_attention->v_head_dim : kv_channels;
}

double TransformerSpec::mean_keys(std::int64_t seq_length, bool windowed) const {
  const double length = real(seq_length);
  if (!windowed || !sliding_window || sliding_window->window >= seq_length) return length / 2;
  const double window = real(sliding_window->window);
  return window - window * window / (2 * length);
}

double TransformerSpec::attention_parameters() const {
  if (latent_attention) return latent_attention_parameters(*this, *latent_attention);
  return real(hidden_size) * real(kv_channels) * 2 * real(num_attention_heads + num_query_groups);
}

double TransformerSpec::dense_mlp_parameters() const {
  return mlp_matrices() * real(hidden_size) * real(ffn_hidden_size);
}

double TransformerSpec::routed_expert_parameters() const {
  if (!experts) return 0;
  return real(experts->num_experts) * mlp_matrices() * real(hidden_size) * real(experts->ffn_hidden_size);
}

double TransformerSpec::shared_expert_parameters() const {
  if (!experts) return 0;
  const double router = real(hidden_size) * real(experts->num_experts);
  return router + mlp_matrices() * real(hidden_size) * real(experts->shared_expert_intermediate_size);
}

double TransformerSpec::embedding_parameters() const {
  return (untie_embeddings_and_output_weights ? 2 : 1) * real(vocab_size) * real(hidden_size);
}

std::int64_t TransformerSpec::moe_layers() const {
  return experts ? num_layers - experts->dense_layers : 0;
}

double TransformerSpec::mtp_parameters() const {
  const double mlp =
      is_moe() ? routed_expert_parameters() + shared_expert_parameters() : dense_mlp_parameters();
  return 2 * real(hidden_size) * real(hidden_size) + attention_parameters() + mlp;
}

double TransformerSpec::total_parameters() const {
  const double attention = real(num_layers) * attention_parameters();
  const double dense = real(num_layers - moe_layers()) * dense_mlp_parameters();
  const double moe = real(moe_layers()) * (routed_expert_parameters() + shared_expert_parameters());
  return attention + dense + moe + real(mtp_num_layers) * mtp_parameters() + embedding_parameters();
}

namespace {

/// Forward FLOPs of one token in one layer.
double layer_flops(const TransformerSpec& model, std::int64_t layer, std::int64_t seq_length) {
  const double score_width = real(model.num_attention_heads * (model.query_width() + model.value_width()));
  const double attention = 2 * model.attention_parameters() +
                           2 * score_width * model.mean_keys(seq_length, model.is_windowed_layer(layer));
  if (!model.experts || !model.is_moe_layer(layer)) return attention + 2 * model.dense_mlp_parameters();
  const double share = real(model.experts->router_topk) / real(model.experts->num_experts);
  return attention + 2 * (model.shared_expert_parameters() + share * model.routed_expert_parameters());
}

}  // namespace

double model_flops_per_token(const TransformerSpec& model, std::int64_t seq_length) {
  const double hidden = real(model.hidden_size);
  const double output = 2 * real(model.vocab_size) * hidden;
  double per_pass = output;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    per_pass += layer_flops(model, layer, seq_length);
  }
  per_pass += real(model.mtp_num_layers) *
              (4 * hidden * hidden + layer_flops(model, model.num_layers - 1, seq_length) + output);
  constexpr double kPasses = 3;  // forward, gradient of the activations, gradient of the weights
  return kPasses * per_pass;
}

}  // namespace ntpsim::models
