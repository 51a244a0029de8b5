#include "ntpsim/sim/failure_process.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {
namespace {

using models::Distribution;

// At one instant capacity returns before more of it fails.
constexpr std::uint8_t kReturnPriority = 0;
constexpr std::uint8_t kFailurePriority = 1;

// What each word of a random block decides.
constexpr std::size_t kLifeWord = 0;
constexpr std::size_t kUnitWord = 1;
constexpr std::size_t kRepairWord = 2;

// Nothing fails or is repaired twice at one instant, so time moves on whatever the distribution.
constexpr Time kShortestSpan = Time::from_ns(1'000'000);

Time draw(const Distribution& distribution, std::uint64_t word) {
  return std::max(kShortestSpan,
                  Time::from_seconds_saturated(distribution.quantile_s(RandomStream::to_uniform(word))));
}

}  // namespace

FailureProcess::FailureProcess(const ClusterSpec& cluster, std::int64_t spare_domains,
                               const FailureSpec& failures, Time horizon, std::uint64_t seed,
                               std::uint64_t replication)
    : system_(cluster.system), failures_(failures), horizon_(horizon) {
  invariant(horizon > Time(), "a run has a positive horizon");
  for (std::size_t index = 0; index < failures.classes.size(); ++index) {
    add_population(index, RandomStream(seed, replication, fmt::format("failures/cluster/{}", index)), 0,
                   cluster.domains());
    // Each spare domain has a stream of its own, so it does not matter how many others stand by.
    const std::string name = fmt::format("failures/spares/{}", index);
    for (std::int64_t spare = 0; spare < spare_domains; ++spare) {
      add_population(index, RandomStream(seed, replication, name, static_cast<std::uint64_t>(spare)),
                     cluster.domains() + spare, 1);
    }
  }
}

void FailureProcess::add_population(std::size_t failure_class, const RandomStream& stream,
                                    std::int64_t first_domain, std::int64_t domains) {
  const models::FailureClass& failure = failures_.classes[failure_class];
  const int gpus_per_unit = gpus_of(failure.component, system_);
  const int gpus_per_blast = gpus_of(failure.blast_radius, system_);
  invariant(gpus_per_blast % gpus_per_unit == 0, "the blast radius covers the component");
  const std::int64_t units = domains * (system_.domain_size / gpus_per_unit);
  invariant(units <= std::numeric_limits<std::uint32_t>::max(), "units fit their index");
  const bool memoryless = failure.lifetime.family() == Distribution::Family::kExponential;
  const std::int64_t first_unit = first_domain * (system_.domain_size / gpus_per_unit);
  populations_.push_back({.failure_class = failure_class,
                          .stream = stream,
                          .first_domain = first_domain,
                          .first_unit = static_cast<std::uint64_t>(first_unit),
                          .units = units,
                          .gpus_per_unit = gpus_per_unit,
                          .gpus_per_blast = gpus_per_blast,
                          .memoryless = memoryless,
                          .in_repair = {}});
  const auto index = static_cast<std::uint32_t>(populations_.size() - 1);
  if (memoryless) {
    start_memoryless(index);
  } else {
    start_aging(index);
  }
}

void FailureProcess::start_memoryless(std::uint32_t index) {
  Population& population = populations_[index];
  population.in_repair.assign(static_cast<std::size_t>(population.units), false);
  schedule_next_arrival(index);
}

void FailureProcess::start_aging(std::uint32_t index) {
  const Population& population = populations_[index];
  const Distribution& lifetime = failure_of(population).lifetime;
  const bool stationary = failures_.initial_age == InitialAge::kStationary;
  // Most units outlive the horizon; only for the others is the (dear) quantile worth computing.
  const double horizon_s = horizon_.seconds();
  const double dies_before_horizon = stationary ? lifetime.residual_cdf(horizon_s) : 1;
  for (std::uint32_t unit = 0; unit < population.units; ++unit) {
    const double u =
        RandomStream::to_uniform(population.stream.block(0, population.first_unit + unit)[kLifeWord]);
    if (u > dies_before_horizon) continue;
    const double life_s = stationary ? lifetime.residual_quantile_s(u) : lifetime.quantile_s(u);
    schedule(Time::from_seconds_saturated(life_s), {.population = index, .unit = unit, .life = 0});
  }
}

