#include "ntpsim/scenario/hf_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "ntpsim/scenario/text_file.h"

#include "document.h"
#include "fields.h"
#include "model_limits.h"

// Key names: transformers' configuration classes. Megatron names: Megatron-Bridge,
// models/conversion/model_bridge.py.

namespace ntpsim::scenario {
namespace {

using models::TransformerSpec;

// Typed access to the keys of a config; a key set to null counts as absent, as it does in transformers.
class Config {
 public:
  Config(const Json& json, std::string file, std::string pointer)
      : json_(json), file_(std::move(file)), pointer_(std::move(pointer)) {}

  [[nodiscard]] const Json* find(const std::string& key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  std::int64_t required(const std::string& key, std::int64_t max = kMaxWidth) {
    const Json* value = find(key);
    constexpr std::int64_t kMin = 1;
    if (value != nullptr) return whole(key, *value, kMin, max);
    error(key, fmt::format("missing; a config of model_type {} needs it", dump(json_["model_type"])));
    return kMin;
  }

  std::int64_t optional(const std::string& key, std::int64_t fallback, std::int64_t min = 1,
                        std::int64_t max = kMaxWidth) {
    const Json* value = find(key);
    return value == nullptr ? fallback : whole(key, *value, min, max);
  }

  bool flag(const std::string& key, bool fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) error(key, fmt::format("found {}, expected true or false", describe(*value)));
    return value->is_boolean() && value->get<bool>();
  }

  void error(const std::string& key, std::string message) {
    diagnostics_.error(file_, child_pointer(pointer_, key), std::move(message));
  }

  /// May checks rely on the values read so far?
  [[nodiscard]] bool good() const { return !diagnostics_.has_errors(); }
  [[nodiscard]] const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  std::int64_t whole(const std::string& key, const Json& value, std::int64_t min, std::int64_t max) {
    const bool fits = value.is_number_integer() && value.get<double>() >= static_cast<double>(min) &&
                      value.get<double>() <= static_cast<double>(max);
    if (fits) return value.get<std::int64_t>();
    error(key, fmt::format("found {}, expected a whole number from {} to {}", describe(value), min, max));
    return min;
  }

