#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ntpsim/core/time.h"
#include "ntpsim/sim/job_simulation.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/specs.h"

namespace ntpsim::sim {

/// How many GPUs of the cluster, spare domains left out, were out of service.
struct FailedGpus {
  double mean = 0;  ///< over time
  std::int64_t peak = 0;
  std::vector<Time> time_above;  ///< per threshold: time with more than that share of the cluster failed
};

struct ReplicationResult {
  FailedGpus failed_gpus;
  std::int64_t failures = 0;    ///< failures and interruptions of the cluster, spare domains left out
  std::int64_t events = 0;      ///< failures, interruptions and returns handled
  std::vector<JobResult> jobs;  ///< one a policy, in their order
};

/// The job of a scenario under several policies on one cluster, all of which live through the same failures.
/// Immutable after construction: replications may run on any thread, in any order, with the same results.
class ClusterSimulation {
 public:
  /// `thresholds`: shares of the cluster for FailedGpus::time_above. REQUIRES: at least one policy, all
  /// known.
  ClusterSimulation(ClusterSpec cluster, JobSpec job, FailureSpec failures,
                    std::span<const PolicySpec> policies, std::span<const double> thresholds);

  /// Cost: O(failures * policies); memory O(GPUs).
  [[nodiscard]] ReplicationResult run(Time horizon, std::uint64_t seed, std::uint64_t replication) const;

  [[nodiscard]] std::size_t policies() const { return policies_.size(); }
  [[nodiscard]] const Policy& policy(std::size_t index) const { return *policies_[index]; }

 private:
  ClusterSpec cluster_;
  JobSpec job_;
  FailureSpec failures_;
  std::vector<double> thresholds_;
  std::vector<std::int64_t> spare_domains_;  // by policy
  std::int64_t most_spare_domains_ = 0;
  std::vector<std::unique_ptr<Policy>> policies_;
};

/// Mean time between failures that would interrupt a job on the whole cluster; Time::max() when nothing
/// fails.
[[nodiscard]] Time mean_time_to_interruption(const ClusterSpec& cluster, const FailureSpec& failures);

}  // namespace ntpsim::sim
