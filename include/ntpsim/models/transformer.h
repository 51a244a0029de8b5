#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// Weights and operations of a decoder-only transformer, norms, biases and positional embeddings left out
// (under 0.1%). With h = hidden size, a = heads, g = key/value groups, d = head width, f = FFN width, m =
// matrices of the MLP (3 when gated, else 2), V = vocabulary:
//
//   attention:         h d (2 a + 2 g)
//   latent attention:  h q + q a (d_n + d_r)  [h a (d_n + d_r) without query compression]
//                      + h (c + d_r) + c a (d_n + d_v) + a d_v h, with q, c = ranks of the query's and of the
//                      key/value's compression, d_n, d_r = widths of a head's part without and with rotary
//                      embedding, d_v = value's
//   dense MLP:         m h f
//   MoE layer:         E m h f_e routed, h E + m h f_s router and shared experts
//   embeddings:        V h, twice when the output has its own
//   MTP layer:         a layer as the last one and 2 h^2
//
// The convention for "model FLOPs" is that of Korthikanti et al. 2022 (arXiv 2205.05198), with causal
// attention counted once: a query of a sequence of s tokens sees s/2 keys on average, or w - w^2/(2 s)
// through a window of w < s.

namespace ntpsim::models {

/// The dimensions of a decoder-only transformer, under Megatron's names.
struct TransformerSpec {
  std::string name;
  std::string source;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  ///< key/value heads; equals num_attention_heads without GQA
  std::int64_t kv_channels = 0;       ///< width of one head
  std::int64_t ffn_hidden_size = 0;   ///< of a dense layer
  std::int64_t vocab_size = 0;
  bool gated_mlp = true;  ///< SwiGLU: two up projections
  bool untie_embeddings_and_output_weights = true;
  /// The activation clamps and shifts its inputs (gpt-oss), which Megatron Core does in separate kernels
  /// unless the grouped GEMMs take it in.
  bool clamped_activation = false;
  /// Multi-token prediction (DeepSeek-V3): further layers after the last, each with a 2 h x h projection and
  /// a pass through the output layer of its own.
  std::int64_t mtp_num_layers = 0;

  /// Multi-head latent attention (DeepSeek-V2/V3); absent for ordinary attention.
  struct LatentAttention {
    std::int64_t q_lora_rank = 0;  ///< 0: the query is projected directly
    std::int64_t kv_lora_rank = 0;
    std::int64_t qk_head_dim = 0;          ///< per head, without rotary part
    std::int64_t qk_pos_emb_head_dim = 0;  ///< per head, rotary part
    std::int64_t v_head_dim = 0;
    bool operator==(const LatentAttention&) const = default;
  };
  std::optional<LatentAttention> latent_attention;

  /// Sliding-window attention in one layer of every `every`; absent when every layer sees the whole sequence.
  struct SlidingWindow {
    std::int64_t window = 0;
    std::int64_t every = 1;
    bool operator==(const SlidingWindow&) const = default;
  };
  std::optional<SlidingWindow> sliding_window;

  /// Mixture of experts; absent for a dense model.
  struct Experts {
    std::int64_t num_experts = 0;
    std::int64_t router_topk = 0;
    std::int64_t ffn_hidden_size = 0;                  ///< of one expert
    std::int64_t shared_expert_intermediate_size = 0;  ///< 0: no shared expert
    std::int64_t dense_layers = 0;                     ///< how many of the layers stay dense (the first ones)
    bool operator==(const Experts&) const = default;
  };
  std::optional<Experts> experts;

  [[nodiscard]] bool is_moe() const { return experts.has_value(); }
  /// Has this layer (from 0) routed experts? The first `dense_layers` have none.
  [[nodiscard]] bool is_moe_layer(std::int64_t layer) const {
    return is_moe() && layer >= experts->dense_layers;
  }
  /// Does this layer (from 0) attend through the sliding window? Layers 0, every, 2 every, ... do.
  [[nodiscard]] bool is_windowed_layer(std::int64_t layer) const {
    return sliding_window.has_value() && layer % sliding_window->every == 0;
  }
  /// Matrices of an MLP: two up projections and one down when gated, else one and one.
  [[nodiscard]] double mlp_matrices() const { return gated_mlp ? 3 : 2; }
  /// Width of a head's query and key.
  [[nodiscard]] std::int64_t query_width() const;
  /// Width of a head's value.
  [[nodiscard]] std::int64_t value_width() const;
  /// Keys that a query of a layer sees on average in a causal sequence of `seq_length` tokens.
  [[nodiscard]] double mean_keys(std::int64_t seq_length, bool windowed) const;

  /// Weights of the attention block of one layer, all ranks together (norms and biases left out: under 0.1%).
  [[nodiscard]] double attention_parameters() const;
  /// Weights of one dense layer's MLP.
  [[nodiscard]] double dense_mlp_parameters() const;
  /// Weights of one MoE layer: routed experts only.
  [[nodiscard]] double routed_expert_parameters() const;
  /// Weights of one MoE layer that every token uses: router and shared experts.
  [[nodiscard]] double shared_expert_parameters() const;
  /// Embedding and output weights.
  [[nodiscard]] double embedding_parameters() const;
  /// Weights of one layer of multi-token prediction.
  [[nodiscard]] double mtp_parameters() const;
  /// All weights.
  [[nodiscard]] double total_parameters() const;
  /// Layers with routed experts.
  [[nodiscard]] std::int64_t moe_layers() const;

  bool operator==(const TransformerSpec&) const = default;
};

/// Floating point operations that one token of a sequence of `seq_length` needs, forward and backward, by the
/// "model FLOPs" convention: 2 per weight that the token uses in each of three passes (the embedding is a
/// lookup and counts nothing), causal attention counted once, no recomputation.
[[nodiscard]] double model_flops_per_token(const TransformerSpec& model, std::int64_t seq_length);

/// The models that ship with ntpsim, in a fixed order.
[[nodiscard]] std::span<const TransformerSpec> model_catalog();
/// The catalog entry with this name, or null.
[[nodiscard]] const TransformerSpec* find_model(std::string_view name);

}  // namespace ntpsim::models
