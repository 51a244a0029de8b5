#include "ntpsim/models/transformer.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

namespace ntpsim::models {

TEST_CASE("catalog models are unique, consistent and name their source") {
  std::set<std::string> names;
  for (const TransformerSpec& model : model_catalog()) {
    CAPTURE(model.name);
    CHECK(names.insert(model.name).second);
    CHECK(find_model(model.name) == &model);
    CHECK_FALSE(model.source.empty());
    CHECK(model.num_attention_heads % model.num_query_groups == 0);
    CHECK(model.moe_layers() <= model.num_layers);
  }
  CHECK(names.size() == 39);
  CHECK(find_model("llama3-70b-12-layers") == nullptr);
}

TEST_CASE("total weights match the published sizes") {
  struct Published {
    const char* name;
    double parameters;
    double tolerance;
  };
  for (const Published& published : {
           Published{"llama3.1-405b", 405.8e9, 0.005},
           Published{"llama3-70b", 70.6e9, 0.005},
           Published{"llama3-8b", 8.03e9, 0.005},
           Published{"llama2-7b", 6.74e9, 0.005},
           Published{"llama2-13b", 13.02e9, 0.005},
           Published{"llama2-70b", 68.98e9, 0.005},
           Published{"deepseek-v3", 685e9, 0.01},
           Published{"kimi-k2", 1.03e12, 0.02},
           Published{"qwen3-235b-a22b", 235.1e9, 0.005},
           Published{"qwen3-30b-a3b", 30.5e9, 0.005},
           Published{"mixtral-8x7b", 46.7e9, 0.005},
           Published{"gpt-oss-120b", 116.8e9, 0.01},
           Published{"gpt3-175b", 175e9, 0.005},
           Published{"megatron-a100-529.6b", 529.6e9, 0.005},
           Published{"megatron-a100-1008b", 1008e9, 0.005},
           Published{"megatron-h100-314b", 314e9, 0.01},
           Published{"nemotron-340b", 341e9, 0.01},
           Published{"ntp-paper-480b", 492e9, 0.03},
       }) {
    CAPTURE(published.name);
    const TransformerSpec* model = find_model(published.name);
    REQUIRE(model != nullptr);
    CHECK(model->total_parameters() == doctest::Approx(published.parameters).epsilon(published.tolerance));
  }
}

TEST_CASE("model FLOPs of a dense model follow the closed form") {
  // Megatron's 72 l h^2 (1 + s/(6h) + V/(12 l h)) per token with causal attention counted once: s/(12h).
  const TransformerSpec& model = *find_model("gpt3-175b");
  const double hidden = 12288;
  const double layers = 96;
  const double expected =
      72 * layers * hidden * hidden * (1 + 2048 / (12 * hidden) + 51200 / (12 * layers * hidden));
  CHECK(model_flops_per_token(model, 2048) == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE("model FLOPs count the experts that a token uses") {
  const TransformerSpec& model = *find_model("mixtral-8x7b");
  // 12.9e9 weights in use, of which the embedding (131e6) is a lookup; attention of 32 x 128 over 2048 keys
  // on average.
  const double attention = 6.0 * 32 * 32 * 256 * 2048;
  CHECK(model_flops_per_token(model, 4096) ==
        doctest::Approx(6 * (12.9e9 - 0.131e9) + attention).epsilon(0.005));
  TransformerSpec without_mtp = *find_model("deepseek-v3");
  without_mtp.mtp_num_layers = 0;
  const double deepseek = model_flops_per_token(without_mtp, 1) / 6;
  CHECK(deepseek == doctest::Approx(37e9 - 0.9e9).epsilon(0.02));
  const double qwen = model_flops_per_token(*find_model("qwen3-235b-a22b"), 1) / 6;
  CHECK(qwen == doctest::Approx(22.2e9 - 0.6e9).epsilon(0.02));
}

TEST_CASE("latent attention without query compression projects the query directly") {
  TransformerSpec model = *find_model("deepseek-v3");
  const double compressed = model.attention_parameters();
  model.latent_attention = TransformerSpec::LatentAttention{0, 512, 128, 64, 128};
  const double saved = 7168.0 * 1536 + 1536.0 * 128 * 192;
  CHECK(model.attention_parameters() == compressed - saved + 7168.0 * 128 * 192);
}

TEST_CASE("a window bounds the keys that a query sees") {
  TransformerSpec model = *find_model("gpt-oss-120b");
  CHECK(model.is_windowed_layer(0));
  CHECK_FALSE(model.is_windowed_layer(1));
  CHECK(model.is_windowed_layer(2));
  CHECK(model.mean_keys(4096, false) == 2048);
  CHECK(model.mean_keys(4096, true) == 126);  // 128 - 128^2 / 8192
  CHECK(model.mean_keys(100, true) == 50);
  const double windowed = model_flops_per_token(model, 8192);
  model.sliding_window.reset();
  const double per_layer = 6.0 * 64 * 128 * (4096 - 127);
  CHECK(model_flops_per_token(model, 8192) - windowed == doctest::Approx(18 * per_layer).epsilon(1e-9));
}

TEST_CASE("dense layers come first") {
  const TransformerSpec& model = *find_model("deepseek-v3");
  CHECK_FALSE(model.is_moe_layer(2));
  CHECK(model.is_moe_layer(3));
  CHECK(model.moe_layers() == 58);
  CHECK_FALSE(find_model("llama3-8b")->is_moe_layer(5));
}

}  // namespace ntpsim::models
