#include "ntpsim/models/memory.h"

#include <doctest/doctest.h>

#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::models::find_model;
using ntpsim::models::model_state_per_gpu;
using ntpsim::models::TrainingSpec;

double gib(const char* model, std::int64_t tp, std::int64_t pp) {
  TrainingSpec training;
  training.tensor_model_parallel_size = tp;
  training.pipeline_model_parallel_size = pp;
  training.use_distributed_optimizer = false;
  return model_state_per_gpu(*find_model(model), training, static_cast<int>(tp)).value() /
         (1024.0 * 1024 * 1024);
}

TEST_CASE("weights, gradients and optimizer state as Korthikanti et al. 2022 state them") {
  // data/throughput/memory_points.json, params_and_optimizer, GiB per GPU without a distributed optimizer.
  CHECK(gib("megatron-a100-22b", 8, 1) == doctest::Approx(45.5625).epsilon(0.05));
  CHECK(gib("gpt3-175b", 8, 8) == doctest::Approx(45.5625).epsilon(0.05));
  CHECK(gib("megatron-a100-529.6b", 8, 35) == doctest::Approx(31.640625).epsilon(0.05));
  CHECK(gib("megatron-a100-1008b", 8, 64) == doctest::Approx(32.958984375).epsilon(0.05));
}

TEST_CASE("the distributed optimizer spreads two thirds of the bytes over the replicas") {
  TrainingSpec training = paper_job().training;
  training.use_distributed_optimizer = false;
  const double whole = model_state_per_gpu(paper_job().model, training, 32).value();
  training.use_distributed_optimizer = true;
  const double spread = model_state_per_gpu(paper_job().model, training, 32).value();
  CHECK(spread / whole == doctest::Approx((6 + 12.0 / 128) / 18));
}

TEST_CASE("a reduced degree needs more memory") {
  const auto job = paper_job();
  double last = 0;
  for (const int degree : {32, 31, 30, 28, 16, 1}) {
    const double bytes = model_state_per_gpu(job.model, job.training, degree).value();
    CHECK(bytes > last);
    last = bytes;
  }
}

TEST_CASE("expert parallelism spreads the experts") {
  TrainingSpec training;
  training.pipeline_model_parallel_size = 16;
  training.expert_model_parallel_size = 64;
  training.data_parallel_size = 128;
  const double spread = model_state_per_gpu(*find_model("deepseek-v3"), training, 1).value();
  training.expert_model_parallel_size = 1;
  const double whole = model_state_per_gpu(*find_model("deepseek-v3"), training, 1).value();
  // Experts are 97.6% of the weights, and 64 times fewer a GPU.
  CHECK(spread / whole == doctest::Approx(0.976 / 64 + 0.024).epsilon(0.5));
  CHECK(spread < whole / 15);
}

}  // namespace
