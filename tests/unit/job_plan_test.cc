#include "ntpsim/analysis/job_plan.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace ntpsim::analysis {
namespace {

// The small shipped scenario (16 domains of 8, TP 8 PP 2 DP 8), with changes.
scenario::Scenario small(const std::vector<std::string>& sets = {}) {
  std::ifstream file(NTPSIM_SOURCE_DIR "/scenarios/small.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto loaded = scenario::parse_scenario(text, "scenarios/small.json", {.sets = sets, .policies = {}});
  REQUIRE(loaded.has_value());
  return loaded->scenario;
}

plan::FailedGpus failed_gpus(const scenario::Scenario& scenario, const sim::PolicySpec& policy,
                             std::vector<plan::FailedDomain> failed) {
  return {scenario.cluster.domains() + policy.spare_domains, scenario.cluster.system.domain_size,
          std::move(failed)};
}

StateChange change_of(const scenario::Scenario& scenario, const JobPlan& plan, std::string_view what) {
  for (const StateChange& change : state_change_of(scenario, plan)) {
    if (change.what == what) return change;
  }
  FAIL("no such state");
  return {};
}

TEST_CASE("without a name the first policy that reduces TP degrees is chosen") {
  const scenario::Scenario scenario = small();
  CHECK(choose_policy(scenario, std::nullopt)->name == "ntp");
  CHECK(choose_policy(scenario, "hot_spares")->name == "hot_spares");
  const auto unknown = choose_policy(scenario, "npt");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(to_string(unknown.error().items().front()) ==
        "error: --policy: found 'npt', expected a policy of the scenario: dp_drop, checkpoint_restart, "
        "hot_spares, ntp; did you mean 'ntp'?");
}

TEST_CASE("one failed GPU: its replica goes on at TP 7, first in order") {
  const scenario::Scenario scenario = small();
  const auto policy = choose_policy(scenario, std::nullopt).value();
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, {{3, {4}}}));
  REQUIRE(plan.has_value());
  CHECK(plan->placement.replicas().size() == 8);
  CHECK(plan->placement.replicas()[0].degree == 7);
  CHECK(plan->placement.ranks().size() == 127);
  CHECK(plan->tensors.degrees == std::vector{8, 7});
  CHECK(plan->sequences == 62);
  CHECK(plan->replicas_left_out == 0);
}

TEST_CASE("a whole cluster needs no state moved, and nothing moves around the sync") {
  const scenario::Scenario scenario = small();
  const auto policy = choose_policy(scenario, std::nullopt).value();
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, {}));
  REQUIRE(plan.has_value());
  CHECK(state_change_of(scenario, *plan).empty());
  CHECK(plan->tensors.degrees == std::vector{8});
  CHECK(plan->sequences == plan->global_batch_size);
}

TEST_CASE("a spare domain takes over: it gets one stage's weights, and the lost optimizer piece is named") {
  const scenario::Scenario scenario = small();
  const auto policy = choose_policy(scenario, "hot_spares").value();
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, {{3, {4}}}));
  REQUIRE(plan.has_value());
  CHECK(plan->placement.replicas().size() == 8);
  CHECK(plan->tensors.degrees == std::vector{8});
  const models::TransformerSpec& model = scenario.job.model;
  // Half of the layers and one of the two vocabulary tensors, in 16 bits.
  const double stage = model.total_parameters() / 2;
  const StateChange weights = change_of(scenario, *plan, "weights");
  CHECK(static_cast<double>(weights.across_domains.total_bytes) ==
        doctest::Approx(stage * kWeightBytes).epsilon(0.001));
  // Each of the eight GPUs receives an eighth, from seven replicas that share the sending.
  CHECK(static_cast<double>(weights.across_domains.bottleneck_bytes) ==
        doctest::Approx(stage * kWeightBytes / 8).epsilon(0.001));
  CHECK(weights.across_domains.lower_bound_bytes == weights.across_domains.bottleneck_bytes);
  CHECK(weights.within_domains.total_bytes == 0);
  CHECK(weights.without_copy_bytes == 0);
  // A stage's optimizer state is cut over 8 GPUs of 8 replicas; the pieces of one failed GPU are gone, and
  // those of its seven neighbours move.
  const StateChange optimizer = change_of(scenario, *plan, "optimizer");
  const double piece = stage * kOptimizerBytes / 64;
  CHECK(static_cast<double>(optimizer.without_copy_bytes) == doctest::Approx(piece).epsilon(0.001));
  REQUIRE_FALSE(optimizer.without_copy.empty());
  CHECK(optimizer.without_copy.front().starts_with("stage 1, self_attention.linear_qkv: elements ["));
  CHECK(static_cast<double>(optimizer.across_domains.total_bytes) ==
        doctest::Approx(7 * piece).epsilon(0.001));
}

