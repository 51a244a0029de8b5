#include "ntpsim/models/memory.h"

#include <algorithm>
#include <optional>

#include <doctest/doctest.h>

#include "aborts.h"
#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::Bytes;
using ntpsim::models::find_model;
using ntpsim::models::least_recompute;
using ntpsim::models::memory_per_gpu;
using ntpsim::models::MemoryBreakdown;
using ntpsim::models::Precision;
using ntpsim::models::Recompute;
using ntpsim::models::RecomputeChoice;
using ntpsim::models::stage_memory;
using ntpsim::models::TrainingSpec;
using ntpsim::models::TransformerSpec;

constexpr double kGib = 1024.0 * 1024 * 1024;

double state(const MemoryBreakdown& memory) {
  return (memory.weights + memory.gradients + memory.optimizer).value();
}

double state(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  return state(memory_per_gpu(model, training, degree));
}

/// TP 8 over `stages`, `microbatches` of one sequence of 2,048 tokens, one replica, no distributed optimizer.
TrainingSpec pipeline(std::int64_t stages, std::int64_t microbatches, std::int64_t chunks = 1) {
  TrainingSpec training;
  training.tensor_model_parallel_size = 8;
  training.pipeline_model_parallel_size = stages;
  training.virtual_pipeline_model_parallel_size = chunks;
  training.global_batch_size = microbatches;
  training.seq_length = 2048;
  training.use_distributed_optimizer = false;
  return training;
}

/// A GPT of 2022 in such a pipeline: dropout, scores through memory.
TrainingSpec unfused_pipeline(std::int64_t stages, std::int64_t microbatches, std::int64_t chunks = 1) {
  TrainingSpec training = pipeline(stages, microbatches, chunks);
  training.fused_attention = false;
  return training;
}

double activations(const TransformerSpec& model, const TrainingSpec& training, std::int64_t stage) {
  const int degree = static_cast<int>(training.tensor_model_parallel_size);
  return stage_memory(model, training, degree, stage).activations.value();
}

double total(const TransformerSpec& model, TrainingSpec training, const RecomputeChoice& choice) {
  training.recompute_granularity = choice.granularity;
  training.recompute_num_layers = choice.num_layers;
  return memory_per_gpu(model, training, static_cast<int>(training.tensor_model_parallel_size))
      .total()
      .value();
}

TEST_CASE("18 bytes a weight: those of the layers, and of the embedding on the first stage") {
  // 12 h^2 weights a layer; 22B has 48 of h 6144, 175B 12 of h 12288 a stage.
  const double layers = 48 * 12.0 * 6144 * 6144 / 8;
  const double embedding = 51200 * 6144.0 / 8;
  CHECK(state(*find_model("megatron-a100-22b"), pipeline(1, 4), 8) ==
        doctest::Approx(18 * (layers + embedding)));
  const double stage = 12 * 12.0 * 12288 * 12288 / 8;
  CHECK(state(stage_memory(*find_model("gpt3-175b"), pipeline(8, 64), 8, 3)) == doctest::Approx(18 * stage));
}

TEST_CASE("tied output weights are a copy on the last stage of a pipeline") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  const TrainingSpec training = pipeline(8, 64);
  CHECK(state(stage_memory(model, training, 8, 7)) ==
        doctest::Approx(state(stage_memory(model, training, 8, 0))));
}

TEST_CASE("the distributed optimizer spreads two thirds of the bytes over the replicas") {
  TrainingSpec training = paper_job().training;
  training.use_distributed_optimizer = false;
  const double whole = state(paper_job().model, training, 32);
  training.use_distributed_optimizer = true;
  const double spread = state(paper_job().model, training, 32);
  CHECK(spread / whole == doctest::Approx((6 + 12.0 / 128) / 18));
}

TEST_CASE("FSDP spreads all of the state, and gathers two units of weights") {
  const TransformerSpec& model = *find_model("llama3-8b");
  TrainingSpec training = tiny_job(16).training;
  const MemoryBreakdown spread_optimizer = memory_per_gpu(model, training, 4);
  training.use_fsdp = true;
  const MemoryBreakdown sharded = memory_per_gpu(model, training, 4);
  CHECK(sharded.weights.value() == doctest::Approx(spread_optimizer.weights.value() / 16));
  CHECK(sharded.gradients.value() == doctest::Approx(spread_optimizer.gradients.value() / 16));
  CHECK(sharded.optimizer == spread_optimizer.optimizer);
  // The largest unit is the embedding of 128,256 rows.
  CHECK(sharded.working.value() - spread_optimizer.working.value() ==
        doctest::Approx(128256 * 4096.0 / 4 * (2 * 2 + 4)));
}

TEST_CASE("a reduced degree needs more memory, and activations more") {
  const auto job = paper_job();
  double last_state = 0;
  double last_activations = 0;
  for (const int degree : {32, 31, 30, 28, 16, 1}) {
    const MemoryBreakdown memory = memory_per_gpu(job.model, job.training, degree);
    CHECK(state(memory) > last_state);
    CHECK(memory.activations.value() > last_activations);
    last_state = state(memory);
    last_activations = memory.activations.value();
  }
}

