#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ntpsim/core/time.h"
#include "ntpsim/models/failure_class.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

namespace ntpsim::sim {

/// The machines, whatever runs on them. Spare domains belong to a policy and come on top.
struct ClusterSpec {
  models::SystemSpec system;
  std::int64_t gpus = 0;  ///< a whole number of domains

  [[nodiscard]] std::int64_t domains() const { return gpus / system.domain_size; }
  bool operator==(const ClusterSpec&) const = default;
};

/// GPUs of one GPU, tray or domain.
[[nodiscard]] int gpus_of(models::Scope scope, const models::SystemSpec& system);
/// How many GPUs, trays or domains the cluster has.
[[nodiscard]] std::int64_t units_of(models::Scope scope, const ClusterSpec& cluster);

/// Are the units new at time zero, or in the middle of their lives?
enum class InitialAge : unsigned char { kStationary, kNew };

struct FailureSpec {
  std::vector<models::FailureClass> classes;
  InitialAge initial_age = InitialAge::kStationary;  ///< either way every unit works at time zero
  bool operator==(const FailureSpec&) const = default;
};

/// Periodic checkpoints to durable storage. A save stops training for `save`; the checkpoint counts once it
/// is done.
struct CheckpointSpec {
  Time interval;  ///< training time between two saves
  Time save;      ///< how long training stands still for one
  bool operator==(const CheckpointSpec&) const = default;
};

/// Where elastic policies get their state from after a failure.
enum class ElasticRestore : unsigned char {
  kPeers,      ///< from the memory of the other replicas: only the step in progress is lost
  kCheckpoint  ///< from the last checkpoint
};

/// When capacity that came back is taken into the job.
enum class Rejoin : unsigned char {
  kAuto,       ///< at once if the expected gain until the next interruption exceeds the cost, else at it
  kImmediate,  ///< at once
  kNextInterruption  ///< at the next interruption; a paused job always resumes at once
};

/// How long each phase of getting going again takes.
struct RecoverySpec {
  Time detection;       ///< failure until the job knows
  Time scheduling;      ///< cold restart: until the scheduler has started the job's processes
  Time restart;         ///< cold restart: process start, NCCL init, model build
  Time in_job_restart;  ///< the same for processes that stay alive or stand by (hot spares)
  Time restore;         ///< load of a checkpoint
  Time reconfigure;     ///< elastic policies: communicators rebuilt
  Time reshard;         ///< elastic policies: state moved to its new owners
  ElasticRestore elastic_restore = ElasticRestore::kPeers;
  Rejoin rejoin = Rejoin::kAuto;
  bool operator==(const RecoverySpec&) const = default;
};

/// May a step train on fewer sequences than the global batch?
enum class Minibatch : unsigned char {
  kElastic,  ///< yes: the global batch shrinks with the job
  kFixed     ///< no: the job pauses while it cannot hold the global batch
};

/// The training job, whatever machines it runs on.
struct JobSpec {
  models::TransformerSpec model;
  models::TrainingSpec training;
  CheckpointSpec checkpoint;
  RecoverySpec recovery;
  Minibatch minibatch = Minibatch::kElastic;
  double boost_limit = 1;  ///< most power of a boosted GPU, as a fraction of TDP
  bool operator==(const JobSpec&) const = default;
};

/// One way of coping that a study compares.
struct PolicySpec {
  std::string name;                  ///< in the policy table: "ntp_pw"
  std::string label;                 ///< unique in a study; the name unless the user says otherwise
  std::int64_t spare_domains = 0;    ///< on top of the cluster
  std::vector<int> reduced_degrees;  ///< TP degrees a hurt replica may run at, descending; NTP policies only
  bool operator==(const PolicySpec&) const = default;
};

/// How long and how often to simulate.
struct RunSpec {
  Time horizon;
  std::int64_t replications = 1;
  std::uint64_t seed = 0;
  bool operator==(const RunSpec&) const = default;
};

}  // namespace ntpsim::sim
