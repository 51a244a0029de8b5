#include "policies.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "ntpsim/plan/domain_partition.h"

#include "replica_rates.h"

namespace ntpsim::sim {
namespace {

// Detection comes first whatever follows; the state is in peers' memory or in the last checkpoint.
Transitions elastic_transitions(const JobSpec& job) {
  const RecoverySpec& recovery = job.recovery;
  const Phase detection{Category::kInfrastructure, recovery.detection};
  const Phase communicators{Category::kReinitialization, recovery.reconfigure};
  Transitions transitions;
  transitions.peers_keep_state = recovery.elastic_restore == ElasticRestore::kPeers;
  transitions.from_peers = {detection, communicators, {Category::kSliceDown, recovery.reshard}};
  transitions.from_checkpoint = {detection, communicators, {Category::kRestore, recovery.restore}};
  transitions.rejoin = {communicators, {Category::kScaleUp, recovery.reshard}};
  transitions.resume = {communicators, {Category::kRestore, recovery.restore}};
  return transitions;
}

// All processes start again and load the last checkpoint, from the scheduler on or within the job.
Transitions restart_transitions(const JobSpec& job, Time scheduling, Time startup) {
  const Phase schedule{Category::kInfrastructure, scheduling};
  const Phase start{Category::kProgramStartup, startup};
  const Phase restore{Category::kRestore, job.recovery.restore};
  Transitions transitions;
  transitions.from_checkpoint = {
      {Category::kInfrastructure, job.recovery.detection}, schedule, start, restore};
  // A planned restart saves first, so it loses nothing.
  transitions.rejoin = {{Category::kCheckpointSave, job.checkpoint.save}, schedule, start, restore};
  transitions.resume = {schedule, start, restore};
  return transitions;
}

// Two ways to cut a domain that lost GPUs: as many whole groups as possible, which is never worse than giving
// hurt groups up, and the groups that are worth most together, which may share the loss. One where they
// agree.
std::vector<plan::DomainPartition> cuts_of(int domain_size, int tp_degree,
                                           std::vector<plan::ReducedDegree> reduced) {
  const plan::DomainPartition worth_most(domain_size, tp_degree, reduced);
  // Reduced groups of a domain together are worth less than one whole group.
  for (plan::ReducedDegree& each : reduced) {
    if (each.value > 0) each.value = each.degree / (1.0 * tp_degree * domain_size);
  }
  const plan::DomainPartition whole_first(domain_size, tp_degree, reduced);
  if (whole_first.same_groups(worth_most)) return {worth_most};
  return {whole_first, worth_most};
}

// Replicas packed from the healthiest TP groups on. What tells our policies apart is which degrees a group
// may run at, whether it may be boosted, and how the job gets going again.
class PackedReplicas final : public Policy {
 public:
  PackedReplicas(const ClusterSpec& cluster, const JobSpec& job, std::span<const int> reduced_degrees,
                 bool boost, const Transitions& transitions)
      : rates_(cluster, job, reduced_degrees, boost),
        cuts_(cuts_of(cluster.system.domain_size, static_cast<int>(job.training.tensor_model_parallel_size),
                      rates_.reduced_degrees())),
        whole_batch_(job.minibatch == Minibatch::kFixed),
        transitions_(transitions) {}

  [[nodiscard]] std::span<const plan::DomainPartition> cuts() const override { return cuts_; }
  [[nodiscard]] std::int64_t groups_per_replica() const override { return rates_.groups_per_replica(); }
  [[nodiscard]] double ideal_step_s() const override { return rates_.ideal_step_s(); }
  [[nodiscard]] std::span<const DegreeRate> rates() const override { return rates_.rates(); }
  [[nodiscard]] JobConfiguration configure(const plan::ReplicaAssignment& assignment) const override {
    JobConfiguration best = rates_.configure(assignment, 0, whole_batch_);
    for (std::size_t cut = 1; cut < cuts_.size(); ++cut) {
      const JobConfiguration other = rates_.configure(assignment, cut, whole_batch_);
      if (other.running && (!best.running || other.goodput() > best.goodput())) best = other;
    }
    return best;
  }
  [[nodiscard]] const Transitions& transitions() const override { return transitions_; }
  [[nodiscard]] StepUse step_use() const override { return rates_.step_use(); }

 private:
  ReplicaRates rates_;
  std::vector<plan::DomainPartition> cuts_;
  bool whole_batch_;
  Transitions transitions_;
};

}  // namespace

std::unique_ptr<Policy> make_dp_drop(const ClusterSpec& cluster, const JobSpec& job, const PolicySpec&) {
  return std::make_unique<PackedReplicas>(cluster, job, std::span<const int>(), false,
                                          elastic_transitions(job));
}

std::unique_ptr<Policy> make_checkpoint_restart(const ClusterSpec& cluster, const JobSpec& job,
                                                const PolicySpec&) {
  return std::make_unique<PackedReplicas>(
      cluster, job, std::span<const int>(), false,
      restart_transitions(job, job.recovery.scheduling, job.recovery.restart));
}

std::unique_ptr<Policy> make_hot_spares(const ClusterSpec& cluster, const JobSpec& job, const PolicySpec&) {
  return std::make_unique<PackedReplicas>(cluster, job, std::span<const int>(), false,
                                          restart_transitions(job, Time(), job.recovery.in_job_restart));
}

std::unique_ptr<Policy> make_ntp(const ClusterSpec& cluster, const JobSpec& job, const PolicySpec& policy) {
  return std::make_unique<PackedReplicas>(cluster, job, policy.reduced_degrees, false,
                                          elastic_transitions(job));
}

std::unique_ptr<Policy> make_ntp_pw(const ClusterSpec& cluster, const JobSpec& job,
                                    const PolicySpec& policy) {
  return std::make_unique<PackedReplicas>(cluster, job, policy.reduced_degrees, true,
                                          elastic_transitions(job));
}

}  // namespace ntpsim::sim