TEST_CASE("expert parallelism spreads the experts") {
  TrainingSpec training;
  training.pipeline_model_parallel_size = 16;
  training.expert_model_parallel_size = 64;
  training.data_parallel_size = 128;
  const double spread = state(*find_model("deepseek-v3"), training, 1);
  training.expert_model_parallel_size = 1;
  const double whole = state(*find_model("deepseek-v3"), training, 1);
  // Experts are nearly all of the weights, and 64 times fewer a GPU.
  CHECK(spread < whole / 10);
}

TEST_CASE("activations of a GPT layer by Korthikanti et al. 2022, equations 2 and 4") {
  const TransformerSpec& model = *find_model("megatron-a100-22b");
  TrainingSpec training = unfused_pipeline(1, 1);
  const double sbh = 2048.0 * 6144;
  const double scores = 5 * 64 * 2048.0 / 6144;
  CHECK(activations(model, training, 0) == doctest::Approx(48 * sbh * (34 + scores) / 8));
  training.recompute_granularity = Recompute::kSelective;
  CHECK(activations(model, training, 0) == doctest::Approx(48 * sbh * 34 / 8));
  training.recompute_granularity = Recompute::kFull;
  CHECK(activations(model, training, 0) == doctest::Approx(48 * sbh * 2 / 8));
  training.recompute_granularity = Recompute::kNone;
  training.sequence_parallel = false;
  CHECK(activations(model, training, 0) == doctest::Approx(48 * sbh * (10 + (24 + scores) / 8)));
}

TEST_CASE("activations of a gated layer with fused attention") {
  // llama3-8b in 16 bits: h 4096, 32 heads of 128, 8 groups, f 14336; norms' inputs and outputs, queries,
  // keys and values, output, log-sum-exp, both up projections and their product.
  TrainingSpec training = tiny_job(4).training;
  training.global_batch_size = 4;
  const double per_token = 4 * 2 * 4096.0 + 2 * 128 * (32 + 16) + 2 * 4096 + 4 * 32 + 3 * 2 * 14336;
  CHECK(activations(*find_model("llama3-8b"), training, 0) == doctest::Approx(32 * 8192 * per_token / 4));
  // 8 bits: the norms' outputs and the product in one byte, and such a copy of the attention's output.
  training.precision = Precision::kFp8;
  CHECK(activations(*find_model("llama3-8b"), training, 0) ==
        doctest::Approx(32 * 8192 * (per_token - 2 * 4096 + 4096 - 14336) / 4));
}

TEST_CASE("context parallelism shares the tokens and keeps the attention's output twice") {
  TrainingSpec training = tiny_job(4).training;
  training.global_batch_size = 4;
  const double whole = activations(*find_model("llama3-8b"), training, 0);
  training.context_parallel_size = 2;
  CHECK(activations(*find_model("llama3-8b"), training, 0) ==
        doctest::Approx(whole / 2 + 32 * 8192.0 / 2 * 2 * 4096 / 4));
}

TEST_CASE("experts keep their rows") {
  TransformerSpec model = *find_model("qwen3-30b-a3b");
  TrainingSpec training;
  training.seq_length = 4096;
  training.expert_model_parallel_size = 8;
  training.data_parallel_size = 8;
  training.global_batch_size = 8;
  const double few = activations(model, training, 0);
  model.experts->router_topk = 16;
  // 8 rows more a token, each with its input, two up projections and their product, in 48 layers.
  CHECK(activations(model, training, 0) - few == doctest::Approx(48 * 4096.0 * 8 * (2 * 2048 + 6 * 768)));
}

TEST_CASE("tensor parallelism shares dispatched rows, whether it cuts the experts or not") {
  const TransformerSpec& model = *find_model("mixtral-8x7b");
  TrainingSpec training = pipeline(1, 1);
  training.tensor_model_parallel_size = 2;
  training.data_parallel_size = 4;
  training.global_batch_size = 4;
  training.expert_model_parallel_size = 4;
  const double whole_experts = activations(model, training, 0);
  training.expert_tensor_parallel_size = 2;
  const double cut_experts = activations(model, training, 0);
  // Cut, a rank takes the rows of its whole TP group, with half of their intermediate columns.
  const double rows = 2048.0 * 2;
  CHECK(cut_experts - whole_experts == doctest::Approx(32 * rows / 2 * 2 * 4096));
}

TEST_CASE("1F1B: stage i of p keeps p - i microbatches, or all there are") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  const double one = activations(model, unfused_pipeline(8, 64), 7);
  for (const std::int64_t stage : {0, 3, 6}) {
    CHECK(activations(model, unfused_pipeline(8, 64), stage) ==
          doctest::Approx(one * static_cast<double>(8 - stage)));
  }
  CHECK(activations(model, unfused_pipeline(8, 2), 0) == doctest::Approx(2 * one));
}

