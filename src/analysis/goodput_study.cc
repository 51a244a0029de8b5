#include "ntpsim/analysis/goodput_study.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/sim/cluster_simulation.h"

#include "ordered_parallel.h"

namespace ntpsim::analysis {
namespace {

using sim::Category;

constexpr std::array kThresholds = {0.0005, 0.001, 0.002, 0.003, 0.004};

constexpr double kSecondsPerDay = 86400;

std::int64_t used_gpus(const scenario::Scenario& scenario) {
  return scenario.job.training.gpus_per_replica() * scenario.job.training.data_parallel_size;
}

// Nanoseconds of many replications: a year of them, ten thousand times, is past 64 bits.
__extension__ using WideNs = __int128;

// Sums up what one policy did, replication by replication.
class PolicyTotals {
 public:
  void add(const sim::JobResult& job, Time horizon) {
    const auto span = static_cast<double>(horizon.ns());
    const auto share = [&](Category category) {
      return static_cast<double>(job.ledger[category].ns()) / span;
    };
    const double lost =
        share(Category::kDegradedTp) + share(Category::kDroppedReplicas) + share(Category::kStragglerWait);
    const double paused = share(Category::kPaused);
    const double training = share(Category::kGoodput) + share(Category::kWastedProgress) + lost;
    goodput_.add(share(Category::kGoodput));
    // A job that neither trains nor pauses only recovers: its whole rate is missing.
    loss_.add(training + paused > 0 ? (lost + paused) / (training + paused) : 1);
    effective_.add(training - static_cast<double>(job.lost_training.ns()) / span);
    pause_.add(paused);
    interruptions_.add(static_cast<double>(job.interruptions));
    restarts_.add(static_cast<double>(job.restarts));
    pauses_.add(static_cast<double>(job.pauses));
    boosted_group_s_.add(job.boosted_group_s);
    extra_energy_j_.add(job.extra_energy_j);
    for (std::size_t i = 0; i < sim::kCategories; ++i) {
      ledger_[i] += job.ledger[static_cast<Category>(i)].ns();
    }
  }

  [[nodiscard]] PolicyOutcome outcome(const scenario::Scenario& scenario, const sim::PolicySpec& policy,
                                      double healthy_tokens_per_s) const {
    constexpr double kSecondsPerHour = 3600;
    PolicyOutcome outcome;
    outcome.policy = policy;
    outcome.goodput = goodput_.share_estimate();
    const std::int64_t provisioned =
        scenario.cluster.gpus + policy.spare_domains * scenario.cluster.system.domain_size;
    outcome.goodput_per_provisioned =
        goodput_.mean() * static_cast<double>(used_gpus(scenario)) / static_cast<double>(provisioned);
    outcome.throughput_loss = loss_.share_estimate();
    outcome.effective_training_time = effective_.share_estimate();
    outcome.tokens_per_s = goodput_.mean() * healthy_tokens_per_s;
    outcome.ledger = mean_ledger(scenario.run.horizon);
    outcome.interruptions = interruptions_.mean();
    outcome.restarts = restarts_.mean();
    outcome.pauses = pauses_.mean();
    outcome.pause_fraction = pause_.mean();
    outcome.boosted_domain_hours = boosted_group_s_.mean() / kSecondsPerHour;
    outcome.extra_power_w = extra_energy_j_.mean() / scenario.run.horizon.seconds();
    return outcome;
  }

 private:
  // Means in whole nanoseconds that still sum to the horizon: those with the largest remainders are rounded
  // up.
  [[nodiscard]] std::array<Time, sim::kCategories> mean_ledger(Time horizon) const {
    const WideNs replications = goodput_.count();
    std::array<Time, sim::kCategories> means{};
    std::array<std::size_t, sim::kCategories> by_remainder{};
    std::iota(by_remainder.begin(), by_remainder.end(), std::size_t{0});
    std::ranges::stable_sort(by_remainder, [&](std::size_t a, std::size_t b) {
      return ledger_[a] % replications > ledger_[b] % replications;
    });
    Time missing = horizon;
    for (std::size_t i = 0; i < sim::kCategories; ++i) {
      means[i] = Time::from_ns(static_cast<std::int64_t>(ledger_[i] / replications));
      missing -= means[i];
    }
    for (std::size_t i = 0; missing > Time(); ++i) {
      means[by_remainder[i]] += Time::from_ns(1);
      missing -= Time::from_ns(1);
    }
    return means;
  }

