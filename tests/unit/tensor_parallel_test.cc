#include "ntpsim/models/tensor_parallel.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace ntpsim::models {
namespace {

TrainingSpec training_of(std::int64_t tp, std::int64_t ep = 1, std::int64_t etp = 1) {
  TrainingSpec training;
  training.tensor_model_parallel_size = tp;
  training.expert_model_parallel_size = ep;
  training.expert_tensor_parallel_size = etp;
  return training;
}

double elements(const std::vector<TpTensor>& tensors) {
  double sum = 0;
  for (const TpTensor& tensor : tensors) sum += static_cast<double>(tensor.units) * tensor.elements_per_unit;
  return sum;
}

std::vector<std::string> names(const std::vector<TpTensor>& tensors) {
  std::vector<std::string> result;
  for (const TpTensor& tensor : tensors)
    result.push_back(std::string(tensor.name) + "/" + std::string(tensor.unit));
  return result;
}

TEST_CASE("the tensors of a dense layer, with as many KV groups as ranks and with fewer") {
  const TransformerSpec& llama = *find_model("llama3.1-405b");
  CHECK(names(layer_tensors(llama, training_of(8), {})) ==
        std::vector<std::string>{"self_attention.linear_qkv/KV group", "self_attention.linear_proj/KV group",
                                 "mlp.linear_fc1/FFN column", "mlp.linear_fc2/FFN column"});
  CHECK(names(layer_tensors(llama, training_of(32), {})) ==
        std::vector<std::string>{"self_attention.linear_qkv.query/query head",
                                 "self_attention.linear_qkv.key_value/KV group",
                                 "self_attention.linear_proj/query head", "mlp.linear_fc1/FFN column",
                                 "mlp.linear_fc2/FFN column"});
}

TEST_CASE("the tensors of a layer hold all its weights") {
  for (const TransformerSpec& model : model_catalog()) {
    CAPTURE(model.name);
    for (const std::int64_t tp : {1, 8, 64}) {
      CAPTURE(tp);
      const TrainingSpec training = training_of(tp, model.is_moe() ? tp : 1);
      double whole_on_every_rank = 0;
      if (model.latent_attention) {
        whole_on_every_rank = static_cast<double>(
            model.hidden_size * (model.latent_attention->q_lora_rank + model.latent_attention->kv_lora_rank +
                                 model.latent_attention->qk_pos_emb_head_dim));
      }
      CHECK(elements(attention_tensors(model, training)) + whole_on_every_rank ==
            doctest::Approx(model.attention_parameters()));
      CHECK(elements(mlp_tensors(model, {})) == doctest::Approx(model.dense_mlp_parameters()));
      if (model.is_moe() && tp > 1) {
        CHECK(elements(expert_tensors(model, training)) == doctest::Approx(model.routed_expert_parameters()));
      }
      const double vocabulary =
          elements({embedding_tensor(model)}) +
          (model.untie_embeddings_and_output_weights ? elements({output_tensor(model)}) : 0);
      CHECK(vocabulary == doctest::Approx(model.embedding_parameters()));
    }
  }
}

TEST_CASE(
    "an expert is a unit where experts are spread, its columns where TP cuts them, else nothing is cut") {
  const TransformerSpec& qwen = *find_model("qwen3-235b-a22b");  // 128 experts
  CHECK(expert_tensors(qwen, training_of(8)).empty());
  CHECK(expert_tensors(qwen, training_of(8, 8)).front().units == 128);
  CHECK(expert_tensors(qwen, training_of(8, 32)).front().units == 32);
  CHECK(expert_tensors(qwen, training_of(8, 8, 8)).front().unit == "expert column");
  CHECK(expert_tensors(*find_model("llama3-70b"), training_of(8)).empty());
}

TEST_CASE("latent attention is cut by heads") {
  const TransformerSpec& deepseek = *find_model("deepseek-v3");
  const std::vector<TpTensor> tensors = attention_tensors(deepseek, training_of(64));
  CHECK(names(tensors) == std::vector<std::string>{"self_attention.linear_q_up_proj/head",
                                                   "self_attention.linear_kv_up_proj/head",
                                                   "self_attention.linear_proj/head"});
  for (const TpTensor& tensor : tensors) CHECK(tensor.units == 128);
}

TEST_CASE("the fullest rank and the reshard follow the plan") {
  const TransformerSpec& llama = *find_model("llama3.1-405b");
  const std::vector<TpTensor> tensors = layer_tensors(llama, training_of(32), {});
  const double head = 128.0 * 16384;
  CHECK(elements_on_fullest_rank(tensors[0], 32, 32) == 4 * head);
  CHECK(elements_on_fullest_rank(tensors[0], 32, 30) == 5 * head);
  CHECK(elements_on_fullest_rank(tensors[1], 32, 32) == 2 * head);      // one KV group
  CHECK(elements_on_fullest_rank(tensors[1], 32, 30) == 2 * 2 * head);  // of the heads taken over, too
  CHECK(resharded_elements(tensors[0], 32, 32, 30) == 4 * head);
  CHECK(resharded_elements(tensors[0], 32, 30, 30) == 0);
  CHECK(resharded_elements(tensors[3], 32, 32, 30) == 1664 * 2 * 16384.0);  // 53,248 columns over 32 ranks
}

TEST_CASE("copies of KV groups cost a whole job nothing on top") {
  const TpTensor key_value = attention_tensors(*find_model("llama3.1-405b"), training_of(32))[1];
  CHECK(key_value.is_copied());
  CHECK(resharded_elements(key_value, 32, 32, 32) == 0);
}

}  // namespace
}  // namespace ntpsim::models
