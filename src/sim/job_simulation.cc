#include "ntpsim/sim/job_simulation.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {
namespace {

Time scaled(Time span, double share) {
  return Time::from_ns(std::llround(static_cast<double>(span.ns()) * share));
}

// Which group of a domain the GPU at this place belongs to, the groups standing one after the other.
int group_at(int place, std::span<const plan::GroupRun> runs) {
  int groups_before = 0;
  for (const plan::GroupRun& run : runs) {
    if (place < run.count * run.degree) return groups_before + place / run.degree;
    place -= run.count * run.degree;
    groups_before += run.count;
  }
  return groups_before;
}

}  // namespace

JobSimulation::JobSimulation(const Policy& policy, const JobSpec& job, std::int64_t domains,
                             Time mean_time_to_interruption)
    : policy_(policy),
      checkpoint_(job.checkpoint),
      rejoin_(job.recovery.rejoin),
      mean_time_to_interruption_s_(mean_time_to_interruption.seconds()),
      assignment_(policy.cuts(), domains, policy.groups_per_replica()),
      configuration_(policy.configure(assignment_)) {
  invariant(configuration_.running, "the healthy job runs");
  invariant(checkpoint_.interval > Time(), "checkpoints have an interval");
}

void JobSimulation::handle(const HealthEvent& event, const ClusterHealth& before, int healthy_after) {
  const std::int64_t domain = before.domain_of(event.first_gpu);
  if (domain >= assignment_.domains()) return;
  advance(event.at);
  const int hit = event.kind == HealthEvent::Kind::kReturn ? 0 : groups_hit(event, before);
  assignment_.set_healthy(domain, healthy_after);
  if (hit > 0) {
    interrupt(hit);
  } else if (event.kind == HealthEvent::Kind::kReturn && state_ != State::kRecovering) {
    consider_growth();
  }
}

// The GPUs of a domain that a job uses are its healthy ones of the lowest numbers, group after group; the
// others are in-domain spares.
int JobSimulation::groups_hit(const HealthEvent& event, const ClusterHealth& before) const {
  if (state_ == State::kPaused) return 0;
  const std::int64_t domain = before.domain_of(event.first_gpu);
  const int active = assignment_.active_gpus(domain, configuration_.active_groups, configuration_.cut);
  if (active == 0) return 0;
  const bool no_spares = active >= before.healthy(domain);
  if (no_spares && event.gpus == 1) return before.in_service(event.first_gpu) ? 1 : 0;
  const auto runs = assignment_.partition(configuration_.cut).groups(before.healthy(domain));
  int groups = 0;
  int last_group = -1;
  for (std::int64_t gpu = event.first_gpu; gpu < event.first_gpu + event.gpus; ++gpu) {
    if (!before.in_service(gpu)) continue;
    const int place = before.healthy_before(gpu);
    if (place >= active) break;
    const int group = group_at(place, runs);
    groups += group != last_group ? 1 : 0;
    last_group = group;
  }
  return groups;
}

void JobSimulation::advance(Time to) {
  invariant(to >= now_, "time does not run backwards");
  settle();
  while (now_ < to) {
    switch (state_) {
      case State::kTraining:
        train(to - now_);
        break;
      case State::kRecovering:
        run_phase(to - now_);
        break;
      case State::kPaused:
        result_.ledger.add(Category::kPaused, to - now_);
        now_ = to;
        break;
    }
    settle();
  }
}

// One stretch of the cycle of training and saving, or all the whole cycles that fit.
void JobSimulation::train(Time span) {
  const Time cycle = checkpoint_.interval + checkpoint_.save;
  if (cycle_position_ == Time() && span >= cycle) {
    const std::int64_t cycles = span / cycle;
    account_training(checkpoint_.interval * cycles);
    result_.ledger.add(Category::kCheckpointSave, checkpoint_.save * cycles);
    now_ += cycle * cycles;
    commit();
    return;
  }
  const bool saving = cycle_position_ >= checkpoint_.interval;
  const Time left = (saving ? cycle : checkpoint_.interval) - cycle_position_;
  const Time stretch = std::min(span, left);
  if (saving) {
    result_.ledger.add(Category::kCheckpointSave, stretch);
  } else {
    account_training(stretch);
  }
  now_ += stretch;
  cycle_position_ += stretch;
  if (cycle_position_ == cycle) commit();
}

void JobSimulation::commit() {
  cycle_position_ = Time();
  uncommitted_ = Time();
  uncommitted_training_ = Time();
}

