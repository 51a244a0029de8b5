#include "ntpsim/models/layer_cost.h"

#include <doctest/doctest.h>

namespace ntpsim::models {
namespace {

const SystemSpec& rack() {
  return *find_system("b200-nvl32");
}

TrainingSpec training_of(std::int64_t tp) {
  TrainingSpec training;
  training.tensor_model_parallel_size = tp;
  training.seq_length = 8192;
  return training;
}

PieceTime layer_time(const TransformerSpec& model, const TrainingSpec& training, int degree,
                     double speed = 1) {
  return LayerCost(rack(), model, training, degree, speed)
      .layer(kind_of(model, model.num_layers - 1), training.recompute_granularity == Recompute::kFull);
}

double compute_s(const PieceTime& piece) {
  return piece.forward.compute_s + piece.backward.compute_s;
}

double tp_s(const PieceTime& piece) {
  return piece.forward.tp_s + piece.backward.tp_s;
}

}  // namespace

TEST_CASE("attention is cut by KV groups where the TP size is at most their number, else by query heads") {
  const TransformerSpec& llama = *find_model("llama3.1-405b");  // 128 heads, 8 groups
  CHECK(attention_shard(llama, 1, 1).heads == 128);
  CHECK(attention_shard(llama, 8, 8).heads == 16);
  CHECK(attention_shard(llama, 8, 8).groups == 1);
  CHECK(attention_shard(llama, 8, 7).heads == 32);
  CHECK(attention_shard(llama, 8, 7).groups == 2);
  CHECK(attention_shard(llama, 32, 32).heads == 4);
  CHECK(attention_shard(llama, 32, 32).groups == 1);
  // A core rank that takes over a head of another KV group needs that group too.
  CHECK(attention_shard(llama, 32, 30).heads == 5);
  CHECK(attention_shard(llama, 32, 30).groups == 2);
  const TransformerSpec& paper = *find_model("ntp-paper-480b");  // 128 heads, no groups
  CHECK(attention_shard(paper, 32, 32).heads == 4);
  CHECK(attention_shard(paper, 32, 30).heads == 5);
  CHECK(attention_shard(paper, 32, 30).groups == 5);
}

TEST_CASE("the ranks' weights add up to the layer's when the degree divides all units") {
  TrainingSpec training = training_of(8);
  for (const char* name : {"llama3.1-405b", "gpt3-175b"}) {
    const TransformerSpec& model = *find_model(name);
    const double layer = model.attention_parameters() + model.dense_mlp_parameters();
    CHECK(8 * layer_weights(model, training, {}, 8).dense == doctest::Approx(layer));
    CHECK(layer_weights(model, training, {}, 1).dense == doctest::Approx(layer));
  }
  training.expert_model_parallel_size = 16;
  const TransformerSpec& moe = *find_model("qwen3-235b-a22b");
  CHECK(16 * layer_weights(moe, training, {.moe = true}, 8).experts ==
        doctest::Approx(moe.routed_expert_parameters()));
  training.expert_tensor_parallel_size = 2;
  CHECK(32 * layer_weights(moe, training, {.moe = true}, 8).experts ==
        doctest::Approx(moe.routed_expert_parameters()));
}

TEST_CASE("experts of lost ranks go to those left") {
  TrainingSpec training = training_of(8);
  training.expert_model_parallel_size = 8;
  const TransformerSpec& moe = *find_model("qwen3-235b-a22b");  // 128 experts
  const double expert = moe.routed_expert_parameters() / 128;
  CHECK(layer_weights(moe, training, {.moe = true}, 8).experts == doctest::Approx(16 * expert));
  CHECK(layer_weights(moe, training, {.moe = true}, 7).experts == doctest::Approx(19 * expert));
  CHECK(layer_weights(moe, training, {.moe = true}, 1).experts == doctest::Approx(128 * expert));
  training.expert_model_parallel_size = 1;
  CHECK(layer_weights(moe, training, {.moe = true}, 7).experts == doctest::Approx(128 * expert));
}

TEST_CASE("only extra ranks have something to reshard") {
  const TrainingSpec training = training_of(32);
  const TransformerSpec& model = *find_model("ntp-paper-480b");
  CHECK(layer_reshard_weights(model, training, {}, 30, 30) == 0);
  CHECK(vocabulary_reshard_weights(model, 32, 32) == 0);
  // An extra rank sends its whole shard, 1/32 of the layer.
  const double shard = (model.attention_parameters() + model.dense_mlp_parameters()) / 32;
  CHECK(layer_reshard_weights(model, training, {}, 32, 30) == doctest::Approx(shard));
}

TEST_CASE("the tensor cores bound the GEMMs of a large layer") {
  // One rank, no communication: 2 FLOPs per weight and token forward at no more than the peak.
  const TransformerSpec& model = *find_model("llama3-70b");
  const PieceTime time = layer_time(model, training_of(1), 1);
  const double flops = 2 * (model.attention_parameters() + model.dense_mlp_parameters()) * 8192;
  const double at_peak = flops / rack().gpu.peak_bf16.value();
  CHECK(time.forward.total_s() > at_peak / 0.6);
  CHECK(time.forward.total_s() < at_peak / 0.35);
  CHECK(time.backward.total_s() > 1.9 * time.forward.total_s());
  CHECK(time.backward.total_s() < 2.5 * time.forward.total_s());
  CHECK(tp_s(time) == 0);
  CHECK(time.forward.cp_s + time.forward.ep_s == 0);
}

TEST_CASE("compute falls as the degree rises over divisible units, collectives do not") {
  const TransformerSpec& model = *find_model("ntp-paper-480b");
  const TrainingSpec training = training_of(32);
  for (int degree = 1; degree < 32; degree *= 2) {
    CHECK(compute_s(layer_time(model, training, 2 * degree)) <
          compute_s(layer_time(model, training, degree)));
    CHECK(layer_time(model, training, 2 * degree).total_s() < layer_time(model, training, degree).total_s());
    CHECK(tp_s(layer_time(model, training, 2 * degree)) >= tp_s(layer_time(model, training, degree)));
  }
}

TEST_CASE("an uneven degree costs what its fullest rank does") {
  // 128 heads over 26 to 31 ranks: 5 on the fullest; over 32: 4.
  const TransformerSpec& model = *find_model("ntp-paper-480b");
  const TrainingSpec training = training_of(32);
  const double at32 = compute_s(layer_time(model, training, 32));
  const double at31 = compute_s(layer_time(model, training, 31));
  const double at30 = compute_s(layer_time(model, training, 30));
  CHECK(at31 / at32 > 1.06);  // far above 32/31
  CHECK(at30 / at31 > 1.005);
  CHECK(at30 / at31 < 1.03);
}

TEST_CASE("speed divides what the tensor cores bound and nothing else") {
  const TransformerSpec& model = *find_model("llama3-70b");
  const TrainingSpec training = training_of(8);
  const PieceTime base = layer_time(model, training, 8);
  const PieceTime fast = layer_time(model, training, 8, 1.1);
  CHECK(compute_s(fast) < compute_s(base));
  CHECK(compute_s(fast) > compute_s(base) / 1.1);
  CHECK(fast.forward.tp_s == doctest::Approx(base.forward.tp_s));
  // So fast that only memory is left: the rest does not shrink any more.
  const double memory = compute_s(layer_time(model, training, 8, 1e9));
  CHECK(memory > 0.02 * compute_s(base));
  CHECK(compute_s(layer_time(model, training, 8, 1e12)) == doctest::Approx(memory));
}

TEST_CASE("recomputation adds a forward pass, or attention alone") {
  const TransformerSpec& model = *find_model("llama3-70b");
  TrainingSpec training = training_of(8);
  training.context_parallel_size = 2;
  const PieceTime none = layer_time(model, training, 8);
  training.recompute_granularity = Recompute::kFull;
  const PieceTime full = layer_time(model, training, 8);
  CHECK(full.backward.total_s() == doctest::Approx(none.backward.total_s() + none.forward.total_s()));
  CHECK(full.forward.total_s() == none.forward.total_s());
  training.recompute_granularity = Recompute::kSelective;
  const PieceTime selective = layer_time(model, training, 8);
  CHECK(selective.backward.total_s() > none.backward.total_s());
  CHECK(selective.backward.total_s() < none.backward.total_s() + 0.5 * none.forward.total_s());
}

TEST_CASE("overlap hides tensor-parallel collectives but for one piece") {
  const TransformerSpec& model = *find_model("ntp-paper-480b");
  TrainingSpec training = training_of(8);
  const PieceTime plain = layer_time(model, training, 8);
  training.tp_comm_overlap = true;
  const PieceTime overlapped = layer_time(model, training, 8);
  CHECK(overlapped.forward.tp_s == doctest::Approx(plain.forward.tp_s / 8));
  CHECK(overlapped.forward.compute_s == plain.forward.compute_s);
  training.sequence_parallel = false;
  const PieceTime reduced = layer_time(model, training, 8);
  training.tp_comm_overlap = false;
  CHECK(layer_time(model, training, 8).total_s() == reduced.total_s());
}

TEST_CASE("sequence parallelism shares the element-wise work") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  TrainingSpec training = training_of(8);
  const double shared = compute_s(layer_time(model, training, 8));
  training.sequence_parallel = false;
  CHECK(compute_s(layer_time(model, training, 8)) > 1.02 * shared);
}

