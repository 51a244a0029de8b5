// Closed forms against the event kernel, each inside the simulation's own interval at 99%.

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/analysis/statistics.h"
#include "ntpsim/sim/cluster_health.h"
#include "ntpsim/sim/cluster_simulation.h"
#include "ntpsim/sim/job_simulation.h"

#include "scripted_policy.h"
#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::Time;
using ntpsim::analysis::Accumulator;
using ntpsim::models::Distribution;
using ntpsim::sim::Category;
using ntpsim::sim::ClusterHealth;
using ntpsim::sim::ClusterSimulation;
using ntpsim::sim::ClusterSpec;
using ntpsim::sim::FailureProcess;
using ntpsim::sim::FailureSpec;
using ntpsim::sim::InitialAge;
using ntpsim::sim::JobResult;
using ntpsim::sim::JobSimulation;
using ntpsim::sim::JobSpec;
using ntpsim::sim::Phase;
using ntpsim::sim::PolicySpec;
using ntpsim::sim::Transitions;
using Family = Distribution::Family;

void check_inside_99(const Accumulator& samples, double expected) {
  const auto interval = samples.interval(0.99);
  REQUIRE(interval.has_value());
  CAPTURE(expected);
  CAPTURE(samples.mean());
  CHECK(interval->low <= expected);
  CHECK(expected <= interval->high);
  // An interval so wide that nothing falls outside would prove nothing.
  CHECK(interval->high - interval->low < 0.05 * expected);
}

TEST_CASE("alternating renewal: mean share of failed GPUs from an all-healthy start") {
  // Exponential up and down times: unavailability at t is u (1 - exp(-t / tau)) with u = MTTR / (MTBF + MTTR)
  // and 1 / tau = 1 / MTBF + 1 / MTTR; averaged over the horizon.
  const double up = 60 * kDay;
  const double down = 4 * kDay;
  const double horizon = 30 * kDay;
  const double tau = 1 / (1 / up + 1 / down);
  const double unavailable = down / (up + down) * (1 - tau / horizon * (1 - std::exp(-horizon / tau)));
  const ClusterSpec cluster = tiny_cluster(64);
  const FailureSpec failures{
      {gpu_failures({Family::kExponential, up}, Distribution(Family::kExponential, down))}};
  const std::vector<PolicySpec> policies = {policy("dp_drop")};
  const ClusterSimulation simulation(cluster, tiny_job(64), failures, policies, {});
  Accumulator share;
  for (std::uint64_t replication = 0; replication < 400; ++replication) {
    const auto result = simulation.run(Time::from_seconds(horizon), 11, replication);
    share.add(result.failed_gpus.mean / static_cast<double>(cluster.gpus));
  }
  check_inside_99(share, unavailable);
}

TEST_CASE("alternating renewal: long-run availability does not depend on the families") {
  const double up = 5 * kDay;
  const double down = 1 * kDay;
  const double horizon = 400 * kDay;
  const ClusterSpec cluster = tiny_cluster(16);
  const std::vector<PolicySpec> policies = {policy("dp_drop")};
  for (const Distribution& lifetime :
       {Distribution(Family::kWeibull, up, 0.8), Distribution(Family::kGamma, up, 3)}) {
    CAPTURE(std::string(info_of(lifetime.family()).name));
    const FailureSpec failures{{gpu_failures(lifetime, Distribution(Family::kLognormal, down, 0.8))}};
    const ClusterSimulation simulation(cluster, tiny_job(16), failures, policies, {});
    Accumulator share;
    for (std::uint64_t replication = 0; replication < 60; ++replication) {
      const auto result = simulation.run(Time::from_seconds(horizon), 12, replication);
      share.add(result.failed_gpus.mean / static_cast<double>(cluster.gpus));
    }
    check_inside_99(share, down / (up + down));
  }
}

// Failures of a class that breaks nothing, in 30 days of 512 units with a mean life of 100 days.
Accumulator count_failures(const Distribution& lifetime, InitialAge age) {
  const ClusterSpec cluster = tiny_cluster(128);
  const FailureSpec failures{{gpu_failures(lifetime, std::nullopt)}, age};
  Accumulator counts;
  for (std::uint64_t replication = 0; replication < 600; ++replication) {
    FailureProcess process(cluster, 0, failures, Time::from_seconds(30 * kDay), 13, replication);
    int count = 0;
    while (process.next()) ++count;
    counts.add(count);
  }
  return counts;
}

TEST_CASE("stationary units fail at units / mean life, whatever the family") {
  const double mean = 100 * kDay;
  for (const Distribution& lifetime :
       {Distribution(Family::kExponential, mean), Distribution(Family::kWeibull, mean, 0.8),
        Distribution(Family::kWeibull, mean, 1.5), Distribution(Family::kWeibull, mean, 2),
        Distribution(Family::kLognormal, mean, 1), Distribution(Family::kGamma, mean, 0.5),
        Distribution(Family::kGamma, mean, 4), Distribution(Family::kConstant, mean)}) {
    CAPTURE(std::string(info_of(lifetime.family()).name));
    CAPTURE(lifetime.shape());
    check_inside_99(count_failures(lifetime, InitialAge::kStationary), 512 * 0.3);
  }
}

