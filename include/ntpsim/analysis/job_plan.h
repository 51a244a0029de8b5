#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ntpsim/analysis/state_change.h"
#include "ntpsim/analysis/tensor_plan.h"
#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/domain_partition.h"
#include "ntpsim/plan/failed_gpus.h"
#include "ntpsim/plan/rank_placement.h"
#include "ntpsim/scenario/scenario.h"
#include "ntpsim/sim/specs.h"

namespace ntpsim::analysis {

/// Where a policy runs a job on a cluster with failed GPUs.
struct JobPlan {
  std::string policy;                  ///< its label
  std::int64_t cluster_domains = 0;    ///< those after them are the policy's spare domains
  std::int64_t replicas_wanted = 0;    ///< of the healthy job
  std::int64_t replicas_left_out = 0;  ///< that could run, but would cost more than they bring
  std::int64_t sequences = 0;          ///< a step, under this policy
  std::int64_t global_batch_size = 0;  ///< of the healthy job
  plan::RankPlacement placement;
  TensorPlan tensors;               ///< at the degrees that occur
  plan::DomainPartition partition;  ///< how its domains are cut
};

/// The scenario's policy of this name or label; without one, the first that reduces TP degrees, else the
/// first. An error says which there are.
[[nodiscard]] Result<sim::PolicySpec> choose_policy(const scenario::Scenario& scenario,
                                                    const std::optional<std::string>& name);

/// Asks the policy what it makes of the cluster, and places that. Degrees that the policy would not use are
/// not used. An error when the policy pauses the job. REQUIRES: `failed` covers the domains of the cluster
/// and the policy's spare domains.
[[nodiscard]] Result<JobPlan> plan_job(const scenario::Scenario& scenario, const sim::PolicySpec& policy,
                                       const plan::FailedGpus& failed);

/// What the whole job must move to become this one at once. Nothing without failures, nor on clusters of more
/// than `kMostGpusOfStateChange` GPUs.
[[nodiscard]] std::vector<StateChange> state_change_of(const scenario::Scenario& scenario,
                                                       const JobPlan& plan);

}  // namespace ntpsim::analysis
