#pragma once

#include <algorithm>
#include <span>

#include "ntpsim/sim/policy.h"

namespace ntpsim::testing {

/// A policy whose every figure is in plain sight: one replica a domain of 4 GPUs, 10 s a step, and the rate
/// falls by one replica's share with each domain that is not whole. Below `least_replicas` it pauses.
class ScriptedPolicy final : public sim::Policy {
 public:
  ScriptedPolicy(std::int64_t replicas, std::int64_t least_replicas, const sim::Transitions& transitions)
      : replicas_(replicas), least_replicas_(least_replicas), transitions_(transitions) {}

  [[nodiscard]] std::span<const plan::DomainPartition> cuts() const override { return {&partition_, 1}; }
  [[nodiscard]] std::int64_t groups_per_replica() const override { return 1; }
  [[nodiscard]] double ideal_step_s() const override { return 10; }
  [[nodiscard]] std::span<const sim::DegreeRate> rates() const override { return {&rate_, 1}; }
  [[nodiscard]] const sim::Transitions& transitions() const override { return transitions_; }
  [[nodiscard]] sim::JobConfiguration configure(const plan::ReplicaAssignment& assignment) const override {
    sim::JobConfiguration job;
    const std::int64_t replicas = std::min(replicas_, assignment.groups(4));
    if (replicas < least_replicas_) return job;
    job.running = true;
    job.replicas = replicas;
    job.active_groups = replicas;
    job.sequences = replicas;
    job.step_time = Time::from_seconds(10);
    job.dropped_replicas = 1 - static_cast<double>(replicas) / static_cast<double>(replicas_);
    return job;
  }

 private:
  std::int64_t replicas_;
  std::int64_t least_replicas_;
  sim::Transitions transitions_;
  plan::DomainPartition partition_{4, 4};
  sim::DegreeRate rate_{.degree = 4, .microbatches = 1};
};

}  // namespace ntpsim::testing
