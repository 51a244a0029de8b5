#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ntpsim/analysis/progress.h"
#include "ntpsim/analysis/statistics.h"
#include "ntpsim/scenario/scenario.h"
#include "ntpsim/sim/ledger.h"
#include "ntpsim/sim/policy.h"

namespace ntpsim::analysis {

/// How a policy runs a replica whose smallest TP group has fewer GPUs than the TP degree.
struct ReducedReplica {
  int gpus = 0;                ///< of that group
  int degree = 0;              ///< TP degree that it runs at
  std::int64_t sequences = 0;  ///< per step; 0: not worth running
  double power_fraction = 1;   ///< of TDP
  double step_ratio = 1;       ///< the job's step with such a replica over the healthy one's
};

/// Failures of one class to expect while all units work.
struct ExpectedFailures {
  std::string name;
  double per_day = 0;  ///< in the cluster, spare domains left out
};

/// What one policy makes of the failures. Means are over replications.
struct PolicyOutcome {
  sim::PolicySpec policy;
  /// Useful training progress (work that survives) over what the healthy job would have done in the same
  /// time.
  Estimate goodput;
  /// Goodput with every GPU counted that is there: times the healthy job's GPUs over those of the cluster and
  /// of the spare domains. In-domain spares and GPUs that no replica uses count as provisioned.
  double goodput_per_provisioned = 0;
  /// Mean share of the healthy job's rate that is missing while the job trains or is paused: dropped
  /// replicas, reduced TP, waiting for stragglers, pauses. Leaves out saves, recovery and lost work.
  Estimate throughput_loss;
  /// Share of the time in which the job made progress that survived, at whatever rate.
  Estimate effective_training_time;
  double tokens_per_s = 0;
  /// Sums to the horizon to the nanosecond.
  std::array<Time, sim::kCategories> ledger{};
  /// Failures that hit the job.
  double interruptions = 0;
  /// Times the job got going again: after interruptions, out of pauses, and to take GPUs back in.
  double restarts = 0;
  double pauses = 0;
  double pause_fraction = 0;
  /// TP groups times hours above TDP; a domain counts once for each of its boosted groups.
  double boosted_domain_hours = 0;
  /// Above TDP, mean over the horizon.
  double extra_power_w = 0;
  /// By descending degree; empty for policies of whole replicas.
  std::vector<ReducedReplica> reduced;
};

struct FailedGpuSummary {
  double mean = 0;
  std::int64_t peak = 0;  ///< over all replications
  /// Share of the time with more than failed_fraction_thresholds()[i] of the cluster failed.
  std::vector<double> time_above_fraction;
};

struct GoodputStudy {
  double healthy_step_s = 0;
  double healthy_tokens_per_s = 0;
  double healthy_flops_per_gpu = 0;                 ///< model FLOP/s of each GPU that the healthy job uses
  std::int64_t used_gpus = 0;                       ///< by the healthy job
  std::vector<ExpectedFailures> expected_failures;  ///< by class
  double failures = 0;  ///< of the cluster, spare domains left out, per replication
  double failures_per_day = 0;
  std::int64_t events = 0;  ///< handled in all replications
  /// Step times that all policies asked for, when they were made and for every configuration that they chose
  /// in all replications; the others were simulated before.
  sim::StepUse steps;
  FailedGpuSummary failed_gpus;
  std::vector<PolicyOutcome> policies;
};

/// The shares for which time_above_fraction is reported.
[[nodiscard]] std::span<const double> failed_fraction_thresholds();

/// Simulates the scenario. The result depends on the scenario alone, not on the threads.
[[nodiscard]] GoodputStudy run_goodput_study(const scenario::Scenario& scenario, const StudyOptions& options);

}  // namespace ntpsim::analysis
