#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "ntpsim/core/time.h"
#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/sim/ledger.h"

namespace ntpsim::sim {

/// How a replica runs whose smallest TP group has this many GPUs.
struct DegreeRate {
  int degree = 0;  ///< GPUs in the group
  /// TP degree that it runs at: the degree, or a lower one that is faster. GPUs that stand by for that count
  /// as in use.
  int run_degree = 0;
  std::int64_t microbatches = 0;  ///< per step and replica; 0: not worth running
  double compute_speed = 1;       ///< relative to TDP
  double power_fraction = 1;      ///< of TDP
  double job_step_s = 0;          ///< of a job whose lowest degree this is
};

/// How a training job runs on the GPUs it has: what a policy decides.
struct JobConfiguration {
  bool running = false;  ///< false: nothing that the policy allows can run
  std::size_t cut = 0;   ///< of the policy's cuts, the one in use
  std::int64_t replicas = 0;
  std::int64_t active_groups = 0;  ///< of the packing order, the groups that the job occupies
  std::int64_t sequences = 0;      ///< trained per step, at most the global batch
  Time step_time;                  ///< of the slowest replica
  // Training time by what becomes of it, as shares of the healthy job's rate; the rest is goodput.
  double degraded_tp = 0;
  double dropped_replicas = 0;
  double straggler_wait = 0;
  double boosted_groups = 0;  ///< TP groups that get more than TDP
  double extra_power_w = 0;   ///< above TDP, all boosted GPUs together

  /// Useful training rate, relative to the healthy job's.
  [[nodiscard]] double goodput() const { return 1 - degraded_tp - dropped_replicas - straggler_wait; }
};

/// One stretch of a transition.
struct Phase {
  Category category = Category::kInfrastructure;
  Time length;
};

/// What happens between an old configuration and a new one: phases, in order. A value without allocation.
class Transition {
 public:
  static constexpr std::size_t kMaxPhases = 5;
  Transition() = default;
  Transition(std::initializer_list<Phase> phases);

  [[nodiscard]] const Phase* begin() const { return phases_.data(); }
  [[nodiscard]] const Phase* end() const { return phases_.data() + size_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const Phase& operator[](std::size_t index) const { return phases_[index]; }
  [[nodiscard]] Time length() const;

 private:
  std::array<Phase, kMaxPhases> phases_{};
  std::size_t size_ = 0;
};

/// How a policy gets from one configuration to another. Transitions after an interruption begin with its
/// detection.
struct Transitions {
  Transition from_checkpoint;     ///< after an interruption, when state comes from the last checkpoint
  Transition from_peers;          ///< after an interruption, when state comes from other replicas' memory
  bool peers_keep_state = false;  ///< `from_peers` is possible while a replica survives
  Transition rejoin;              ///< planned: capacity that came back is taken in; nothing is lost
  Transition resume;              ///< out of a pause
};

/// Step times that were asked for, and those of them that had to be simulated.
struct StepUse {
  std::int64_t asked = 0;
  std::int64_t simulated = 0;

  /// Share that was simulated before.
  [[nodiscard]] double hit_rate() const {
    return asked > 0 ? 1 - static_cast<double>(simulated) / static_cast<double>(asked) : 0;
  }
  StepUse& operator+=(StepUse other) {
    asked += other.asked;
    simulated += other.simulated;
    return *this;
  }
};

/// A way of coping with failures: cluster state in, job configuration and transition out. Immutable after
/// construction, so one object serves all replications and threads.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  /// The ways to cut a domain's healthy GPUs into TP groups that this policy chooses between. At least one,
  /// all with the same degrees.
  [[nodiscard]] virtual std::span<const plan::DomainPartition> cuts() const = 0;
  /// TP groups of what comes and goes as a whole: one replica, or the replicas that share an expert group.
  [[nodiscard]] virtual std::int64_t groups_per_replica() const = 0;
  /// Seconds of a step of the healthy job without failures.
  [[nodiscard]] virtual double ideal_step_s() const = 0;
  /// How replicas run at each degree of the cuts, by descending degree.
  [[nodiscard]] virtual std::span<const DegreeRate> rates() const = 0;
  /// The best configuration on this assignment, which must be made of `cuts()`. O(cuts *
  /// degrees), no allocation.
  [[nodiscard]] virtual JobConfiguration configure(const plan::ReplicaAssignment& assignment) const = 0;
  [[nodiscard]] virtual const Transitions& transitions() const = 0;
  /// What the policy asked of the step simulator when it was made.
  [[nodiscard]] virtual StepUse step_use() const { return {}; }
};

}  // namespace ntpsim::sim
