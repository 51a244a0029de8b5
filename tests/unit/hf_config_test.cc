// Hugging Face config.json files become Megatron's dimensions.

#include "ntpsim/scenario/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/models/transformer.h"
#include "ntpsim/scenario/scenario.h"

namespace {

using namespace ntpsim;  // NOLINT(google-build-using-namespace)
using models::TransformerSpec;

TransformerSpec parsed(const std::string& text) {
  const auto model = scenario::parse_hf_config(text, "config.json");
  if (!model) FAIL(to_string(model.error().items().front()));
  return *model;
}

std::vector<std::string> errors_of(const std::string& text) {
  const auto model = scenario::parse_hf_config(text, "config.json");
  REQUIRE_FALSE(model);
  std::vector<std::string> lines;
  for (const Diagnostic& each : model.error().items()) lines.push_back(to_string(each));
  return lines;
}

const std::string kDense =
    R"("hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 14336,
       "vocab_size": 32000)";

}  // namespace

TEST_CASE("the configs of public models give the catalog's dimensions") {
  const std::string folder = NTPSIM_SHARED_DATA "/hf_configs/";
  if (!std::filesystem::exists(folder)) {
    MESSAGE("SKIPPED: no shared data, so no configs of public models");
    return;
  }
  const std::vector<std::pair<std::string, std::string>> pairs = {{"llama-3.1-405b", "llama3.1-405b"},
                                                                  {"mixtral-8x7b", "mixtral-8x7b"},
                                                                  {"qwen3-235b-a22b", "qwen3-235b-a22b"},
                                                                  {"deepseek-v3", "deepseek-v3"}};
  for (const auto& [file_name, catalog_name] : pairs) {
    CAPTURE(file_name);
    std::ifstream file(folder + file_name + ".json");
    TransformerSpec model = parsed(std::string(std::istreambuf_iterator<char>(file), {}));
    const TransformerSpec* expected = models::find_model(catalog_name);
    REQUIRE(expected != nullptr);
    model.name = expected->name;
    model.source = expected->source;
    CHECK(model == *expected);
  }
}

TEST_CASE("absent key/value heads and head width take their defaults; null is absent") {
  const TransformerSpec model = parsed(R"({"model_type": "llama", "head_dim": null, )" + kDense + "}");
  CHECK(model.num_query_groups == 32);
  CHECK(model.kv_channels == 128);
  CHECK(model.ffn_hidden_size == 14336);
  CHECK(model.gated_mlp);
  CHECK(model.untie_embeddings_and_output_weights);
  CHECK_FALSE(model.is_moe());
  const TransformerSpec other = parsed(
      R"({"model_type": "qwen3", "head_dim": 256, "num_key_value_heads": 8, "tie_word_embeddings": true, )" +
      kDense + "}");
  CHECK(other.num_query_groups == 8);
  CHECK(other.kv_channels == 256);
  CHECK_FALSE(other.untie_embeddings_and_output_weights);
}

TEST_CASE("families differ in their windows and experts") {
  const TransformerSpec mistral =
      parsed(R"({"model_type": "mistral", "sliding_window": 4096, )" + kDense + "}");
  REQUIRE(mistral.sliding_window);
  CHECK(mistral.sliding_window->window == 4096);
  CHECK(mistral.sliding_window->every == 1);

  const TransformerSpec gpt_oss = parsed(
      R"({"model_type": "gpt_oss", "sliding_window": 128, "num_local_experts": 128, "num_experts_per_tok": 4, )" +
      kDense + "}");
  CHECK(gpt_oss.sliding_window->every == 2);
  CHECK(gpt_oss.experts->ffn_hidden_size == 14336);

  const TransformerSpec qwen = parsed(
      R"({"model_type": "qwen3_moe", "num_experts": 64, "num_experts_per_tok": 4, "moe_intermediate_size": 768,
          "mlp_only_layers": [0, 1], )" +
      kDense + "}");
  CHECK(qwen.experts->dense_layers == 2);
  CHECK(qwen.experts->ffn_hidden_size == 768);

  const TransformerSpec deepseek = parsed(
      R"({"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
          "v_head_dim": 96, "q_lora_rank": null, "moe_intermediate_size": 1000, "n_routed_experts": 64,
          "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, )" +
      kDense + "}");
  CHECK(deepseek.latent_attention->q_lora_rank == 0);
  CHECK(deepseek.kv_channels == 96);
  CHECK(deepseek.experts->shared_expert_intermediate_size == 2000);
  CHECK(deepseek.experts->dense_layers == 1);
}

TEST_CASE("all missing keys are reported at once, by the file's own names") {
  CHECK(
      errors_of(
          R"({"model_type": "mixtral", "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 1})") ==
      std::vector<std::string>{
          "error: config.json: /num_hidden_layers: missing; a config of model_type \"mixtral\" needs it",
          "error: config.json: /intermediate_size: missing; a config of model_type \"mixtral\" needs it",
          "error: config.json: /num_local_experts: missing; a config of model_type \"mixtral\" needs it",
          "error: config.json: /num_experts_per_tok: missing; a config of model_type \"mixtral\" needs it"});
}