TEST_CASE("new units fail by the renewal function") {
  const double mean = 100 * kDay;
  // Gamma with shape 2 is two exponential stages: m(t) = t / mean - 1/4 (1 - exp(-4 t / mean)).
  const double gamma2 = 0.3 - 0.25 * (1 - std::exp(-1.2));
  check_inside_99(count_failures({Family::kGamma, mean, 2}, InitialAge::kNew), 512 * gamma2);
  CHECK(count_failures({Family::kConstant, mean}, InitialAge::kNew).mean() == 0);
}

// A job of one replica under a Poisson stream of crashes, restarting from checkpoints.
struct CheckpointedJob {
  double gap = 10'000;  // mean seconds between crashes
  double interval = 3'000;
  double save = 100;
  double recovery = 500;

  [[nodiscard]] JobResult run(double horizon, std::uint64_t replication) const {
    const ClusterSpec cluster = tiny_cluster(1);
    const FailureSpec failures{{gpu_failures({Family::kExponential, gap * 4}, std::nullopt)}};
    Transitions transitions;
    transitions.from_checkpoint = {Phase{Category::kInfrastructure, Time::from_seconds(recovery)}};
    const ScriptedPolicy policy(1, 1, transitions);
    JobSpec job;
    job.checkpoint = {Time::from_seconds(interval), Time::from_seconds(save)};
    JobSimulation simulation(policy, job, 1, Time::from_seconds(gap));
    FailureProcess process(cluster, 0, failures, Time::from_seconds(horizon), 14, replication);
    const ClusterHealth health(1, 4);
    while (const auto event = process.next()) simulation.handle(*event, health, 4);
    return simulation.finish(Time::from_seconds(horizon));
  }
};

TEST_CASE("Daly: Goodput under Poisson failures with blocking saves and restarts that can fail") {
  const CheckpointedJob job;
  const double horizon = 3000 * job.gap;
  // Between two recoveries the job completes 1 / (exp(cycle / gap) - 1) cycles on average; a recovery that
  // failures restart takes gap (exp(R / gap) - 1); together with the gap to the next failure that gives the
  // share below.
  const double cycle = job.interval + job.save;
  const double goodput =
      job.interval / job.gap * std::exp(-job.recovery / job.gap) / (std::exp(cycle / job.gap) - 1);
  Accumulator share;
  Accumulator lost_per_failure;
  for (std::uint64_t replication = 0; replication < 40; ++replication) {
    const JobResult result = job.run(horizon, replication);
    share.add(result.ledger[Category::kGoodput].seconds() / horizon);
    lost_per_failure.add(result.ledger[Category::kWastedProgress].seconds() /
                         static_cast<double>(result.interruptions));
  }
  check_inside_99(share, goodput);
  // Lost training of one failure: min(x, interval) for x exponential within the cycle, and nothing for the
  // share of failures, 1 - exp(-R / gap), that hit a recovery.
  const double p_cycle = 1 - std::exp(-cycle / job.gap);
  const double mean_min =
      job.gap * (1 - std::exp(-job.interval / job.gap)) - job.interval * std::exp(-cycle / job.gap);
  const double lost = mean_min / p_cycle * std::exp(-job.recovery / job.gap);
  check_inside_99(lost_per_failure, lost);
}

TEST_CASE("Young: half an interval is lost when failures are rare") {
  CheckpointedJob job;
  job.gap = 1e6;
  job.save = 0;
  job.recovery = 0;
  Accumulator lost;
  for (std::uint64_t replication = 0; replication < 60; ++replication) {
    const JobResult result = job.run(1000 * job.gap, replication);
    lost.add(result.ledger[Category::kWastedProgress].seconds() / static_cast<double>(result.interruptions));
  }
  check_inside_99(lost, job.interval / 2);
}

TEST_CASE("policies of one study see the same failures, alone or together") {
  const ClusterSpec cluster = tiny_cluster(16);
  const FailureSpec failures{
      {gpu_failures({Family::kExponential, 60 * kDay}, Distribution(Family::kExponential, 4 * kDay)),
       gpu_failures({Family::kWeibull, 90 * kDay, 0.7}, std::nullopt)}};
  std::vector<PolicySpec> all = {policy("dp_drop"), policy("checkpoint_restart", 5), policy("hot_spares", 3)};
  PolicySpec ntp = policy("ntp");
  ntp.reduced_degrees = {3, 2};
  all.push_back(ntp);
  const Time horizon = Time::from_seconds(60 * kDay);
  const ClusterSimulation together(cluster, tiny_job(16), failures, all, {});
  const auto joint = together.run(horizon, 5, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    const ClusterSimulation alone(cluster, tiny_job(16), failures, {&all[i], 1}, {});
    const auto single = alone.run(horizon, 5, 0);
    CHECK(single.failures == joint.failures);
    CHECK(single.failed_gpus.mean == joint.failed_gpus.mean);
    CHECK(single.jobs[0].interruptions == joint.jobs[i].interruptions);
    for (std::size_t c = 0; c < ntpsim::sim::kCategories; ++c) {
      CHECK(single.jobs[0].ledger[static_cast<Category>(c)] ==
            joint.jobs[i].ledger[static_cast<Category>(c)]);
    }
  }
}

}  // namespace
