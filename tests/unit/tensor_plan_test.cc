#include "ntpsim/analysis/tensor_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/analysis/plan_results.h"

namespace ntpsim::analysis {
namespace {

models::TrainingSpec training_of(std::int64_t tp, std::int64_t ep = 1) {
  models::TrainingSpec training;
  training.tensor_model_parallel_size = tp;
  training.expert_model_parallel_size = ep;
  return training;
}

TensorPlan plan_of(const char* model, std::int64_t tp, const std::vector<int>& degrees, std::int64_t ep = 1) {
  return plan_tensors(*models::find_model(model), training_of(tp, ep), degrees);
}

const PlannedCut& cut_of(const TensorPlan& plan, std::string_view name, int degree) {
  const auto found = std::ranges::find_if(plan.tensors, [&](const PlannedTensor& planned) {
    return planned.tensor.name == name && plan.cuts[planned.cut].plan.compute().degree() == degree;
  });
  REQUIRE(found != plan.tensors.end());
  return plan.cuts[found->cut];
}

TEST_CASE("a 405B model at TP 32 beside groups of 30") {
  const TensorPlan plan = plan_of("llama3.1-405b", 32, {30});
  CHECK(plan.degrees == std::vector{32, 30});
  CHECK(plan.sync_degree == 30);
  const PlannedCut& heads = cut_of(plan, "self_attention.linear_qkv.query", 32);
  CHECK(heads.moves == 8);
  CHECK(heads.rounds == 4);  // each extra rank has four core ranks to deal with
  CHECK(heads.moved == plan::SyncTraffic{.max_sent = 4, .max_received = 1, .total = 8});
  const PlannedCut& columns = cut_of(plan, "mlp.linear_fc1", 32);
  CHECK(columns.max_units_per_rank == 1664);
  CHECK(columns.load == 1);
  CHECK(columns.bound == 1664);
  CHECK(cut_of(plan, "mlp.linear_fc1", 30).load == doctest::Approx(1775.0 * 30 / 53248));
  CHECK(cut_of(plan, "mlp.linear_fc1", 30).moves == 0);
}

TEST_CASE("tensors that are cut alike share a plan, and equal layers are counted") {
  const TensorPlan plan = plan_of("llama3.1-405b", 8, {8});
  CHECK(plan.degrees == std::vector{8});
  CHECK(plan.cuts.size() == 3);  // vocabulary rows, KV groups, FFN columns
  CHECK(plan.tensors.size() == 6);
  for (const PlannedTensor& planned : plan.tensors) {
    CHECK(planned.layers == (planned.tensor.unit == "vocabulary row" ? 1 : 126));
  }
  CHECK(plan.summary.size() == 1);
  CHECK(plan.summary[0].load == 1);
  CHECK(plan.summary[0].total_bytes == 0);
}

TEST_CASE("the summary adds up tensors and layers") {
  const TensorPlan plan = plan_of("llama3.1-405b", 32, {31, 30, 28});
  REQUIRE(plan.summary.size() == 4);
  for (const DegreeSummary& sum : plan.summary) {
    std::int64_t total = 0;
    std::int64_t moves = 0;
    for (const PlannedTensor& planned : plan.tensors) {
      const PlannedCut& cut = plan.cuts[planned.cut];
      if (cut.plan.compute().degree() != sum.degree) continue;
      total += cut.moved.total * planned.unit_bytes * planned.layers;
      moves += cut.moves * planned.layers;
    }
    CHECK(sum.total_bytes == total);
    CHECK(sum.moves == moves);
    CHECK(sum.bottleneck_bytes >= sum.lower_bound_bytes);
  }
}

TEST_CASE("no tensor but the copied KV groups moves more than its bound") {
  for (const PlannedCut& cut : plan_of("llama3.1-405b", 32, {31, 30, 28}).cuts) {
    CAPTURE(cut.unit);
    CHECK(cut.moved.bottleneck() >= cut.bound);
    if (cut.heads_per_group == 0) CHECK(cut.moved.bottleneck() == cut.bound);
  }
}

TEST_CASE("copied KV groups meet along a chain of their holders") {
  const TensorPlan plan = plan_of("llama3.1-405b", 32, {30});
  const PlannedCut& whole = cut_of(plan, "self_attention.linear_qkv.key_value", 32);
  CHECK(whole.max_units_per_rank == 1);
  CHECK(whole.rounds == 3);  // four holders
  CHECK(whole.moves == 24);
  CHECK(whole.moved.bottleneck() == whole.bound);
  CHECK(cut_of(plan, "self_attention.linear_qkv.key_value", 30).max_units_per_rank == 2);
}

TEST_CASE("dense and MoE layers of a model, and its latent attention") {
  const TensorPlan plan = plan_of("deepseek-v3", 8, {7}, 8);
  const auto layers_of = [&plan](std::string_view name) {
    return std::ranges::find_if(plan.tensors,
                                [&](const PlannedTensor& planned) { return planned.tensor.name == name; })
        ->layers;
  };
  CHECK(layers_of("mlp.linear_fc1") == 3);
  CHECK(layers_of("mlp.experts.linear_fc1") == 58);
  CHECK(layers_of("self_attention.linear_q_up_proj") == 61);
  CHECK(cut_of(plan, "mlp.experts.linear_fc1", 7).max_units_per_rank == 37);  // 256 experts
}

TEST_CASE("the gap is what a plan moves beyond the bound") {
  CHECK(gap_of(0, 0) == 0);
  CHECK(gap_of(110, 100) == doctest::Approx(0.1));
}

TEST_CASE("a job without a cluster has one TP group of each degree, the lowest first") {
  const plan::RankPlacement placement = placement_of(plan_of("llama3.1-405b", 32, {31, 28}));
  REQUIRE(placement.replicas().size() == 3);
  CHECK(placement.replicas()[0].degree == 28);
  CHECK(placement.replicas()[1].degree == 31);
  CHECK(placement.replicas()[2].degree == 32);
  CHECK(placement.ranks().size() == 28 + 31 + 32);
}

}  // namespace
}  // namespace ntpsim::analysis
