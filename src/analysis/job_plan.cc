#include "ntpsim/analysis/job_plan.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ntpsim/core/invariant.h"
#include "ntpsim/core/nearest.h"
#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/policy_table.h"

namespace ntpsim::analysis {
namespace {

tl::unexpected<Diagnostics> failure(std::string file, std::string message) {
  Diagnostics errors;
  errors.error(std::move(file), "", std::move(message));
  return tl::unexpected(std::move(errors));
}

// The policy's cut, without degrees at which it leaves GPUs standing by or the group out.
plan::DomainPartition partition_in_use(const sim::Policy& policy, std::size_t cut) {
  const plan::DomainPartition& partition = policy.cuts()[cut];
  std::vector<plan::ReducedDegree> reduced;
  for (std::size_t i = 0; i < partition.reduced().size(); ++i) {
    const sim::DegreeRate& rate = policy.rates()[i + 1];
    if (rate.run_degree == rate.degree && rate.microbatches > 0) reduced.push_back(partition.reduced()[i]);
  }
  return {partition.domain_size(), partition.tp_degree(), reduced};
}

plan::ReplicaAssignment assignment_of(std::span<const plan::DomainPartition> cuts,
                                      std::int64_t groups_per_replica, const plan::FailedGpus& failed) {
  plan::ReplicaAssignment assignment(cuts, failed.domains(), groups_per_replica);
  for (const plan::FailedDomain& domain : failed.failed()) {
    assignment.set_healthy(domain.domain, failed.healthy(domain.domain));
  }
  return assignment;
}

std::int64_t replicas_possible(const plan::ReplicaAssignment& assignment) {
  std::int64_t possible = 0;
  for (const plan::ReplicaRun& run : assignment.replicas(std::numeric_limits<std::int64_t>::max())) {
    possible += run.replicas;
  }
  return possible;
}

std::vector<int> degrees_of(const plan::RankPlacement& placement) {
  std::vector<int> degrees;
  for (const plan::PlacedReplica& replica : placement.replicas()) {
    for (const plan::PlacedGroup& group : replica.groups) degrees.push_back(group.degree);
  }
  std::ranges::sort(degrees);
  const auto repeated = std::ranges::unique(degrees);
  degrees.erase(repeated.begin(), repeated.end());
  return degrees;
}

}  // namespace

Result<sim::PolicySpec> choose_policy(const scenario::Scenario& scenario,
                                      const std::optional<std::string>& name) {
  const auto reduces = [](const sim::PolicySpec& policy) {
    const sim::PolicyInfo* const info = sim::find_policy(policy.name);
    return info != nullptr && info->reduces_tp;
  };
  const auto& policies = scenario.policies;
  if (!name) {
    const auto first = std::ranges::find_if(policies, reduces);
    return first == policies.end() ? policies.front() : *first;
  }
  std::vector<std::string_view> labels;
  for (const sim::PolicySpec& policy : policies) {
    if (policy.label == *name || policy.name == *name) return policy;
    labels.push_back(policy.label);
  }
  const auto near = nearest_name(*name, labels);
  return failure("--policy", fmt::format("found '{}', expected a policy of the scenario: {}{}", *name,
                                         fmt::join(labels, ", "),
                                         near ? fmt::format("; did you mean '{}'?", *near) : ""));
}

Result<JobPlan> plan_job(const scenario::Scenario& scenario, const sim::PolicySpec& spec,
                         const plan::FailedGpus& failed) {
  invariant(failed.domains() == scenario.cluster.domains() + spec.spare_domains,
            "failures cover the cluster");
  const models::TrainingSpec& training = scenario.job.training;
  const auto policy = sim::find_policy(spec.name)->make(scenario.cluster, scenario.job, spec);
  const plan::ReplicaAssignment assignment =
      assignment_of(policy->cuts(), policy->groups_per_replica(), failed);
  const sim::JobConfiguration job = policy->configure(assignment);
  if (!job.running) {
    const bool fixed = scenario.job.minibatch == sim::Minibatch::kFixed;
    return failure("--failed",
                   fmt::format("with {} of the GPUs failed, {} pauses the job{}: there is nothing to place",
                               failed.count(), spec.label, fixed ? ", whose minibatch is fixed" : ""));
  }
  const plan::DomainPartition partition = partition_in_use(*policy, job.cut);
  const std::int64_t together = training.replicas_per_expert_group();
  const std::int64_t possible = std::min(
      training.data_parallel_size,
      together * replicas_possible(assignment_of({&partition, 1}, policy->groups_per_replica(), failed)));
  const plan::JobShape shape = {.tp = partition.tp_degree(),
                                .cp = static_cast<int>(training.context_parallel_size),
                                .pp = static_cast<int>(training.pipeline_model_parallel_size),
                                .dp = job.replicas * together};
  plan::RankPlacement placement(failed, partition, shape);
  TensorPlan tensors = plan_tensors(scenario.job.model, training, degrees_of(placement));
  return JobPlan{.policy = spec.label,
                 .cluster_domains = scenario.cluster.domains(),
                 .replicas_wanted = training.data_parallel_size,
                 .replicas_left_out = std::max<std::int64_t>(0, possible - job.replicas * together),
                 .sequences = job.sequences,
                 .global_batch_size = training.global_batch_size,
                 .placement = std::move(placement),
                 .tensors = std::move(tensors),
                 .partition = partition};
}

std::vector<StateChange> state_change_of(const scenario::Scenario& scenario, const JobPlan& plan) {
  const plan::FailedGpus& failed = plan.placement.failed();
  const bool too_large = failed.domains() * failed.domain_size() > kMostGpusOfStateChange;
  if (failed.count() == 0 || too_large) return {};
  plan::JobShape shape = plan.placement.shape();
  shape.dp = plan.replicas_wanted;
  const plan::RankPlacement whole(plan::FailedGpus(failed.domains(), failed.domain_size()), plan.partition,
                                  shape);
  return plan_state_change(scenario.job.model, scenario.job.training, whole, plan.placement);
}

}  // namespace ntpsim::analysis