TEST_CASE("without the distributed optimizer every replica has a copy, and nothing is lost") {
  const scenario::Scenario scenario =
      small({"cluster.system=dgx-b300", "training.use_distributed_optimizer=false",
             "training.pipeline_model_parallel_size=16", "training.tensor_model_parallel_size=4",
             "training.virtual_pipeline_model_parallel_size=1"});
  const auto policy = choose_policy(scenario, "dp_drop").value();
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, {{0, {0}}}));
  REQUIRE(plan.has_value());
  CHECK(plan->placement.replicas().size() == 1);
  CHECK(change_of(scenario, *plan, "optimizer").without_copy_bytes == 0);
  CHECK(change_of(scenario, *plan, "weights").without_copy_bytes == 0);
}

TEST_CASE("without the distributed optimizer its state moves as the weights do, six times the bytes") {
  const scenario::Scenario scenario =
      small({"cluster.system=dgx-b300", "training.use_distributed_optimizer=false",
             "training.pipeline_model_parallel_size=4", "training.virtual_pipeline_model_parallel_size=1",
             "training.global_batch_size=64"});
  const auto policy = choose_policy(scenario, "ntp").value();
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, {{3, {4}}}));
  REQUIRE(plan.has_value());
  CHECK(plan->tensors.degrees == std::vector{8, 7});
  const StateChange weights = change_of(scenario, *plan, "weights");
  const StateChange optimizer = change_of(scenario, *plan, "optimizer");
  CHECK(weights.within_domains.total_bytes > 0);
  CHECK(optimizer.within_domains.total_bytes == 6 * weights.within_domains.total_bytes);
  CHECK(optimizer.across_domains.total_bytes == 6 * weights.across_domains.total_bytes);
  CHECK(optimizer.without_copy.empty());
}

TEST_CASE("more replicas than the healthy job has, of which some are hurt, leave none out") {
  const scenario::Scenario scenario =
      small({"cluster.system=dgx-b300", R"(policies=[{"name":"ntp","spare_domains":4}])",
             "training.pipeline_model_parallel_size=1", "training.virtual_pipeline_model_parallel_size=1",
             "training.sequence_parallel=true"});
  const auto policy = choose_policy(scenario, std::nullopt).value();
  std::vector<plan::FailedDomain> failed;
  for (std::int64_t domain = 0; domain < 10; ++domain) failed.push_back({domain, {0}});
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, failed));
  REQUIRE(plan.has_value());
  CHECK(plan->replicas_left_out >= 0);
}

TEST_CASE("a pause is an error that says so") {
  const scenario::Scenario scenario = small({"minibatch=fixed"});
  const auto policy = choose_policy(scenario, "dp_drop").value();
  const auto plan = plan_job(scenario, policy, failed_gpus(scenario, policy, {{3, {4}}}));
  REQUIRE_FALSE(plan.has_value());
  CHECK(to_string(plan.error().items().front()) ==
        "error: --failed: with 1 of the GPUs failed, dp_drop pauses the job, whose minibatch is fixed: there "
        "is nothing to place");
}

}  // namespace
}  // namespace ntpsim::analysis