  Accumulator goodput_;
  Accumulator loss_;
  Accumulator effective_;
  Accumulator pause_;
  Accumulator interruptions_;
  Accumulator restarts_;
  Accumulator pauses_;
  Accumulator boosted_group_s_;
  Accumulator extra_energy_j_;
  std::array<WideNs, sim::kCategories> ledger_{};
};

std::vector<ReducedReplica> reduced_replicas(const sim::Policy& policy,
                                             const models::TrainingSpec& training) {
  std::vector<ReducedReplica> reduced;
  for (const sim::DegreeRate& rate : policy.rates().subspan(1)) {
    reduced.push_back({.gpus = rate.degree,
                       .degree = rate.run_degree,
                       .sequences = rate.microbatches * training.micro_batch_size,
                       .power_fraction = rate.power_fraction,
                       .step_ratio = rate.job_step_s / policy.ideal_step_s()});
  }
  return reduced;
}

std::vector<ExpectedFailures> expected_failures(const scenario::Scenario& scenario) {
  std::vector<ExpectedFailures> expected;
  for (const models::FailureClass& failure : scenario.failures.classes) {
    const auto units = static_cast<double>(sim::units_of(failure.component, scenario.cluster));
    expected.push_back({failure.name, units / failure.lifetime.mean_s() * kSecondsPerDay});
  }
  return expected;
}

class StudyTotals {
 public:
  StudyTotals(std::size_t policies, Time horizon)
      : horizon_(horizon), policies_(policies), time_above_(kThresholds.size()) {}

  void add(const sim::ReplicationResult& result) {
    failures_.add(static_cast<double>(result.failures));
    mean_failed_.add(result.failed_gpus.mean);
    peak_failed_ = std::max(peak_failed_, result.failed_gpus.peak);
    events_ += result.events;
    for (std::size_t i = 0; i < time_above_.size(); ++i) {
      time_above_[i].add(result.failed_gpus.time_above[i].seconds() / horizon_.seconds());
    }
    for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i].add(result.jobs[i], horizon_);
    for (const sim::JobResult& job : result.jobs) decisions_ += job.decisions;
  }

  [[nodiscard]] GoodputStudy study(const scenario::Scenario& scenario, double healthy_step_s) const {
    const models::TrainingSpec& training = scenario.job.training;
    GoodputStudy study;
    study.healthy_step_s = healthy_step_s;
    study.healthy_tokens_per_s = static_cast<double>(training.global_batch_size) *
                                 static_cast<double>(training.seq_length) / healthy_step_s;
    study.used_gpus = used_gpus(scenario);
    study.healthy_flops_per_gpu = study.healthy_tokens_per_s *
                                  models::model_flops_per_token(scenario.job.model, training.seq_length) /
                                  static_cast<double>(study.used_gpus);
    study.expected_failures = expected_failures(scenario);
    study.failures = failures_.mean();
    study.failures_per_day = failures_.mean() / horizon_.seconds() * kSecondsPerDay;
    study.events = events_;
    study.steps.asked = decisions_;
    study.failed_gpus.mean = mean_failed_.mean();
    study.failed_gpus.peak = peak_failed_;
    for (const Accumulator& above : time_above_)
      study.failed_gpus.time_above_fraction.push_back(above.mean());
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      study.policies.push_back(
          policies_[i].outcome(scenario, scenario.policies[i], study.healthy_tokens_per_s));
    }
    return study;
  }

 private:
  Time horizon_;
  std::vector<PolicyTotals> policies_;
  std::vector<Accumulator> time_above_;
  Accumulator failures_;
  Accumulator mean_failed_;
  std::int64_t peak_failed_ = 0;
  std::int64_t events_ = 0;
  std::int64_t decisions_ = 0;
};

}  // namespace

std::span<const double> failed_fraction_thresholds() {
  return kThresholds;
}

GoodputStudy run_goodput_study(const scenario::Scenario& scenario, const StudyOptions& options) {
  const sim::RunSpec& run = scenario.run;
  const sim::ClusterSimulation simulation(scenario.cluster, scenario.job, scenario.failures,
                                          scenario.policies, kThresholds);
  StudyTotals totals(simulation.policies(), run.horizon);
  ordered_parallel(
      run.replications, options.threads, options.progress,
      [&](std::int64_t replication) {
        return simulation.run(run.horizon, run.seed, static_cast<std::uint64_t>(replication));
      },
      [&](const sim::ReplicationResult& result) { totals.add(result); });
  GoodputStudy study = totals.study(scenario, simulation.policy(0).ideal_step_s());
  for (std::size_t i = 0; i < simulation.policies(); ++i) {
    study.steps += simulation.policy(i).step_use();
    study.policies[i].reduced = reduced_replicas(simulation.policy(i), scenario.job.training);
  }
  return study;
}

}  // namespace ntpsim::analysis