TEST_CASE("interleaving keeps 1 + (p - 1) / (p v) times as much on the first stage") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  const double plain = activations(model, unfused_pipeline(8, 64), 0);
  CHECK(activations(model, unfused_pipeline(8, 64, 3), 0) == doctest::Approx(plain * (1 + 7.0 / 24)));
  // The last rank warms up with p microbatches of all chunks but the last.
  CHECK(activations(model, unfused_pipeline(8, 64, 3), 7) == doctest::Approx(plain * 17 / 24));
  CHECK(activations(model, unfused_pipeline(8, 8, 3), 0) == doctest::Approx(plain));
}

TEST_CASE("memory per GPU is that of the fullest stage") {
  const TransformerSpec& model = *find_model("llama3.1-405b");
  for (const std::int64_t microbatches : {1, 64}) {
    const TrainingSpec training = pipeline(9, microbatches, 2);
    double most = 0;
    for (std::int64_t stage = 0; stage < 9; ++stage) {
      most = std::max(most, stage_memory(model, training, 8, stage).total().value());
    }
    CHECK(memory_per_gpu(model, training, 8).total().value() == most);
  }
}

TEST_CASE("the last stage holds logits") {
  const TransformerSpec& model = *find_model("llama3-8b");
  const TrainingSpec training = pipeline(2, 8);
  const double logits = 2 * 2048 * 128256.0 / 8;
  CHECK(stage_memory(model, training, 8, 1).working.value() > logits);
  CHECK(stage_memory(model, training, 8, 0).working.value() < logits);
}

TEST_CASE("multi-token prediction is the last stage's") {
  TransformerSpec model = *find_model("deepseek-v3");
  model.mtp_num_layers = 0;
  // Of the layers, the ends of the pipeline get 15 and 16 with and without.
  TrainingSpec training = pipeline(4, 8);
  training.decoder_first_pipeline_num_layers = 15;
  training.decoder_last_pipeline_num_layers = 14;
  const auto stage = [&](std::int64_t each) { return stage_memory(model, training, 8, each); };
  const MemoryBreakdown first = stage(0);
  const MemoryBreakdown last = stage(3);
  model.mtp_num_layers = 1;
  CHECK(stage(0).total() == first.total());
  CHECK(stage(3).activations > last.activations);
  CHECK(stage(3).working.value() - last.working.value() == doctest::Approx(2 * 2048 * 129280.0 / 8));
  // More than the weights of the embedding and of one layer's 256 experts.
  CHECK(stage(3).weights.value() - last.weights.value() >
        2 * (129280 * 7168.0 / 8 + 256 * 3 * 2048 * 7168.0));
}

TEST_CASE("the more is recomputed, the less is kept") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  const TrainingSpec training = unfused_pipeline(8, 64);
  double last = total(model, training, {.granularity = Recompute::kNone});
  const auto falls_to = [&](const RecomputeChoice& choice) {
    const double bytes = total(model, training, choice);
    CHECK(bytes < last);
    last = bytes;
  };
  falls_to({.granularity = Recompute::kSelective});
  // The layers left keep their scores: few recomputed layers save less than selective recomputation.
  for (const std::int64_t layers : {9, 10, 11}) {
    falls_to({.granularity = Recompute::kBlock, .num_layers = layers});
  }
  falls_to({.granularity = Recompute::kFull});
  CHECK(total(model, training, {.granularity = Recompute::kBlock, .num_layers = 12}) == last);
}

TEST_CASE("a recomputed layer's activations are in work") {
  const TransformerSpec& model = *find_model("llama3-8b");
  TrainingSpec training = pipeline(2, 8);
  const double kept = activations(model, training, 0) / 2 / 16;
  const double plain = stage_memory(model, training, 8, 0).working.value();
  training.recompute_granularity = Recompute::kFull;
  CHECK(stage_memory(model, training, 8, 0).working.value() == doctest::Approx(plain + kept));
}

TEST_CASE("least recomputation: every choice is what its own need calls for") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  const TrainingSpec training = unfused_pipeline(8, 64);
  const RecomputeChoice choices[] = {{.granularity = Recompute::kNone},
                                     {.granularity = Recompute::kSelective},
                                     {.granularity = Recompute::kBlock, .num_layers = 11},
                                     {.granularity = Recompute::kFull}};
  for (const RecomputeChoice& choice : choices) {
    const double need = total(model, training, choice);
    CHECK(least_recompute(model, training, Bytes(need)) == choice);
    CHECK(least_recompute(model, training, Bytes(need - 1)) != choice);
  }
  CHECK(least_recompute(model, training, Bytes(20 * kGib)) == std::nullopt);
}

TEST_CASE("a degree or a stage that the job has not is a defect") {
  const TransformerSpec& model = *find_model("gpt3-175b");
  const TrainingSpec training = pipeline(8, 64);
  CHECK(aborts([&] { (void)stage_memory(model, training, 9, 0); }));
  CHECK(aborts([&] { (void)stage_memory(model, training, 8, 8); }));
  CHECK(aborts([&] { (void)memory_per_gpu(model, training, 0); }));
}

}  // namespace
