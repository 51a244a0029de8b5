#pragma once

#include <cstddef>
#include <cstdint>

#include "ntpsim/core/time.h"
#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/sim/cluster_health.h"
#include "ntpsim/sim/ledger.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/specs.h"

namespace ntpsim::sim {

/// What became of one job under one policy in one replication.
struct JobResult {
  Ledger ledger;
  std::int64_t interruptions = 0;  ///< failures that hit the job
  std::int64_t restarts = 0;       ///< times training began again, planned ones included
  std::int64_t pauses = 0;
  std::int64_t decisions = 0;  ///< configurations that the policy was asked for
  Time lost_training;          ///< training time whose progress was lost, at whatever rate it went
  double boosted_group_s = 0;  ///< TP groups times seconds above TDP
  double extra_energy_j = 0;   ///< above TDP
};

/// One job under one policy through one replication. It is told of every failure and return in time order and
/// accounts for the time between them in closed form, so its cost follows the events, not the steps or
/// checkpoints.
class JobSimulation {
 public:
  /// Starts training on a healthy cluster at time zero. `domains`: the cluster's and the policy's spares.
  /// `mean_time_to_interruption`: of the whole cluster, for Rejoin::kAuto. `policy` must outlive this object.
  JobSimulation(const Policy& policy, const JobSpec& job, std::int64_t domains,
                Time mean_time_to_interruption);

  /// Takes note of an event. `before` is the cluster's health without it, `healthy_after` what it leaves of
  /// its domain. Events of domains that this job does not have are ignored.
  void handle(const HealthEvent& event, const ClusterHealth& before, int healthy_after);

  /// Accounts for the time until the end of the run and returns the result. Every nanosecond is in the
  /// ledger.
  JobResult finish(Time horizon);

 private:
  enum class State : unsigned char { kTraining, kRecovering, kPaused };

  [[nodiscard]] int groups_hit(const HealthEvent& event, const ClusterHealth& before) const;
  void advance(Time to);
  void train(Time span);
  void account_training(Time span);
  void run_phase(Time span);
  void settle();
  void interrupt(int groups_hit);
  void lose_progress(bool from_peers);
  void begin(const Transition& transition);
  void finish_transition();
  void consider_growth();
  [[nodiscard]] bool worth_growing_to(const JobConfiguration& candidate) const;
  void commit();

  const Policy& policy_;
  CheckpointSpec checkpoint_;
  Rejoin rejoin_;
  double mean_time_to_interruption_s_;
  plan::ReplicaAssignment assignment_;
  JobConfiguration configuration_;
  JobResult result_;
  Time now_;
  State state_ = State::kTraining;

  // While recovering: the phases to come, the first of them partly done.
  Transition transition_;
  std::size_t phase_ = 0;
  Time phase_done_;

  // While training: where in the cycle of training and saving the job stands, and what it would lose.
  Time cycle_position_;
  Time uncommitted_;           // goodput since the last complete checkpoint
  Time uncommitted_training_;  // training time since then
  Time since_start_;           // training time since the last transition
};

}  // namespace ntpsim::sim
