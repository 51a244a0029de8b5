#include "ntpsim/sim/job_simulation.h"

#include <cstdint>
#include <span>
#include <utility>

#include <doctest/doctest.h>

#include "ntpsim/sim/cluster_health.h"

#include "scripted_policy.h"
#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::Time;
using ntpsim::sim::Category;
using ntpsim::sim::ClusterHealth;
using ntpsim::sim::HealthEvent;
using ntpsim::sim::JobResult;
using ntpsim::sim::JobSimulation;
using ntpsim::sim::JobSpec;
using ntpsim::sim::Phase;
using ntpsim::sim::Rejoin;
using ntpsim::sim::Transitions;
using Kind = HealthEvent::Kind;

Time s(double seconds) {
  return Time::from_seconds(seconds);
}

// Saves of 5 s every 95 s of training; 10 s detection, then 20 s startup and 30 s restore, or 7 s of peers'
// state.
JobSpec job_spec(Rejoin rejoin = Rejoin::kImmediate) {
  JobSpec job;
  job.checkpoint = {s(95), s(5)};
  job.recovery.rejoin = rejoin;
  return job;
}

Transitions from_checkpoints() {
  Transitions transitions;
  transitions.from_checkpoint = {Phase{Category::kInfrastructure, s(10)},
                                 {Category::kProgramStartup, s(20)},
                                 {Category::kRestore, s(30)}};
  transitions.rejoin = {Phase{Category::kCheckpointSave, s(5)}, {Category::kProgramStartup, s(20)}};
  transitions.resume = {Phase{Category::kProgramStartup, s(20)}};
  return transitions;
}

Transitions from_peers() {
  Transitions transitions = from_checkpoints();
  transitions.peers_keep_state = true;
  transitions.from_peers = {Phase{Category::kInfrastructure, s(10)}, {Category::kSliceDown, s(7)}};
  transitions.rejoin = {Phase{Category::kScaleUp, s(7)}};
  return transitions;
}

// A job on four domains of four GPUs.
class Run {
 public:
  Run(std::int64_t least_replicas, const Transitions& transitions, const JobSpec& job = job_spec(),
      Time interruption_gap = s(1000))
      : policy_(4, least_replicas, transitions), job_(policy_, job, 4, interruption_gap) {}

  void event(Kind kind, double at, std::int64_t gpu, int gpus = 1) {
    const HealthEvent event{kind, s(at), gpu, gpus};
    job_.handle(event, health_, health_.healthy_after(event));
    health_.apply(event);
  }
  JobResult finish(double at) { return job_.finish(s(at)); }

 private:
  ScriptedPolicy policy_;
  ClusterHealth health_{6, 4};
  JobSimulation job_;
};

TEST_CASE("without failures only saves interrupt training") {
  Run run(1, from_checkpoints());
  const JobResult result = run.finish(1050);
  CHECK(result.ledger[Category::kGoodput] == s(10 * 95 + 50));
  CHECK(result.ledger[Category::kCheckpointSave] == s(50));
  CHECK(result.ledger.total() == s(1050));
  CHECK(result.interruptions == 0);
}

TEST_CASE("a restart from a checkpoint loses the training since the last complete save") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 250, 0);  // two saves done, 50 s trained since
  const JobResult result = run.finish(250 + 60 + 100);
  CHECK(result.ledger[Category::kWastedProgress] == s(50));
  CHECK(result.ledger[Category::kInfrastructure] == s(10));
  CHECK(result.ledger[Category::kProgramStartup] == s(20));
  CHECK(result.ledger[Category::kRestore] == s(30));
  // One of four replicas is out during the 95 s after recovery.
  CHECK(result.ledger[Category::kDroppedReplicas] == s(95.0 / 4));
  CHECK(result.ledger[Category::kGoodput] == s(190 + 95 * 0.75));
  CHECK(result.ledger[Category::kCheckpointSave] == s(10 + 5));
  CHECK(result.interruptions == 1);
  CHECK(result.restarts == 1);
}

TEST_CASE("a failure during a save loses the interval before it") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 98, 0);
  const JobResult result = run.finish(98);
  CHECK(result.ledger[Category::kWastedProgress] == s(95));
  CHECK(result.ledger[Category::kCheckpointSave] == s(3));
  CHECK(result.ledger[Category::kGoodput] == Time());
}

TEST_CASE("with peers only the step in progress is lost, and the checkpoint clock goes on") {
  Run run(1, from_peers());
  run.event(Kind::kFailure, 53, 0);  // 3 s into the sixth step
  const JobResult result = run.finish(53 + 17 + 42 + 5);
  CHECK(result.ledger[Category::kWastedProgress] == s(3));
  CHECK(result.ledger[Category::kSliceDown] == s(7));
  CHECK(result.ledger[Category::kGoodput] == s(50 + 42 * 0.75));
  CHECK(result.ledger[Category::kCheckpointSave] == s(5));  // 53 + 42 = 95 s of training
}