void FailureProcess::schedule(Time at, const Pending& pending) {
  if (at >= horizon_) return;
  queue_.schedule(at, pending.is_return ? kReturnPriority : kFailurePriority, pending);
}

void FailureProcess::schedule_next_arrival(std::uint32_t index) {
  Population& population = populations_[index];
  population.arrival = population.stream.block(population.arrivals++);
  const RandomStream::Block& words = population.arrival;
  const double mean_gap_s = failure_of(population).lifetime.mean_s() / static_cast<double>(population.units);
  const double gap_s = -mean_gap_s * std::log(RandomStream::to_uniform(words[kLifeWord]));
  const Time gap = Time::from_seconds_saturated(gap_s);
  if (gap >= horizon_ - queue_.now()) return;
  const auto unit = static_cast<std::uint32_t>(
      RandomStream::to_index(words[kUnitWord], static_cast<std::uint64_t>(population.units)));
  schedule(queue_.now() + gap, {.population = index, .unit = unit});
}

// The life after the one that `ended` speaks of begins at `from`.
void FailureProcess::schedule_life(const Pending& ended, Time from) {
  const Population& population = populations_[ended.population];
  const std::uint32_t life = ended.life + 1;
  const Time span = draw(failure_of(population).lifetime,
                         population.stream.block(life, population.first_unit + ended.unit)[kLifeWord]);
  if (span >= horizon_ - from) return;
  schedule(from + span, {.population = ended.population, .unit = ended.unit, .life = life});
}

HealthEvent FailureProcess::event_of(const Population& population, std::uint32_t unit, Time at,
                                     HealthEvent::Kind kind) const {
  const std::int64_t first_of_unit = std::int64_t{unit} * population.gpus_per_unit;
  const std::int64_t first_of_blast = first_of_unit - first_of_unit % population.gpus_per_blast;
  return {.kind = kind,
          .at = at,
          .first_gpu = population.first_domain * system_.domain_size + first_of_blast,
          .gpus = population.gpus_per_blast};
}

std::optional<HealthEvent> FailureProcess::fail_memoryless(const Pending& pending, Time at) {
  Population& population = populations_[pending.population];
  const std::uint64_t repair_word = population.arrival[kRepairWord];
  schedule_next_arrival(pending.population);
  if (population.in_repair[pending.unit]) return std::nullopt;
  if (!failure_of(population).repair_time) {
    return event_of(population, pending.unit, at, HealthEvent::Kind::kInterruption);
  }
  population.in_repair[pending.unit] = true;
  const Time repair = draw(*failure_of(population).repair_time, repair_word);
  if (repair < horizon_ - at) {
    schedule(at + repair, {.population = pending.population, .is_return = true, .unit = pending.unit});
  }
  return event_of(population, pending.unit, at, HealthEvent::Kind::kFailure);
}

HealthEvent FailureProcess::fail_aging(const Pending& pending, Time at) {
  const Population& population = populations_[pending.population];
  if (!failure_of(population).repair_time) {
    schedule_life(pending, at);
    return event_of(population, pending.unit, at, HealthEvent::Kind::kInterruption);
  }
  const RandomStream::Block words =
      population.stream.block(pending.life, population.first_unit + pending.unit);
  const Time repair = draw(*failure_of(population).repair_time, words[kRepairWord]);
  if (repair < horizon_ - at) {
    Pending returning = pending;
    returning.is_return = true;
    schedule(at + repair, returning);
  }
  return event_of(population, pending.unit, at, HealthEvent::Kind::kFailure);
}

HealthEvent FailureProcess::give_back(const Pending& pending, Time at) {
  Population& population = populations_[pending.population];
  if (population.memoryless) {
    population.in_repair[pending.unit] = false;
  } else {
    schedule_life(pending, at);
  }
  return event_of(population, pending.unit, at, HealthEvent::Kind::kReturn);
}

std::optional<HealthEvent> FailureProcess::fail(const Pending& pending, Time at) {
  if (populations_[pending.population].memoryless) return fail_memoryless(pending, at);
  return fail_aging(pending, at);
}

std::optional<HealthEvent> FailureProcess::next() {
  while (!queue_.empty()) {
    const auto event = queue_.take();
    if (event.payload.is_return) return give_back(event.payload, event.at);
    if (const auto failure = fail(event.payload, event.at)) return failure;
  }
  return std::nullopt;
}

}  // namespace ntpsim::sim