TEST_CASE("what a config holds must make sense and be modelled") {
  const auto with = [](const std::string& type, const std::string& more) {
    const auto lines = errors_of(R"({"model_type": ")" + type + "\", " + more + ", " + kDense + "}");
    REQUIRE(lines.size() == 1);
    return lines.front();
  };
  CHECK(with("llama", R"("num_key_value_heads": 5)") ==
        "error: config.json: /num_key_value_heads: found 5, which does not divide num_attention_heads 32");
  CHECK(with("llama", R"("head_dim": "64")") ==
        "error: config.json: /head_dim: found text \"64\", expected a whole number from 1 to 10000000");
  CHECK(with("llama", R"("head_dim": -64)").find("found the number -64") != std::string::npos);
  CHECK(with("qwen3", R"("use_sliding_window": true)").find("/use_sliding_window: ") != std::string::npos);
  CHECK(with("qwen3_moe", R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                             "decoder_sparse_step": 2)")
            .find("/decoder_sparse_step: found 2") != std::string::npos);
  CHECK(with("mixtral", R"("num_local_experts": 8, "num_experts_per_tok": 9)") ==
        "error: config.json: /num_experts_per_tok: found 9 of 8 experts");
}

TEST_CASE("a config has the limits of inline models") {
  const auto error = [](const std::string& type, const std::string& more) {
    const auto lines = errors_of(R"({"model_type": ")" + type + "\", " + kDense + ", " + more + "}");
    REQUIRE(lines.size() == 1);
    return lines.front();
  };
  CHECK(error("mixtral", R"("num_local_experts": 100001, "num_experts_per_tok": 2)")
            .ends_with("expected a whole number from 1 to 100000"));
  CHECK(error("llama", R"("num_key_value_heads": 100001)").find("/num_key_value_heads: found") !=
        std::string::npos);
  const std::string moe = R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64)";
  std::string layers;
  for (int i = 0; i < 32; ++i) layers += (i > 0 ? "," : "") + std::to_string(i);
  CHECK(error("qwen3_moe", moe + ", \"mlp_only_layers\": [" + layers + "]") ==
        "error: config.json: /num_hidden_layers: found 32 layers, 32 of them without experts");
  CHECK(error("deepseek_v3", R"("kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
          "v_head_dim": 96, "moe_intermediate_size": 1000000, "n_routed_experts": 64,
          "n_shared_experts": 11, "num_experts_per_tok": 6)")
            .find("/n_shared_experts: the shared experts are 11000000 wide") != std::string::npos);
}

TEST_CASE("a mistyped model_type is named with the nearest") {
  CHECK(errors_of(R"({"model_type": "lama"})") ==
        std::vector<std::string>{
            "error: config.json: /model_type: unknown model_type \"lama\"; did you mean \"llama\"?"});
}

TEST_CASE("an unknown model_type lists those known") {
  const auto lines = errors_of(R"({"model_type": "bert"})");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("/model_type: unknown model_type \"bert\"; known: ") != std::string::npos);
  for (const auto type : scenario::hf_model_types()) CHECK(lines[0].find(type) != std::string::npos);
  CHECK(errors_of("[]")[0] == "error: config.json: found a list, expected an object");
  CHECK(errors_of("{}")[0].find("/model_type: missing") != std::string::npos);
  CHECK(errors_of("{")[0].find("line 1, column 2") != std::string::npos);
}

TEST_CASE("a scenario takes a config by its path, relative to itself, or inline") {
  const auto folder = std::filesystem::temp_directory_path() / "ntpsim_hf_config_test";
  std::filesystem::create_directories(folder);
  const std::string config = R"({"model_type": "llama", )" + kDense + "}";
  std::ofstream(folder / "config.json") << config;
  std::ofstream(folder / "broken.json") << R"({"model_type": "llama", "hidden_size": "x"})";
  std::ofstream(folder / "inline.json") << R"({"num_layers": 2, "hidden_size": 8, "num_attention_heads": 3})";
  std::ifstream file(NTPSIM_SOURCE_DIR "/scenarios/small.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string name = (folder / "scenario.json").string();

  const auto by_path = scenario::parse_scenario(text, name, {.sets = {"model=config.json"}, .policies = {}});
  REQUIRE(by_path);
  models::TransformerSpec named = parsed(config);
  named.name = "ntpsim_hf_config_test";  // a config.json is called by its directory
  CHECK(by_path->scenario.job.model == named);
  const auto inlined = scenario::parse_scenario(text, name, {.sets = {"model=" + config}, .policies = {}});
  REQUIRE(inlined);
  CHECK(inlined->scenario.job.model == parsed(config));

  const auto broken = scenario::parse_scenario(text, name, {.sets = {"model=broken.json"}, .policies = {}});
  REQUIRE_FALSE(broken);
  REQUIRE(broken.error().items().size() == 6);
  for (const auto& each : broken.error().items()) {
    CHECK((each.file == (folder / "broken.json").string() || each == broken.error().items().back()));
  }
  CHECK(to_string(broken.error().items().back()) ==
        "error: --set: /model: names the model file \"broken.json\", which cannot be used");
  CHECK(std::ranges::any_of(broken.error().items(), [](const Diagnostic& each) {
    return each.pointer == "/hidden_size" && each.message.find("found text \"x\"") != std::string::npos;
  }));

  const auto incomplete =
      scenario::parse_scenario(text, name, {.sets = {"model=inline.json"}, .policies = {}});
  REQUIRE_FALSE(incomplete);
  CHECK(std::ranges::any_of(incomplete.error().items(), [](const Diagnostic& each) {
    return each.pointer == "/kv_channels" && each.message.find("must be given") != std::string::npos;
  }));
  const auto absent = scenario::parse_scenario(text, name, {.sets = {"model=absent.json"}, .policies = {}});
  REQUIRE_FALSE(absent);
  CHECK(absent.error().items().front().message == "cannot read it: No such file or directory");
  std::filesystem::remove_all(folder);
}