// Every TP group is a replica, and state comes from peers.
class GroupReplicas : public ntpsim::sim::Policy {
 public:
  [[nodiscard]] std::int64_t groups_per_replica() const override { return 1; }
  [[nodiscard]] double ideal_step_s() const override { return 10; }
  [[nodiscard]] std::span<const ntpsim::sim::DegreeRate> rates() const override { return {}; }
  [[nodiscard]] const Transitions& transitions() const override { return transitions_; }

 private:
  Transitions transitions_ = from_peers();
};

// One domain of 8 GPUs with four groups of 2: the job is four replicas in it.
class OneDomain final : public GroupReplicas {
 public:
  [[nodiscard]] std::span<const ntpsim::plan::DomainPartition> cuts() const override {
    return {&partition_, 1};
  }
  [[nodiscard]] ntpsim::sim::JobConfiguration configure(
      const ntpsim::plan::ReplicaAssignment& assignment) const override {
    ntpsim::sim::JobConfiguration job;
    job.running = assignment.groups(2) > 0;
    job.replicas = job.active_groups = job.sequences = assignment.groups(2);
    job.step_time = s(10);
    job.dropped_replicas = 1 - static_cast<double>(job.replicas) / 4;
    return job;
  }

 private:
  ntpsim::plan::DomainPartition partition_{8, 2};
};

TEST_CASE("a blast that hits every replica leaves no peer to restore from") {
  const OneDomain policy;
  // Crashes of 1, 3, 6 and 8 GPUs hit 1, 2, 3 and 4 of the replicas.
  for (const auto& [gpus, wasted_s] : {std::pair{1, 3.0}, {3, 3.0}, {6, 3.0}, {8, 53.0}}) {
    CAPTURE(gpus);
    JobSimulation job(policy, job_spec(), 1, s(1000));
    const ClusterHealth health(1, 8);
    job.handle({Kind::kInterruption, s(53), 0, gpus}, health, 8);
    const JobResult result = job.finish(s(54));
    CHECK(result.ledger[Category::kWastedProgress] == s(wasted_s));
    CHECK(result.lost_training == s(wasted_s));
  }
}

// One domain of 16 GPUs with two groups of 8, each a replica, that share the domain's loss.
class SharedLoss final : public GroupReplicas {
 public:
  [[nodiscard]] std::span<const ntpsim::plan::DomainPartition> cuts() const override { return cuts_; }
  [[nodiscard]] ntpsim::sim::JobConfiguration configure(
      const ntpsim::plan::ReplicaAssignment& assignment) const override {
    ntpsim::sim::JobConfiguration job;
    job.cut = 1;
    job.replicas = assignment.groups(8, job.cut) + assignment.groups(7, job.cut);
    job.running = job.replicas > 0;
    job.active_groups = job.sequences = job.replicas;
    job.step_time = s(10);
    return job;
  }

 private:
  std::vector<ntpsim::plan::DomainPartition> cuts_ = {{16, 8}, {16, 8, std::vector{7}}};
};

TEST_CASE("groups that share a loss are told apart by their own size") {
  // With 7 + 7 of 14 GPUs, those at places 6 and 7 are of both replicas, those at 5 and 6 of one.
  for (const auto& [first_gpu, lost_s] : {std::pair{6, 60.0}, {5, 0.0}}) {
    CAPTURE(first_gpu);
    const SharedLoss policy;
    JobSimulation job(policy, job_spec(), 1, s(1000));
    ClusterHealth health(1, 16);
    const HealthEvent two_fail{Kind::kFailure, s(10), 14, 2};
    job.handle(two_fail, health, 14);
    health.apply(two_fail);
    job.handle({Kind::kInterruption, s(10 + 17 + 50), first_gpu, 2}, health, 14);
    const JobResult result = job.finish(s(10 + 17 + 51));
    CHECK(result.interruptions == 2);
    CHECK(result.lost_training == s(lost_s));
  }
}

TEST_CASE("a paused job resumes from its last checkpoint, whoever held the state before") {
  Run run(4, from_peers());
  run.event(Kind::kFailure, 153, 0);  // 53 s trained since the save
  run.event(Kind::kReturn, 200, 0);
  const JobResult result = run.finish(220);
  CHECK(result.pauses == 1);
  CHECK(result.restarts == 1);
  CHECK(result.ledger[Category::kWastedProgress] == s(53));
  CHECK(result.lost_training == s(53));
}

TEST_CASE("a return before the job has noticed its failure is no pause") {
  Run run(4, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kReturn, 105, 0);
  const JobResult result = run.finish(130);
  CHECK(result.pauses == 0);
  CHECK(result.ledger[Category::kPaused] == Time());
  CHECK(result.restarts == 1);
}

