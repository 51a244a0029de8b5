#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
  /// All weights.
  [[nodiscard]] double total_parameters() const;
  /// Layers with routed experts.
  [[nodiscard]] std::int64_t moe_layers() const;

  bool operator==(const TransformerSpec&) const = default;
};

/// Floating point operations that one token of a sequence of `seq_length` needs, forward and backward, by the
/// "model FLOPs" convention: 2 per weight and token in each of three passes, causal attention counted once,
/// no recomputation.
[[nodiscard]] double model_flops_per_token(const TransformerSpec& model, std::int64_t seq_length);

/// The models that ship with ntpsim, in a fixed order.
[[nodiscard]] std::span<const TransformerSpec> model_catalog();
/// The catalog entry with this name, or null.
[[nodiscard]] const TransformerSpec* find_model(std::string_view name);

}  // namespace ntpsim::models
