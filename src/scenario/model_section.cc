#include <filesystem>

#include <fmt/format.h>

#include "ntpsim/scenario/hf_config.h"
#include "ntpsim/scenario/text_file.h"

#include "sections.h"

namespace ntpsim::scenario {
namespace {

using models::TransformerSpec;

Kind<std::int64_t> width() {
  return whole_number(1, kMaxWidth);
}

const Section<TransformerSpec::LatentAttention>& latent_attention_section() {
  using T = TransformerSpec::LatentAttention;
  static const Section<T> section{
      "Latent attention",
      "Multi-head latent attention, as in DeepSeek-V3.",
      {{"q_lora_rank", &T::q_lora_rank, whole_number(0, kMaxWidth),
        "Rank of the compressed query; 0: the query is projected directly.", Default{0}},
       {"kv_lora_rank", &T::kv_lora_rank, width(), "Rank of the compressed keys and values.", Example{512}},
       {"qk_head_dim", &T::qk_head_dim, width(), "Width of a head without its rotary part.", Example{128}},
       {"qk_pos_emb_head_dim", &T::qk_pos_emb_head_dim, width(), "Width of the rotary part.", Example{64}},
       {"v_head_dim", &T::v_head_dim, width(), "Width of a head's value.", Example{128}}}};
  return section;
}

const Section<TransformerSpec::SlidingWindow>& sliding_window_section() {
  using T = TransformerSpec::SlidingWindow;
  static const Section<T> section{
      "Sliding window",
      "Sliding-window attention in one layer of every few.",
      {{"window", &T::window, whole_number(1, kMaxWindow), "Tokens that a query sees.", Example{4096}},
       {"every", &T::every, whole_number(1, kMaxLayers), "One layer of this many has the window.",
        Default{1}}}};
  return section;
}

const Section<TransformerSpec::Experts>& experts_section() {
  using T = TransformerSpec::Experts;
  static const Section<T> section{
      "Experts",
      "Mixture of experts.",
      {{"num_experts", &T::num_experts, whole_number(1, kMaxExperts), "Routed experts of a layer.",
        Example{128}},
       {"router_topk", &T::router_topk, whole_number(1, kMaxExperts), "Experts that a token visits.",
        Example{8}},
       {"ffn_hidden_size", &T::ffn_hidden_size, width(), "Width of one expert.", Example{2048}},
       {"shared_expert_intermediate_size", &T::shared_expert_intermediate_size, whole_number(0, kMaxWidth),
        "Width of the shared experts together; 0: none.", Default{0}},
       {"dense_layers", &T::dense_layers, whole_number(0, kMaxLayers),
        "How many of the first layers stay dense.", Default{0}}}};
  return section;
}

/// Members that an inline model may leave out.
struct ModelDoc : TransformerSpec {
  std::optional<std::int64_t> given_query_groups;
  std::optional<std::int64_t> given_kv_channels;
};

const Section<ModelDoc>& model_section() {
  using T = ModelDoc;
  static const Section<T> section{
      "Model",
      "The dimensions of a decoder-only transformer, under Megatron's names.",
      {{"name", &T::name, name_text(), "Name in results.", Default{"inline model"}},
       {"source", &T::source, text(), "Where the figures come from.", Default{""}},
       {"num_layers", &T::num_layers, whole_number(1, kMaxLayers), "Transformer layers.", Example{126}},
       {"hidden_size", &T::hidden_size, width(), "Width of the model.", Example{16384}},
       {"num_attention_heads", &T::num_attention_heads, whole_number(1, kMaxHeads), "Query heads.",
        Example{128}},
       {"num_query_groups", &T::given_query_groups, whole_number(1, kMaxHeads),
        "Key/value heads. Default: num_attention_heads.", Example{8}},
       {"kv_channels", &T::given_kv_channels, width(),
        "Width of one head. Default: hidden_size / num_attention_heads.", Example{128}},
       {"ffn_hidden_size", &T::ffn_hidden_size, width(), "Width of a dense layer's MLP.", Example{53248}},
       {"vocab_size", &T::vocab_size, width(), "Vocabulary.", Example{128256}},
       {"gated_mlp", &T::gated_mlp, boolean(), "SwiGLU: two up projections.", Default{true}},
       {"untie_embeddings_and_output_weights", &T::untie_embeddings_and_output_weights, boolean(),
        "The output has weights of its own.", Default{true}},
       {"mtp_num_layers", &T::mtp_num_layers, whole_number(0, kMaxLayers),
        "Layers of multi-token prediction after the last.", Default{0}},
       {"clamped_activation", &T::clamped_activation, boolean(),
        "The experts' activation clamps its inputs (gpt-oss).", Default{false}},
       {"latent_attention", &T::latent_attention, object(latent_attention_section()),
        "Multi-head latent attention; absent for ordinary attention."},
       {"sliding_window", &T::sliding_window, object(sliding_window_section()),
        "Sliding-window attention; absent when every layer sees the whole sequence."},
       {"experts", &T::experts, object(experts_section()), "Mixture of experts; absent for a dense model."}}};
  return section;
}

// Fills in what an inline model leaves out and checks it within itself.
TransformerSpec complete(const ModelDoc& doc, const std::string& pointer, Reader& reader) {
  auto model = static_cast<const TransformerSpec&>(doc);
  const auto at = [&](std::string_view key) { return child_pointer(pointer, key); };
  const bool heads_known = reader.good({at("num_attention_heads")});
  model.num_query_groups = doc.given_query_groups.value_or(model.num_attention_heads);
  if (heads_known && model.num_query_groups > 0 && model.num_attention_heads % model.num_query_groups != 0) {
    reader.error(at("num_query_groups"), fmt::format("found {}, which does not divide num_attention_heads {}",
                                                     model.num_query_groups, model.num_attention_heads));
  }
  if (doc.given_kv_channels) {
    model.kv_channels = *doc.given_kv_channels;
  } else if (heads_known && reader.good({at("hidden_size")})) {
    model.kv_channels = model.hidden_size / model.num_attention_heads;
    if (model.hidden_size % model.num_attention_heads != 0) {
      reader.error(at("kv_channels"),
                   fmt::format("missing; hidden_size {} is no multiple of "
                               "num_attention_heads {}, so the width of a head must be given",
                               model.hidden_size, model.num_attention_heads));
    }
  }
  if (model.experts && reader.good({at("experts"), at("num_layers")})) {
    if (model.experts->router_topk > model.experts->num_experts) {
      reader.error(child_pointer(at("experts"), "router_topk"),
                   fmt::format("found {}, expected at most num_experts, which is {}",
                               model.experts->router_topk, model.experts->num_experts));
    }
    if (model.experts->dense_layers >= model.num_layers) {
      reader.error(child_pointer(at("experts"), "dense_layers"),
                   fmt::format("found {}, expected less than num_layers, which is {}",
                               model.experts->dense_layers, model.num_layers));
    }
  }
  return model;
}

TransformerSpec read_model_object(const Json& json, const std::string& pointer, Reader& reader) {
  if (json.is_object() && json.contains("model_type")) {
    const auto config = read_hf_config(json, reader.document().origin_of(pointer), pointer);
    if (config) return *config;
    reader.append(config.error());
    reader.mark_bad(pointer);
    return {};
  }
  ModelDoc doc;
  model_section().read(json, pointer, doc, reader);
  return complete(doc, pointer, reader);
}

// What a person calls the model in this file: the file's name, or its directory's when it is just a
// config.json.
std::string name_from(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  const std::string directory = path.parent_path().filename().string();
  return stem == "config" && !directory.empty() ? directory : stem;
}

// A model in a file of its own: a Hugging Face config.json, or an object as it may stand in the scenario.
TransformerSpec read_model_file(const std::string& name, const std::string& pointer, Reader& reader) {
  const std::filesystem::path directory = std::filesystem::path(reader.document().file).parent_path();
  const std::string path = (directory / name).string();
  const auto failure = [&](const Diagnostics& reasons) {
    reader.append(reasons);
    reader.error(pointer, fmt::format("names the model file {}, which cannot be used", in_quotes(name)));
    return TransformerSpec();
  };
  const auto content = read_text(path);
  if (!content) return failure(content.error());
  auto json = parse_json(*content, path);
  if (!json) return failure(json.error());
  const Document document{*std::move(json), path, {}};
  Diagnostics diagnostics;
  Reader file_reader(document, diagnostics);
  TransformerSpec model = read_model_object(document.root, "", file_reader);
  if (diagnostics.has_errors()) return failure(diagnostics);
  const std::string file_name = name_from(path);
  if (document.root.contains("model_type") && is_name(file_name)) model.name = file_name;
  return model;
}

Json model_schema(const Kind<std::string>& named) {
  const Json path = {{"type", "string"}, {"pattern", "\\.json$"}, {"examples", {"config.json"}}};
  const Json hugging_face = {{"type", "object"},
                             {"description", "The contents of a Hugging Face config.json."},
                             {"required", {"model_type"}}};
  return any_of({named.schema, path, model_section().schema(), hugging_face});
}

}  // namespace

Kind<TransformerSpec> model_kind() {
  const auto named = name_among("model", names_in(models::model_catalog()));
  return {
      "a model of the catalog, the path of a config.json, or an inline model", model_schema(named),
      [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<TransformerSpec> {
        if (!json.is_string()) return read_model_object(json, pointer, reader);
        const auto& name = json.get_ref<const std::string&>();
        if (name.ends_with(".json")) return read_model_file(name, pointer, reader);
        const auto known = named.read(json, pointer, reader);
        return known ? std::optional(*models::find_model(*known)) : std::nullopt;
      },
      [](const TransformerSpec& spec) {
        return model_section().write({spec, spec.num_query_groups, spec.kv_channels});
      }};
}

}  // namespace ntpsim::scenario
