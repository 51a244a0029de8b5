#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ntpsim/models/transformer.h"

namespace ntpsim::models {
namespace {

constexpr const char* kKorthikanti = "Korthikanti et al. 2022, arXiv 2205.05198, table 3";
constexpr const char* kNarayanan = "Narayanan et al., SC'21, arXiv 2104.04473, table 1";
constexpr const char* kMegatronReadme = "Megatron-LM README, weak scaling of Core r0.8.0";
constexpr const char* kBrown = "Brown et al. 2020, arXiv 2005.14165; vocabulary padded as in Megatron-LM";
constexpr const char* kNemo = "NeMo Framework 24.07 model recipe";
constexpr const char* kNemotron340 = "Nemotron-4 340B report, arXiv 2406.11704";
constexpr const char* kNtpPaper =
    "arXiv 2504.06095: 100 layers of width 20,480; 128 heads as in Megatron 529.6B";
constexpr const char* kHuggingFace = "config.json of the model on Hugging Face";

struct Dimensions {
  std::int64_t num_layers;
  std::int64_t hidden_size;
  std::int64_t num_attention_heads;
  std::int64_t num_query_groups;
  std::int64_t kv_channels;
  std::int64_t ffn_hidden_size;
  std::int64_t vocab_size;
};

/// What families of models have in common.
enum class Style : unsigned char {
  kMegatron,  ///< GELU, output weights tied to the embedding
  kNemotron,  ///< squared ReLU, own output weights
  kLlama      ///< SwiGLU, own output weights
};

TransformerSpec dense(std::string name, const char* source, const Dimensions& dimensions, Style style) {
  TransformerSpec model;
  model.name = std::move(name);
  model.source = source;
  model.num_layers = dimensions.num_layers;
  model.hidden_size = dimensions.hidden_size;
  model.num_attention_heads = dimensions.num_attention_heads;
  model.num_query_groups = dimensions.num_query_groups;
  model.kv_channels = dimensions.kv_channels;
  model.ffn_hidden_size = dimensions.ffn_hidden_size;
  model.vocab_size = dimensions.vocab_size;
  model.gated_mlp = style == Style::kLlama;
  model.untie_embeddings_and_output_weights = style != Style::kMegatron;
  return model;
}

TransformerSpec moe(std::string name, const Dimensions& dimensions, const TransformerSpec::Experts& experts) {
  TransformerSpec model = dense(std::move(name), kHuggingFace, dimensions, Style::kLlama);
  model.experts = experts;
  return model;
}

TransformerSpec windowed(TransformerSpec model, const TransformerSpec::SlidingWindow& window) {
  model.sliding_window = window;
  return model;
}

TransformerSpec latent(TransformerSpec model, const TransformerSpec::LatentAttention& attention) {
  model.latent_attention = attention;
  return model;
}

TransformerSpec clamped(TransformerSpec model) {
  model.clamped_activation = true;
  return model;
}

/// One layer of multi-token prediction, as in DeepSeek-V3's own training.
TransformerSpec with_mtp(TransformerSpec model) {
  model.mtp_num_layers = 1;
  return model;
}

std::vector<TransformerSpec> make_catalog() {
  return {
      dense("megatron-a100-1.7b", kNarayanan, {24, 2304, 24, 24, 96, 9216, 51200}, Style::kMegatron),
      dense("megatron-a100-3.6b", kNarayanan, {30, 3072, 32, 32, 96, 12288, 51200}, Style::kMegatron),
      dense("megatron-a100-7.5b", kNarayanan, {36, 4096, 32, 32, 128, 16384, 51200}, Style::kMegatron),
      dense("megatron-a100-18.4b", kNarayanan, {40, 6144, 48, 48, 128, 24576, 51200}, Style::kMegatron),
      dense("megatron-a100-39.1b", kNarayanan, {48, 8192, 64, 64, 128, 32768, 51200}, Style::kMegatron),
      dense("megatron-a100-76.1b", kNarayanan, {60, 10240, 80, 80, 128, 40960, 51200}, Style::kMegatron),
      dense("megatron-a100-145.6b", kNarayanan, {80, 12288, 96, 96, 128, 49152, 51200}, Style::kMegatron),
      dense("megatron-a100-310.1b", kNarayanan, {96, 16384, 128, 128, 128, 65536, 51200}, Style::kMegatron),
      dense("megatron-a100-529.6b", kNarayanan, {105, 20480, 128, 128, 160, 81920, 51200}, Style::kMegatron),
      dense("megatron-a100-1008b", kNarayanan, {128, 25600, 160, 160, 160, 102400, 51200}, Style::kMegatron),
      dense("megatron-a100-22b", kKorthikanti, {48, 6144, 64, 64, 96, 24576, 51200}, Style::kMegatron),
      dense("megatron-h100-1.7b", kMegatronReadme, {24, 2048, 16, 16, 128, 8192, 131072}, Style::kMegatron),
      dense("megatron-h100-7.1b", kMegatronReadme, {30, 4096, 32, 32, 128, 16384, 131072}, Style::kMegatron),
      dense("megatron-h100-16b", kMegatronReadme, {32, 6144, 48, 48, 128, 24576, 131072}, Style::kMegatron),
      dense("megatron-h100-32b", kMegatronReadme, {48, 7168, 56, 56, 128, 28672, 131072}, Style::kMegatron),
      dense("megatron-h100-70b", kMegatronReadme, {84, 8192, 64, 64, 128, 32768, 131072}, Style::kMegatron),
      dense("megatron-h100-119b", kMegatronReadme, {92, 10240, 80, 80, 128, 40960, 131072}, Style::kMegatron),
      dense("megatron-h100-177b", kMegatronReadme, {96, 12288, 96, 96, 128, 49152, 131072}, Style::kMegatron),
      dense("megatron-h100-314b", kMegatronReadme, {96, 16384, 128, 128, 128, 65536, 131072},
            Style::kMegatron),
      dense("megatron-h100-462b", kMegatronReadme, {112, 18432, 144, 144, 128, 73728, 131072},
            Style::kMegatron),
      dense("gpt3-5b", kNemo, {24, 4096, 32, 32, 128, 16384, 51200}, Style::kMegatron),
      dense("gpt3-20b", kNemo, {44, 6144, 48, 48, 128, 24576, 51200}, Style::kMegatron),
      dense("gpt3-175b", kBrown, {96, 12288, 96, 96, 128, 49152, 51200}, Style::kMegatron),
      dense("nemotron-8b", kNemo, {32, 4096, 32, 32, 128, 16384, 256000}, Style::kNemotron),
      dense("nemotron-22b", kNemo, {40, 6144, 48, 48, 128, 24576, 256000}, Style::kNemotron),
      dense("nemotron-340b", kNemotron340, {96, 18432, 96, 8, 192, 73728, 256000}, Style::kNemotron),
      dense("llama2-7b", kHuggingFace, {32, 4096, 32, 32, 128, 11008, 32000}, Style::kLlama),
      dense("llama2-13b", kHuggingFace, {40, 5120, 40, 40, 128, 13824, 32000}, Style::kLlama),
      dense("llama2-70b", kHuggingFace, {80, 8192, 64, 8, 128, 28672, 32000}, Style::kLlama),
      dense("llama3-8b", kHuggingFace, {32, 4096, 32, 8, 128, 14336, 128256}, Style::kLlama),
      dense("llama3-70b", kHuggingFace, {80, 8192, 64, 8, 128, 28672, 128256}, Style::kLlama),
      dense("llama3.1-405b", kHuggingFace, {126, 16384, 128, 8, 128, 53248, 128256}, Style::kLlama),
      dense("ntp-paper-480b", kNtpPaper, {100, 20480, 128, 128, 160, 81920, 51200}, Style::kMegatron),
      moe("mixtral-8x7b", {32, 4096, 32, 8, 128, 14336, 32000}, {8, 2, 14336, 0, 0}),
      moe("qwen3-235b-a22b", {94, 4096, 64, 4, 128, 12288, 151936}, {128, 8, 1536, 0, 0}),
      moe("qwen3-30b-a3b", {48, 2048, 32, 4, 128, 6144, 151936}, {128, 8, 768, 0, 0}),
      clamped(
          windowed(moe("gpt-oss-120b", {36, 2880, 64, 8, 64, 2880, 201088}, {128, 4, 2880, 0, 0}), {128, 2})),
      with_mtp(latent(moe("deepseek-v3", {61, 7168, 128, 128, 128, 18432, 129280}, {256, 8, 2048, 2048, 3}),
                      {1536, 512, 128, 64, 128})),
      latent(moe("kimi-k2", {61, 7168, 64, 64, 128, 18432, 163840}, {384, 8, 2048, 2048, 1}),
             {1536, 512, 128, 64, 128}),
  };
}

}  // namespace

std::span<const TransformerSpec> model_catalog() {
  static const std::vector<TransformerSpec> catalog = make_catalog();
  return catalog;
}

const TransformerSpec* find_model(std::string_view name) {
  const auto found = std::ranges::find(model_catalog(), name, &TransformerSpec::name);
  return found == model_catalog().end() ? nullptr : &*found;
}

}  // namespace ntpsim::models
