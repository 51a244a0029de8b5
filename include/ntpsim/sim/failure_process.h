#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ntpsim/core/random.h"
#include "ntpsim/core/time.h"
#include "ntpsim/sim/event_queue.h"
#include "ntpsim/sim/specs.h"

namespace ntpsim::sim {

/// GPUs that leave or return to service together. They lie in one domain; GPUs are numbered domain by domain,
/// those of the cluster first and those of spare domains after them.
struct HealthEvent {
  enum class Kind : unsigned char {
    kFailure,       ///< the GPUs leave service
    kInterruption,  ///< whatever runs on the GPUs crashes; nothing is broken
    kReturn         ///< the GPUs are repaired
  };
  Kind kind = Kind::kFailure;
  Time at;
  std::int64_t first_gpu = 0;
  int gpus = 0;
};

/// All failures and repairs of one replication, in time order. They depend on the cluster, the failure
/// classes, the seed and the replication only, never on what the job does, so every policy of a study sees
/// the same ones. The failures of the cluster, and of each spare domain, do not depend on how many spare
/// domains there are.
///
/// Every (class, unit) is an independent alternating renewal process. Units of a memoryless class are
/// simulated together: failures of the whole pool form a Poisson process of rate units / mean, and a failure
/// of a unit that is already in repair is discarded, which is exact and costs nothing per unit. Units of
/// other classes keep their own clocks; only those that fail before the horizon are ever queued, one uniform
/// number a unit.
///
/// Cost: O(log pending) an event, plus one random number per unit of a class that is not memoryless.
class FailureProcess {
 public:
  /// `spare_domains`: on top of the cluster's. REQUIRES: horizon > 0.
  FailureProcess(const ClusterSpec& cluster, std::int64_t spare_domains, const FailureSpec& failures,
                 Time horizon, std::uint64_t seed, std::uint64_t replication);

  /// The next event before the horizon; nothing when there are no more.
  std::optional<HealthEvent> next();

 private:
  // The units of one failure class, either of the whole cluster or of one spare domain.
  struct Population {
    std::size_t failure_class = 0;
    RandomStream stream;
    std::int64_t first_domain = 0;
    std::uint64_t first_unit = 0;  // of the class, cluster and spares together
    std::int64_t units = 0;
    int gpus_per_unit = 0;
    int gpus_per_blast = 0;
    bool memoryless = false;
    RandomStream::Block arrival{};  // memoryless: what decides the next failure
    std::uint64_t arrivals = 0;     // memoryless: blocks of the stream used
    std::vector<bool> in_repair;    // memoryless: unit -> is it out
  };
  struct Pending {
    std::uint32_t population = 0;
    bool is_return = false;
    std::uint32_t unit = 0;
    std::uint32_t life = 0;  // of a unit with its own clock: which life ends
  };

  void add_population(std::size_t failure_class, const RandomStream& stream, std::int64_t first_domain,
                      std::int64_t domains);
  [[nodiscard]] const models::FailureClass& failure_of(const Population& population) const {
    return failures_.classes[population.failure_class];
  }
  void start_memoryless(std::uint32_t index);
  void start_aging(std::uint32_t index);
  void schedule(Time at, const Pending& pending);
  void schedule_next_arrival(std::uint32_t index);
  void schedule_life(const Pending& ended, Time from);
  [[nodiscard]] HealthEvent event_of(const Population& population, std::uint32_t unit, Time at,
                                     HealthEvent::Kind kind) const;
  std::optional<HealthEvent> fail(const Pending& pending, Time at);
  std::optional<HealthEvent> fail_memoryless(const Pending& pending, Time at);
  HealthEvent fail_aging(const Pending& pending, Time at);
  HealthEvent give_back(const Pending& pending, Time at);

  models::SystemSpec system_;
  FailureSpec failures_;
  Time horizon_;
  std::vector<Population> populations_;
  EventQueue<Pending> queue_;
};

}  // namespace ntpsim::sim