// Goodput takes what rounding the other shares to nanoseconds leaves, so the sum is exact.
void JobSimulation::account_training(Time span) {
  const Time degraded = scaled(span, configuration_.degraded_tp);
  const Time dropped = scaled(span, configuration_.dropped_replicas);
  const Time waiting = std::min(scaled(span, configuration_.straggler_wait), span - degraded - dropped);
  const Time goodput = span - degraded - dropped - waiting;
  result_.ledger.add(Category::kGoodput, goodput);
  result_.ledger.add(Category::kDegradedTp, degraded);
  result_.ledger.add(Category::kDroppedReplicas, dropped);
  result_.ledger.add(Category::kStragglerWait, waiting);
  result_.boosted_group_s += configuration_.boosted_groups * span.seconds();
  result_.extra_energy_j += configuration_.extra_power_w * span.seconds();
  uncommitted_ += goodput;
  uncommitted_training_ += span;
  since_start_ += span;
}

// Each group hit may be of another replica. State that survives in memory serves a job that goes on; a paused
// one lets go of it and resumes from its last checkpoint.
void JobSimulation::interrupt(int groups_hit) {
  ++result_.interruptions;
  const Transitions& transitions = policy_.transitions();
  const JobConfiguration next = policy_.configure(assignment_);
  ++result_.decisions;
  const bool from_peers =
      transitions.peers_keep_state && configuration_.replicas > groups_hit && next.running;
  lose_progress(from_peers);
  configuration_ = next;
  if (configuration_.running) {
    begin(from_peers ? transitions.from_peers : transitions.from_checkpoint);
  } else {
    begin({transitions.from_checkpoint[0]});  // there is nothing to recover to once the failure is known
  }
}

void JobSimulation::lose_progress(bool from_peers) {
  Time lost = uncommitted_;
  Time lost_training = uncommitted_training_;
  if (from_peers) {
    lost_training = state_ == State::kTraining ? since_start_ % configuration_.step_time : Time();
    lost = std::min(scaled(lost_training, configuration_.goodput()), result_.ledger[Category::kGoodput]);
    uncommitted_ -= std::min(lost, uncommitted_);
    uncommitted_training_ -= std::min(lost_training, uncommitted_training_);
    // A save that was under way begins anew.
    cycle_position_ = std::min(cycle_position_, checkpoint_.interval);
  } else {
    commit();
  }
  result_.lost_training += lost_training;
  result_.ledger.move(Category::kGoodput, Category::kWastedProgress, lost);
}

void JobSimulation::begin(const Transition& transition) {
  transition_ = transition;
  phase_ = 0;
  phase_done_ = Time();
  since_start_ = Time();
  state_ = State::kRecovering;
}

void JobSimulation::run_phase(Time span) {
  const Phase& phase = transition_[phase_];
  const Time stretch = std::min(span, phase.length - phase_done_);
  result_.ledger.add(phase.category, stretch);
  now_ += stretch;
  phase_done_ += stretch;
}

// Ends what has run its time by now, so that nothing that happens at this very moment finds it still going
// on.
void JobSimulation::settle() {
  while (state_ == State::kRecovering) {
    if (phase_ == transition_.size()) {
      finish_transition();
      continue;
    }
    if (phase_done_ < transition_[phase_].length) return;
    if (transition_[phase_].category == Category::kCheckpointSave) commit();
    ++phase_;
    phase_done_ = Time();
  }
}

void JobSimulation::finish_transition() {
  state_ = configuration_.running ? State::kTraining : State::kPaused;
  if (state_ == State::kTraining) ++result_.restarts;
  // Capacity may have come back meanwhile.
  consider_growth();
  if (state_ == State::kPaused) ++result_.pauses;
}

void JobSimulation::consider_growth() {
  const JobConfiguration candidate = policy_.configure(assignment_);
  ++result_.decisions;
  if (!candidate.running) return;
  const Transitions& transitions = policy_.transitions();
  if (state_ == State::kPaused) {
    configuration_ = candidate;
    begin(transitions.resume);
  } else if (worth_growing_to(candidate)) {
    configuration_ = candidate;
    begin(transitions.rejoin);
  }
}

bool JobSimulation::worth_growing_to(const JobConfiguration& candidate) const {
  // Below this a difference is rounding, not capacity.
  constexpr double kLeastGain = 1e-9;
  const double gain = candidate.goodput() - configuration_.goodput();
  if (gain < kLeastGain) return false;
  switch (rejoin_) {
    case Rejoin::kImmediate:
      return true;
    case Rejoin::kNextInterruption:
      return false;
    case Rejoin::kAuto:
      return gain * mean_time_to_interruption_s_ > policy_.transitions().rejoin.length().seconds();
  }
  invariant_broken("every rejoin rule is decided", std::source_location::current());
}

JobResult JobSimulation::finish(Time horizon) {
  advance(horizon);
  invariant(result_.ledger.total() == horizon, "the ledger holds every nanosecond of the horizon");
  return result_;
}

}  // namespace ntpsim::sim