TEST_CASE("lost training counts at whatever rate it went") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kFailure, 160 + 40, 4);  // 40 s at three quarters of the rate
  const JobResult result = run.finish(200);
  CHECK(result.ledger[Category::kWastedProgress] == s(30));
  CHECK(result.ledger[Category::kDroppedReplicas] == s(10));
  CHECK(result.lost_training == s(40));
}

TEST_CASE("a failure while recovering starts the recovery again") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kFailure, 125, 4);  // 15 s into the 20 s of startup
  const JobResult result = run.finish(125 + 60);
  CHECK(result.ledger[Category::kInfrastructure] == s(20));
  CHECK(result.ledger[Category::kProgramStartup] == s(15 + 20));
  CHECK(result.ledger[Category::kRestore] == s(30));
  CHECK(result.interruptions == 2);
  CHECK(result.restarts == 1);  // the recovery cut short brought no training
}

TEST_CASE("GPUs that the job does not use may fail unnoticed") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kFailure, 300, 1);   // of the domain that is out already
  run.event(Kind::kFailure, 310, 16);  // of a domain that this job does not have
  run.event(Kind::kInterruption, 320, 2);
  const JobResult result = run.finish(400);
  CHECK(result.interruptions == 1);
}

TEST_CASE("a crash without a broken part interrupts and changes nothing else") {
  Run run(1, from_checkpoints());
  run.event(Kind::kInterruption, 100, 0);
  const JobResult result = run.finish(160 + 95);
  CHECK(result.interruptions == 1);
  CHECK(result.ledger[Category::kDroppedReplicas] == Time());
  CHECK(result.ledger[Category::kGoodput] == s(95 + 95));
}

TEST_CASE("below its least size the job pauses, and resumes when a GPU returns") {
  Run run(4, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kFailure, 150, 5);  // of the paused job: no interruption
  run.event(Kind::kReturn, 200, 0);   // not enough
  run.event(Kind::kReturn, 300, 5);
  const JobResult result = run.finish(300 + 20 + 30);
  CHECK(result.pauses == 1);
  CHECK(result.interruptions == 1);
  CHECK(result.ledger[Category::kInfrastructure] == s(10));
  CHECK(result.ledger[Category::kPaused] == s(190));
  CHECK(result.ledger[Category::kProgramStartup] == s(20));
  CHECK(result.ledger[Category::kGoodput] == s(95 + 30));
}

TEST_CASE("capacity that returns is taken in at once, later, or when it pays") {
  struct Case {
    Rejoin rejoin;
    double interruption_gap_s;
    bool grows;
  };
  // A replica is a quarter of the rate; taking it in costs 25 s: it pays from 100 s to the next interruption
  // on.
  for (const Case& test : {Case{Rejoin::kImmediate, 1, true}, Case{Rejoin::kNextInterruption, 1e6, false},
                           Case{Rejoin::kAuto, 101, true}, Case{Rejoin::kAuto, 99, false}}) {
    CAPTURE(test.interruption_gap_s);
    Run run(1, from_checkpoints(), job_spec(test.rejoin), s(test.interruption_gap_s));
    run.event(Kind::kFailure, 100, 0);
    run.event(Kind::kReturn, 180, 0);  // 20 s trained since the recovery
    const JobResult result = run.finish(180 + 25 + 40);
    CHECK(result.restarts == (test.grows ? 2 : 1));
    CHECK(result.ledger[Category::kWastedProgress] == Time());
    CHECK(result.ledger[Category::kDroppedReplicas] == (test.grows ? s(20 * 0.25) : s(85 * 0.25)));
  }
}

TEST_CASE("a planned restart saves first: a failure after the save loses nothing") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kReturn, 180, 0);
  run.event(Kind::kFailure, 190, 4);  // 5 s after the save
  const JobResult saved = run.finish(190);
  CHECK(saved.ledger[Category::kWastedProgress] == Time());

  Run early(1, from_checkpoints());
  early.event(Kind::kFailure, 100, 0);
  early.event(Kind::kReturn, 180, 0);
  early.event(Kind::kFailure, 183, 4);  // during it
  const JobResult lost = early.finish(183);
  CHECK(lost.ledger[Category::kWastedProgress] == s(20 * 0.75));
}

TEST_CASE("capacity that returns during a recovery is considered at its end") {
  Run run(1, from_checkpoints());
  run.event(Kind::kFailure, 100, 0);
  run.event(Kind::kReturn, 110, 0);
  const JobResult result = run.finish(160 + 25 + 10);
  CHECK(result.restarts == 2);
  CHECK(result.ledger[Category::kGoodput] == s(95 + 10));
  CHECK(result.ledger[Category::kDroppedReplicas] == Time());
}

}  // namespace
