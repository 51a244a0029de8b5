#include "ntpsim/scenario/model_table.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ntpsim/scenario/text_file.h"

#include "document.h"
#include "fields.h"
#include "model_limits.h"

namespace ntpsim::scenario {
namespace {

using models::TransformerSpec;

/// One entry of the file, under its own key names.
struct Entry {
  std::optional<std::string> source;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::optional<std::int64_t> num_key_value_heads;
  std::optional<std::int64_t> head_dim;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  bool gated_mlp = true;
  std::optional<bool> tie_word_embeddings;
  std::optional<std::int64_t> num_nextn_predict_layers;
  std::optional<std::int64_t> num_experts;
  std::optional<std::int64_t> num_experts_per_tok;
  std::optional<std::int64_t> moe_intermediate_size;
  std::optional<std::int64_t> n_shared_experts;
  std::optional<std::int64_t> first_k_dense_replace;
  std::optional<std::int64_t> q_lora_rank;
  std::optional<std::int64_t> kv_lora_rank;
  std::optional<std::int64_t> qk_nope_head_dim;
  std::optional<std::int64_t> qk_rope_head_dim;
  std::optional<std::int64_t> v_head_dim;
  std::optional<std::int64_t> sliding_window;
  std::optional<std::int64_t> sliding_window_every;
};

const Section<Entry>& entry_section() {
  using T = Entry;
  const auto width = whole_number(1, kMaxWidth);
  const auto heads = whole_number(1, kMaxHeads);
  const auto experts = whole_number(1, kMaxExperts);
  const auto none_or_width = whole_number(0, kMaxWidth);
  static const Section<T> section{
      "Model of a table",
      "The dimensions of a decoder-only transformer, under Hugging Face's names.",
      {{"source", &T::source, text(), "Where the figures come from."},
       {"hidden_size", &T::hidden_size, width, "Width of the model."},
       {"num_hidden_layers", &T::num_hidden_layers, whole_number(1, kMaxLayers), "Transformer layers."},
       {"num_attention_heads", &T::num_attention_heads, heads, "Query heads."},
       {"num_key_value_heads", &T::num_key_value_heads, heads,
        "Key/value heads. Default: num_attention_heads."},
       {"head_dim", &T::head_dim, width,
        "Width of one head. Default: v_head_dim, or hidden_size / num_attention_heads."},
       {"intermediate_size", &T::intermediate_size, width, "Width of a dense layer's MLP."},
       {"vocab_size", &T::vocab_size, width, "Vocabulary."},
       {"gated_mlp", &T::gated_mlp, boolean(), "SwiGLU: two up projections.", Default{true}},
       {"tie_word_embeddings", &T::tie_word_embeddings, boolean(), "The output has no weights of its own."},
       {"num_nextn_predict_layers", &T::num_nextn_predict_layers, whole_number(0, kMaxLayers),
        "Layers of multi-token prediction."},
       {"num_experts", &T::num_experts, experts, "Routed experts of a layer."},
       {"num_experts_per_tok", &T::num_experts_per_tok, experts, "Experts that a token visits."},
       {"moe_intermediate_size", &T::moe_intermediate_size, width, "Width of one expert."},
       {"n_shared_experts", &T::n_shared_experts, whole_number(0, kMaxExperts), "Shared experts."},
       {"first_k_dense_replace", &T::first_k_dense_replace, whole_number(0, kMaxLayers),
        "How many of the first layers stay dense."},
       {"q_lora_rank", &T::q_lora_rank, none_or_width, "Rank of the compressed query; 0: not compressed."},
       {"kv_lora_rank", &T::kv_lora_rank, width, "Rank of the compressed keys and values."},
       {"qk_nope_head_dim", &T::qk_nope_head_dim, width, "Width of a head without its rotary part."},
       {"qk_rope_head_dim", &T::qk_rope_head_dim, width, "Width of the rotary part."},
       {"v_head_dim", &T::v_head_dim, width, "Width of a head's value."},
       {"sliding_window", &T::sliding_window, whole_number(1, kMaxWindow), "Tokens that a query sees."},
       {"sliding_window_every", &T::sliding_window_every, whole_number(1, kMaxLayers),
        "One layer of this many has the window. Default: 1."}}};
  return section;
}

/// Makes a model of one entry and checks it within itself.
class EntryCheck {
 public:
  EntryCheck(const Entry& entry, std::string pointer, Reader& reader)
      : entry_(entry), pointer_(std::move(pointer)), reader_(reader) {}