  const Json& json_;
  std::string file_;
  std::string pointer_;
  Diagnostics diagnostics_;
};

// What all families share.
TransformerSpec dense_model(Config& config) {
  TransformerSpec model;
  model.num_layers = config.required("num_hidden_layers", kMaxLayers);
  model.hidden_size = config.required("hidden_size");
  model.num_attention_heads = config.required("num_attention_heads", kMaxHeads);
  model.num_query_groups = config.optional("num_key_value_heads", model.num_attention_heads, 1, kMaxHeads);
  model.kv_channels =
      config.optional("head_dim", std::max<std::int64_t>(1, model.hidden_size / model.num_attention_heads));
  model.ffn_hidden_size = config.required("intermediate_size");
  model.vocab_size = config.required("vocab_size");
  model.untie_embeddings_and_output_weights = !config.flag("tie_word_embeddings", false);
  if (config.good() && model.num_attention_heads % model.num_query_groups != 0) {
    config.error("num_key_value_heads", fmt::format("found {}, which does not divide num_attention_heads {}",
                                                    model.num_query_groups, model.num_attention_heads));
  }
  return model;
}

void refuse_unless_one(Config& config, const std::string& key, std::string_view why) {
  if (const std::int64_t value = config.optional(key, 1, 0); value != 1) {
    config.error(key, fmt::format("found {}: {}", value, why));
  }
}

TransformerSpec mistral(Config& config) {
  TransformerSpec model = dense_model(config);
  if (config.find("sliding_window") != nullptr) {
    model.sliding_window = {.window = config.required("sliding_window", kMaxWindow), .every = 1};
  }
  return model;
}

TransformerSpec qwen3(Config& config) {
  if (config.flag("use_sliding_window", false)) {
    config.error("use_sliding_window", "a sliding window in the last layers only is not modelled");
  }
  return dense_model(config);
}

TransformerSpec mixtral(Config& config) {
  TransformerSpec model = mistral(config);
  model.experts = {.num_experts = config.required("num_local_experts", kMaxExperts),
                   .router_topk = config.required("num_experts_per_tok", kMaxExperts),
                   .ffn_hidden_size = model.ffn_hidden_size};
  return model;
}

// Layers without experts must be the first ones.
std::int64_t leading_dense_layers(Config& config) {
  const Json* layers = config.find("mlp_only_layers");
  if (layers == nullptr) return 0;
  const std::size_t count = layers->is_array() ? layers->size() : 0;
  bool leading = layers->is_array();
  for (std::size_t i = 0; i < count; ++i) leading = leading && (*layers)[i] == i;
  if (!leading) config.error("mlp_only_layers", "expected a list of the first layers: [0, 1, ...]");
  return static_cast<std::int64_t>(count);
}

TransformerSpec qwen3_moe(Config& config) {
  TransformerSpec model = qwen3(config);
  model.experts = {.num_experts = config.required("num_experts", kMaxExperts),
                   .router_topk = config.required("num_experts_per_tok", kMaxExperts),
                   .ffn_hidden_size = config.required("moe_intermediate_size"),
                   .dense_layers = leading_dense_layers(config)};
  refuse_unless_one(config, "decoder_sparse_step", "experts in every other layer only are not modelled");
  return model;
}

TransformerSpec gpt_oss(Config& config) {
  TransformerSpec model = dense_model(config);
  model.sliding_window = {.window = config.required("sliding_window", kMaxWindow), .every = 2};
  model.experts = {.num_experts = config.required("num_local_experts", kMaxExperts),
                   .router_topk = config.required("num_experts_per_tok", kMaxExperts),
                   .ffn_hidden_size = model.ffn_hidden_size};
  model.clamped_activation = true;  // by `swiglu_limit`, which older files leave out
  return model;
}

TransformerSpec deepseek_v3(Config& config) {
  TransformerSpec model = dense_model(config);
  const TransformerSpec::LatentAttention attention = {
      .q_lora_rank = config.optional("q_lora_rank", 0, 0),
      .kv_lora_rank = config.required("kv_lora_rank"),
      .qk_head_dim = config.required("qk_nope_head_dim"),
      .qk_pos_emb_head_dim = config.required("qk_rope_head_dim"),
      .v_head_dim = config.required("v_head_dim")};
  model.latent_attention = attention;
  model.kv_channels = attention.v_head_dim;
  const std::int64_t expert_width = config.required("moe_intermediate_size");
  model.experts = {.num_experts = config.required("n_routed_experts", kMaxExperts),
                   .router_topk = config.required("num_experts_per_tok", kMaxExperts),
                   .ffn_hidden_size = expert_width,
                   .shared_expert_intermediate_size =
                       expert_width * config.optional("n_shared_experts", 0, 0, kMaxExperts),
                   .dense_layers = config.optional("first_k_dense_replace", 0, 0, kMaxLayers)};
  refuse_unless_one(config, "moe_layer_freq", "experts in every other layer only are not modelled");
  model.mtp_num_layers = config.optional("num_nextn_predict_layers", 0, 0, kMaxLayers);
  return model;
}

struct Family {
  std::string_view model_type;
  TransformerSpec (*read)(Config&);
};

constexpr std::array kFamilies = {
    Family{"llama", dense_model},       Family{"mistral", mistral},     Family{"qwen3", qwen3},
    Family{"mixtral", mixtral},         Family{"qwen3_moe", qwen3_moe}, Family{"gpt_oss", gpt_oss},
    Family{"deepseek_v3", deepseek_v3}, Family{"kimi_k2", deepseek_v3},
};

constexpr auto kModelTypes = [] {
  std::array<std::string_view, kFamilies.size()> types;
  std::ranges::transform(kFamilies, types.begin(), &Family::model_type);
  return types;
}();

void check_experts(Config& config, const TransformerSpec& model) {
  if (!model.experts || !config.good()) return;
  const TransformerSpec::Experts& experts = *model.experts;
  if (experts.router_topk > experts.num_experts) {
    config.error("num_experts_per_tok",
                 fmt::format("found {} of {} experts", experts.router_topk, experts.num_experts));
  }
  if (experts.dense_layers >= model.num_layers) {
    config.error("num_hidden_layers", fmt::format("found {} layers, {} of them without experts",
                                                  model.num_layers, experts.dense_layers));
  }
  if (experts.shared_expert_intermediate_size > kMaxWidth) {
    config.error("n_shared_experts",
                 fmt::format("the shared experts are {} wide together, expected at most {}",
                             experts.shared_expert_intermediate_size, kMaxWidth));
  }
}

}  // namespace

std::span<const std::string_view> hf_model_types() {
  return kModelTypes;
}

Result<TransformerSpec> read_hf_config(const Json& json, const std::string& file,
                                       const std::string& pointer) {
  const auto failure = [&](const std::string& at, std::string message) {
    Diagnostics diagnostics;
    diagnostics.error(file, at, std::move(message));
    return tl::unexpected(std::move(diagnostics));
  };
  if (!json.is_object()) return failure(pointer, "found " + describe(json) + ", expected an object");
  const std::string type_pointer = child_pointer(pointer, "model_type");
  const auto type = json.find("model_type");
  if (type == json.end() || !type->is_string()) {
    return failure(type_pointer,
                   (type == json.end() ? "missing" : "found " + describe(*type) + ", expected text") +
                       suggestion("", kModelTypes));
  }
  const auto& name = type->get_ref<const std::string&>();
  const auto* const family = std::ranges::find(kFamilies, name, &Family::model_type);
  if (family == kFamilies.end()) {
    return failure(type_pointer,
                   fmt::format("unknown model_type {}{}", in_quotes(name), suggestion(name, kModelTypes)));
  }
  Config config(json, file, pointer);
  TransformerSpec model = family->read(config);
  check_experts(config, model);
  if (!config.good()) return tl::unexpected(config.diagnostics());
  model.name = name;
  model.source = "Hugging Face config.json";
  return model;
}

Result<TransformerSpec> parse_hf_config(std::string_view text, const std::string& file) {
  const Result<Json> json = parse_json(text, file);
  if (!json) return tl::unexpected(json.error());
  return read_hf_config(*json, file, "");
}

Result<TransformerSpec> load_hf_config(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_hf_config(*text, path);
}

}  // namespace ntpsim::scenario
