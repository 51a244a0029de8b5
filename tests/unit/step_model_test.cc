#include "ntpsim/sim/step_model.h"

#include <array>

#include <doctest/doctest.h>

#include "aborts.h"

namespace ntpsim::sim {
namespace {

using models::TrainingSpec;

/// The NTP paper's job: TP 32, PP 8, DP 128, eight sequences of 16,384 tokens per replica.
TrainingSpec paper_training(std::int64_t virtual_stages) {
  TrainingSpec training;
  training.tensor_model_parallel_size = 32;
  training.pipeline_model_parallel_size = 8;
  training.virtual_pipeline_model_parallel_size = virtual_stages;
  training.data_parallel_size = 128;
  training.global_batch_size = 1024;
  training.seq_length = 16384;
  return training;
}

StepModel paper_model(const TrainingSpec& training) {
  return {*models::find_system("b200-nvl32"), *models::find_model("ntp-paper-480b"), training};
}

std::array<double, 8> parts(const StepBreakdown& step) {
  return {step.compute_s,    step.exposed_tp_s, step.exposed_cp_s,        step.exposed_ep_s,
          step.exposed_pp_s, step.bubble_s,     step.exposed_grad_sync_s, step.optimizer_s};
}

double total_s(const StepModel& model, int degree, std::int64_t microbatches, double speed = 1) {
  return model
      .step(
          {.tp_degree = degree, .sync_degree = degree, .microbatches = microbatches, .compute_speed = speed})
      .total_s();
}

/// The most microbatches with which a replica at this degree does not hold back a healthy one.
std::int64_t largest_batch(const StepModel& model, int degree) {
  const double healthy = model.step(model.healthy_shape()).total_s();
  std::int64_t batch = 0;
  while (batch < 8 && total_s(model, degree, batch + 1) <= healthy) ++batch;
  return batch;
}

}  // namespace

TEST_CASE("no part is negative and they sum to the step") {
  TrainingSpec moe;
  moe.tensor_model_parallel_size = 2;
  moe.pipeline_model_parallel_size = 4;
  moe.context_parallel_size = 2;
  moe.expert_model_parallel_size = 8;
  moe.data_parallel_size = 8;
  moe.global_batch_size = 128;
  moe.seq_length = 4096;
  const StepModel with_experts(*models::find_system("dgx-h100"), *models::find_model("deepseek-v3"), moe);
  const StepModel paper = paper_model(paper_training(3));
  for (const StepModel* model : {&with_experts, &paper}) {
    const StepBreakdown step = model->step(model->healthy_shape());
    double sum = 0;
    for (const double part : parts(step)) {
      CHECK(part >= 0);
      sum += part;
    }
    CHECK(step.total_s() == doctest::Approx(sum));
    CHECK(step.compute_s > 0.2 * step.total_s());
    CHECK(step.optimizer_s > 0);
    CHECK(step.bubble_s > 0);
  }
  CHECK(with_experts.step(with_experts.healthy_shape()).exposed_ep_s > 0);
  CHECK(paper.step(paper.healthy_shape()).exposed_ep_s == 0);
}

TEST_CASE("the healthy shape is what the training says") {
  const ReplicaShape shape = paper_model(paper_training(1)).healthy_shape();
  CHECK(shape.tp_degree == 32);
  CHECK(shape.sync_degree == 32);
  CHECK(shape.microbatches == 8);
  CHECK(shape.compute_speed == 1);
}

TEST_CASE("a step grows linearly with whole groups of microbatches, at no cost per microbatch") {
  for (const std::int64_t virtual_stages : {1, 3}) {
    const StepModel model = paper_model(paper_training(virtual_stages));
    const std::int64_t group = 8;
    const std::int64_t full = 6 * group;  // the slowest rank has caught up with the others
    const double first = total_s(model, 32, full + group) - total_s(model, 32, full);
    CHECK(first > 0);
    for (std::int64_t m = full; m < full + 4 * group; m += group) {
      CHECK(total_s(model, 32, m + group) - total_s(model, 32, m) == doctest::Approx(first).epsilon(1e-8));
    }
    const std::int64_t groups = (1'000'000 - full) / group;
    CHECK(total_s(model, 32, 1'000'000) ==
          doctest::Approx(total_s(model, 32, full) + static_cast<double>(groups) * first));
  }
}

TEST_CASE("a larger TP degree is faster where it divides the units, and never slower by one rank more") {
  const StepModel model = paper_model(paper_training(2));
  for (int degree = 1; degree < 32; degree *= 2)
    CHECK(total_s(model, 2 * degree, 8) < total_s(model, degree, 8));
  for (int degree = 24; degree < 32; ++degree)
    CHECK(total_s(model, degree + 1, 8) < total_s(model, degree, 8));
}

TEST_CASE("a boost shortens compute and lengthens nothing but what it hid") {
  const StepModel model = paper_model(paper_training(2));
  ReplicaShape shape = model.healthy_shape();
  const StepBreakdown base = model.step(shape);
  shape.compute_speed = 1.1;
  const StepBreakdown boosted = model.step(shape);
  CHECK(boosted.compute_s < base.compute_s);
  CHECK(boosted.compute_s > base.compute_s / 1.1);
  CHECK(boosted.exposed_tp_s == doctest::Approx(base.exposed_tp_s));
  CHECK(boosted.exposed_pp_s == base.exposed_pp_s);
  CHECK(boosted.optimizer_s == base.optimizer_s);
  CHECK(boosted.exposed_grad_sync_s >= base.exposed_grad_sync_s);
  CHECK(boosted.total_s() < base.total_s());
}

TEST_CASE("reduced replicas elsewhere in the job never shorten a step, and cost a healthy one under 1%") {
  for (const bool distributed : {false, true}) {
    for (const bool overlap : {false, true}) {
      TrainingSpec training = paper_training(2);
      training.use_distributed_optimizer = distributed;
      training.overlap_grad_reduce = overlap;
      training.overlap_param_gather = overlap;
      const StepModel model = paper_model(training);
      ReplicaShape shape = model.healthy_shape();
      const double healthy = model.step(shape).total_s();
      double before = healthy;
      for (shape.sync_degree = 31; shape.sync_degree >= 1; --shape.sync_degree) {
        const double now = model.step(shape).total_s();
        CHECK(now >= before);
        before = now;
      }
      shape.sync_degree = 28;
      CHECK(model.step(shape).total_s() > healthy);
      if (overlap && distributed) CHECK(model.step(shape).total_s() < 1.01 * healthy);
    }
  }
}

TEST_CASE("overlap hides gradient sync, and the distributed optimizer shares the optimizer step") {
  TrainingSpec training = paper_training(2);
  const StepModel overlapped = paper_model(training);
  training.overlap_grad_reduce = false;
  training.overlap_param_gather = false;
  const StepModel exposed = paper_model(training);
  training.use_distributed_optimizer = false;
  const StepModel whole = paper_model(training);
  const StepBreakdown a = overlapped.step(overlapped.healthy_shape());
  const StepBreakdown b = exposed.step(exposed.healthy_shape());
  const StepBreakdown c = whole.step(whole.healthy_shape());
  CHECK(a.exposed_grad_sync_s < 0.2 * b.exposed_grad_sync_s);
  // 4 + 2 bytes a weight once around, against 4 bytes twice.
  CHECK(c.exposed_grad_sync_s == doctest::Approx(b.exposed_grad_sync_s * 8 / 6).epsilon(0.02));
  CHECK(c.optimizer_s == doctest::Approx(128 * b.optimizer_s));
}

TEST_CASE("virtual stages divide the bubble, whose size is that of the ranks that wait") {
  TrainingSpec training = paper_training(1);
  training.sequence_parallel = true;
  const StepBreakdown plain = paper_model(training).step(paper_model(training).healthy_shape());
  training.virtual_pipeline_model_parallel_size = 4;
  const StepBreakdown interleaved = paper_model(training).step(paper_model(training).healthy_shape());
  // A quarter where all chunks are alike; the output layer's is longer.
  CHECK(interleaved.bubble_s >= plain.bubble_s / 4);
  CHECK(interleaved.bubble_s < plain.bubble_s / 3);
  CHECK(interleaved.compute_s == doctest::Approx(plain.compute_s).epsilon(0.02));
  CHECK(interleaved.exposed_pp_s + plain.exposed_pp_s < 0.01 * plain.total_s());
  // 8 microbatches over 8 ranks of nearly equal load: just under 7/8 of the time that the slowest works.
  const double working = plain.compute_s + plain.exposed_tp_s;
  CHECK(plain.bubble_s < 7.0 / 8 * working);
  CHECK(plain.bubble_s > 0.8 * working);
}

TEST_CASE("layers that stages do not divide fall to the fullest stage") {
  // 100 layers over 8 ranks: 13 on the fullest, whatever the virtual stages; 96 would be 12.
  models::TransformerSpec model = *models::find_model("ntp-paper-480b");
  const TrainingSpec training = paper_training(1);
  const StepModel uneven = paper_model(training);
  model.num_layers = 104;
  const StepModel even(*models::find_system("b200-nvl32"), model, training);
  const double ratio =
      uneven.step(uneven.healthy_shape()).compute_s / even.step(even.healthy_shape()).compute_s;
  CHECK(ratio > 0.96);
  CHECK(ratio <= 1);
  model.num_layers = 3;  // more ranks than layers
  const StepModel few(*models::find_system("b200-nvl32"), model, training);
  CHECK(few.step(few.healthy_shape()).total_s() > 0);
}

TEST_CASE("one rank alone has no bubble and no communication") {
  TrainingSpec training;
  training.global_batch_size = 4;
  training.seq_length = 4096;
  const StepModel model(*models::find_system("dgx-h100"), *models::find_model("llama3-8b"), training);
  const StepBreakdown step = model.step(model.healthy_shape());
  CHECK(step.bubble_s == 0);
  CHECK(step.exposed_tp_s + step.exposed_cp_s + step.exposed_ep_s + step.exposed_pp_s == 0);
  CHECK(step.exposed_grad_sync_s == 0);
}

TEST_CASE("the NTP paper's batches: TP30 keeps 7 of 8 sequences, TP28 6 of 8; played, 6 and 6") {
  // The paper does not state its virtual stages. Dropping one of eight microbatches saves an eight-stage
  // pipeline less than an eighth: the bubble stays, and with virtual stages the missing one leaves a slot of
  // each turn idle.
  const StepModel plain = paper_model(paper_training(1));
  CHECK(largest_batch(plain, 32) == 8);
  CHECK(largest_batch(plain, 31) == 6);
  CHECK(largest_batch(plain, 30) == 6);
  CHECK(largest_batch(plain, 28) == 6);
  CHECK(largest_batch(paper_model(paper_training(2)), 30) == 6);
  CHECK(largest_batch(paper_model(paper_training(2)), 28) == 6);
}

TEST_CASE("a pipeline of mixed degrees is as slow as its smallest TP group") {
  const StepModel model = paper_model(paper_training(1));
  ReplicaShape shape{.tp_degree = 32, .sync_degree = 28, .microbatches = 8};
  const double whole = model.step(shape).total_s();
  shape.stage_degrees = {32, 32, 32, 28, 32, 32, 32, 32};
  const double mixed = model.step(shape).total_s();
  shape.stage_degrees = std::vector<int>(8, 28);
  const double reduced = model.step(shape).total_s();
  CHECK(mixed > whole);
  CHECK(mixed < reduced);
  // One stage of eight costs more than its share: it sets the pace of all microbatches.
  CHECK(mixed - whole > (reduced - whole) / 8);
}

TEST_CASE("the NTP paper's boost: TP30 keeps the whole batch within 1.3 of TDP") {
  const models::PowerCurve& curve = models::find_gpu("b200")->power_curve;
  for (const bool overlap : {false, true}) {
    TrainingSpec training = paper_training(3);
    training.tp_comm_overlap = overlap;
    const StepModel model = paper_model(training);
    const double healthy = model.step(model.healthy_shape()).total_s();
    CHECK(total_s(model, 30, 8) > 1.05 * healthy);
    CHECK(total_s(model, 30, 8, curve.speed_at(1.3)) < healthy);
    CHECK(total_s(model, 28, 7, curve.speed_at(1.3)) < healthy);
  }
}

TEST_CASE("impossible shapes are refused") {
  const StepModel model = paper_model(paper_training(1));
  CHECK(testing::aborts([&] { (void)model.step({.tp_degree = 33, .sync_degree = 32, .microbatches = 1}); }));
  CHECK(testing::aborts([&] { (void)model.step({.tp_degree = 30, .sync_degree = 31, .microbatches = 1}); }));
  CHECK(testing::aborts([&] { (void)model.step({.tp_degree = 30, .sync_degree = 30, .microbatches = 0}); }));
}

}  // namespace ntpsim::sim