  [[nodiscard]] TransformerSpec model(const std::string& name) {
    const TransformerSpec* const known = models::find_model(name);
    TransformerSpec model = known == nullptr ? TransformerSpec() : *known;
    model.name = name;
    model.source = entry_.source.value_or(reader_.document().file);
    model.num_layers = entry_.num_hidden_layers;
    model.hidden_size = entry_.hidden_size;
    model.num_attention_heads = entry_.num_attention_heads;
    model.num_query_groups = entry_.num_key_value_heads.value_or(entry_.num_attention_heads);
    model.ffn_hidden_size = entry_.intermediate_size;
    model.vocab_size = entry_.vocab_size;
    model.gated_mlp = entry_.gated_mlp;
    if (entry_.tie_word_embeddings) {
      model.untie_embeddings_and_output_weights = !*entry_.tie_word_embeddings;
    }
    model.mtp_num_layers = entry_.num_nextn_predict_layers.value_or(model.mtp_num_layers);
    model.latent_attention = latent_attention();
    model.sliding_window = sliding_window();
    model.experts = experts();
    model.kv_channels = head_width(model);
    return model;
  }

 private:
  void error(std::string_view key, std::string message) {
    reader_.error(child_pointer(pointer_, key), std::move(message));
  }

  /// A key that another one needs.
  std::int64_t needed(std::string_view key, const std::optional<std::int64_t>& value,
                      std::string_view because) {
    if (!value) error(key, fmt::format("missing; a model with {} needs it", because));
    return value.value_or(1);
  }

  void refuse_without(std::string_view master, std::string_view key,
                      const std::optional<std::int64_t>& value) {
    if (value) error(key, fmt::format("has no effect without {}", master));
  }

  std::optional<TransformerSpec::LatentAttention> latent_attention() {
    constexpr std::string_view kMaster = "kv_lora_rank";
    if (!entry_.kv_lora_rank) {
      refuse_without(kMaster, "q_lora_rank", entry_.q_lora_rank);
      refuse_without(kMaster, "qk_nope_head_dim", entry_.qk_nope_head_dim);
      refuse_without(kMaster, "qk_rope_head_dim", entry_.qk_rope_head_dim);
      refuse_without(kMaster, "v_head_dim", entry_.v_head_dim);
      return std::nullopt;
    }
    return TransformerSpec::LatentAttention{
        .q_lora_rank = entry_.q_lora_rank.value_or(0),
        .kv_lora_rank = *entry_.kv_lora_rank,
        .qk_head_dim = needed("qk_nope_head_dim", entry_.qk_nope_head_dim, kMaster),
        .qk_pos_emb_head_dim = needed("qk_rope_head_dim", entry_.qk_rope_head_dim, kMaster),
        .v_head_dim = needed("v_head_dim", entry_.v_head_dim, kMaster)};
  }

  std::optional<TransformerSpec::SlidingWindow> sliding_window() {
    if (!entry_.sliding_window) {
      refuse_without("sliding_window", "sliding_window_every", entry_.sliding_window_every);
      return std::nullopt;
    }
    return TransformerSpec::SlidingWindow{.window = *entry_.sliding_window,
                                          .every = entry_.sliding_window_every.value_or(1)};
  }