TEST_CASE("a window and fused attention save time, context parallelism cuts it") {
  const TransformerSpec& windowed = *find_model("gpt-oss-120b");
  TrainingSpec training = training_of(1);
  training.seq_length = 32768;
  const LayerCost cost(rack(), windowed, training, 1, 1);
  CHECK(cost.layer({.moe = true, .windowed = true}, false).total_s() <
        0.9 * cost.layer({.moe = true, .windowed = false}, false).total_s());

  const TransformerSpec& model = *find_model("llama3-8b");
  const PieceTime whole = layer_time(model, training, 1);
  training.fused_attention = false;
  CHECK(layer_time(model, training, 1).total_s() > 1.5 * whole.total_s());
  training.fused_attention = true;
  training.context_parallel_size = 4;
  const PieceTime part = layer_time(model, training, 1);
  CHECK(compute_s(part) == doctest::Approx(compute_s(whole) / 4).epsilon(0.05));
  CHECK(part.forward.cp_s == 0);  // attention of 8192 tokens against 32768 hides the exchange
  training.seq_length = 2048;
  training.context_parallel_size = 16;
  CHECK(layer_time(model, training, 1).forward.cp_s > 0);
}

TEST_CASE("expert parallelism exchanges tokens, latent attention and narrow formats are priced") {
  const TransformerSpec& model = *find_model("deepseek-v3");
  TrainingSpec training = training_of(1);
  training.seq_length = 4096;
  training.expert_model_parallel_size = 1;
  CHECK(layer_time(model, training, 1).forward.ep_s == 0);
  training.expert_model_parallel_size = 32;
  const PieceTime inside = layer_time(model, training, 1);
  CHECK(inside.forward.ep_s > 0);
  CHECK(inside.backward.ep_s == inside.forward.ep_s);
  training.expert_model_parallel_size = 64;  // over two domains, through NICs
  CHECK(layer_time(model, training, 1).forward.ep_s > 2 * inside.forward.ep_s);
  training.expert_model_parallel_size = 32;
  training.precision = Precision::kMxfp8;
  const PieceTime narrow = layer_time(model, training, 1);
  CHECK(compute_s(narrow) < compute_s(inside));
  CHECK(compute_s(narrow) > compute_s(inside) / 2);
}

}  // namespace ntpsim::models