  std::optional<TransformerSpec::Experts> experts() {
    constexpr std::string_view kMaster = "num_experts";
    if (!entry_.num_experts) {
      refuse_without(kMaster, "num_experts_per_tok", entry_.num_experts_per_tok);
      refuse_without(kMaster, "moe_intermediate_size", entry_.moe_intermediate_size);
      refuse_without(kMaster, "n_shared_experts", entry_.n_shared_experts);
      refuse_without(kMaster, "first_k_dense_replace", entry_.first_k_dense_replace);
      return std::nullopt;
    }
    const std::int64_t width = needed("moe_intermediate_size", entry_.moe_intermediate_size, kMaster);
    TransformerSpec::Experts experts = {
        .num_experts = *entry_.num_experts,
        .router_topk = needed("num_experts_per_tok", entry_.num_experts_per_tok, kMaster),
        .ffn_hidden_size = width,
        .shared_expert_intermediate_size = width * entry_.n_shared_experts.value_or(0),
        .dense_layers = entry_.first_k_dense_replace.value_or(0)};
    if (experts.router_topk > experts.num_experts) {
      error("num_experts_per_tok", fmt::format("found {}, expected at most num_experts, which is {}",
                                               experts.router_topk, experts.num_experts));
    }
    if (experts.dense_layers >= entry_.num_hidden_layers) {
      error("first_k_dense_replace",
            fmt::format("found {}, expected less than num_hidden_layers, which is {}", experts.dense_layers,
                        entry_.num_hidden_layers));
    }
    if (experts.shared_expert_intermediate_size > kMaxWidth) {
      error("n_shared_experts", fmt::format("the shared experts are {} wide together, expected at most {}",
                                            experts.shared_expert_intermediate_size, kMaxWidth));
    }
    return experts;
  }

  std::int64_t head_width(const TransformerSpec& model) {
    if (model.num_attention_heads % model.num_query_groups != 0) {
      error("num_key_value_heads", fmt::format("found {}, which does not divide num_attention_heads {}",
                                               model.num_query_groups, model.num_attention_heads));
    }
    if (entry_.head_dim) return *entry_.head_dim;
    if (model.latent_attention) return model.latent_attention->v_head_dim;
    if (model.hidden_size % model.num_attention_heads != 0) {
      error("head_dim",
            fmt::format("missing; hidden_size {} is no multiple of num_attention_heads {}, so the "
                        "width of a head must be given",
                        model.hidden_size, model.num_attention_heads));
    }
    return model.hidden_size / model.num_attention_heads;
  }

  const Entry& entry_;
  std::string pointer_;
  Reader& reader_;
};

ModelTable read_models(const Json& json, Reader& reader) {
  constexpr const char* kModels = "/models";
  ModelTable table;
  if (!json.is_object()) {
    reader.error(kModels, "found " + describe(json) + ", expected an object of models by name");
    return table;
  }
  for (const auto& [name, value] : json.items()) {
    const std::string pointer = child_pointer(kModels, name);
    if (!is_name(name)) reader.error(pointer, "expected a name of 1 to 200 printable characters");
    Entry entry;
    entry_section().read(value, pointer, entry, reader);
    if (reader.good({pointer})) table[name] = EntryCheck(entry, pointer, reader).model(name);
  }
  return table;
}

}  // namespace

Result<ModelTable> parse_model_table(std::string_view text, const std::string& file) {
  auto json = parse_json(text, file);
  if (!json) return tl::unexpected(json.error());
  const Document document{*std::move(json), file, {}};
  Diagnostics diagnostics;
  Reader reader(document, diagnostics);
  ModelTable table;
  if (!document.root.is_object()) {
    reader.error("", "found " + describe(document.root) + ", expected an object");
  } else {
    report_unknown_keys(document.root, "", std::vector<std::string_view>{"note", "models"}, reader);
    const auto found = document.root.find("models");
    if (found == document.root.end()) {
      reader.error("/models", "missing; expected an object of models by name");
    } else {
      table = read_models(*found, reader);
    }
  }
  if (diagnostics.has_errors()) return tl::unexpected(std::move(diagnostics));
  return table;
}

Result<ModelTable> load_model_table(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_model_table(*text, path);
}

}  // namespace ntpsim::scenario
