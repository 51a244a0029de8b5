#include "ntpsim/sim/job_simulation.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"
#include "ntpsim/sim/cluster_health.h"

#include "scripted_policy.h"
#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::RandomStream;
using ntpsim::Time;
using ntpsim::sim::Category;
using ntpsim::sim::ClusterHealth;
using ntpsim::sim::HealthEvent;
using ntpsim::sim::JobResult;
using ntpsim::sim::JobSimulation;
using ntpsim::sim::JobSpec;
using ntpsim::sim::kCategories;
using ntpsim::sim::Phase;
using ntpsim::sim::Rejoin;
using ntpsim::sim::Transitions;
using Kind = HealthEvent::Kind;

constexpr std::int64_t kDomains = 6;
constexpr int kDomainSize = 4;

Time s(std::int64_t seconds) {
  return Time::from_ns(seconds * 1'000'000'000);
}

struct Setup {
  JobSpec job;
  Transitions transitions;
  std::int64_t replicas = kDomains;
  std::int64_t least_replicas = 1;
  Time interruption_gap;
};

Setup random_setup(RandomStream& random) {
  const auto draw = [&](std::uint64_t most) {
    return static_cast<std::int64_t>(random.next_index(most + 1));
  };
  Setup setup;
  setup.job.checkpoint = {s(1 + draw(60)), s(draw(5))};
  setup.job.recovery.rejoin = static_cast<Rejoin>(draw(2));
  setup.replicas = 1 + draw(kDomains - 1);
  setup.least_replicas = 1 + draw(static_cast<std::uint64_t>(setup.replicas - 1));
  setup.interruption_gap = s(1 + draw(500));
  Transitions& transitions = setup.transitions;
  transitions.peers_keep_state = draw(1) == 1;
  transitions.from_checkpoint = {Phase{Category::kInfrastructure, s(draw(9))},
                                 {Category::kRestore, s(draw(20))}};
  transitions.from_peers = {Phase{Category::kInfrastructure, s(draw(9))}, {Category::kSliceDown, s(draw(9))}};
  transitions.rejoin = {Phase{Category::kCheckpointSave, s(draw(3))}, {Category::kScaleUp, s(draw(9))}};
  transitions.resume = {Phase{Category::kProgramStartup, s(draw(9))}};
  return setup;
}

// Failures, returns and crashes of random GPUs at whole seconds.
std::vector<HealthEvent> random_events(RandomStream& random, std::int64_t horizon) {
  std::vector<HealthEvent> events;
  std::vector<bool> out(static_cast<std::size_t>(kDomains) * kDomainSize, false);
  for (std::int64_t at = 1; at < horizon; ++at) {
    if (random.next_index(25) != 0) continue;
    const auto gpu = static_cast<std::size_t>(random.next_index(out.size()));
    const bool crash = !out[gpu] && random.next_index(4) == 0;
    const Kind kind = crash ? Kind::kInterruption : out[gpu] ? Kind::kReturn : Kind::kFailure;
    if (!crash) out[gpu] = !out[gpu];
    events.push_back({kind, s(at), static_cast<std::int64_t>(gpu), 1});
  }
  return events;
}

JobResult play(const Setup& setup, const std::vector<HealthEvent>& events, std::int64_t horizon) {
  const ScriptedPolicy policy(setup.replicas, setup.least_replicas, setup.transitions);
  JobSimulation job(policy, setup.job, kDomains, setup.interruption_gap);
  ClusterHealth health(kDomains, kDomainSize);
  for (const HealthEvent& event : events) {
    job.handle(event, health, health.healthy_after(event));
    health.apply(event);
  }
  return job.finish(s(horizon));
}

// The same with a failure every second of a GPU that is out already: the job accounts up to it and finds
// nothing new.
JobResult play_and_poke(const Setup& setup, const std::vector<HealthEvent>& events, std::int64_t horizon) {
  const ScriptedPolicy policy(setup.replicas, setup.least_replicas, setup.transitions);
  JobSimulation job(policy, setup.job, kDomains, setup.interruption_gap);
  ClusterHealth health(kDomains, kDomainSize);
  std::size_t next = 0;
  for (std::int64_t at = 1; at < horizon; ++at) {
    for (; next < events.size() && events[next].at == s(at); ++next) {
      job.handle(events[next], health, health.healthy_after(events[next]));
      health.apply(events[next]);
    }
    std::int64_t gpu = 0;
    while (gpu < kDomains * kDomainSize && health.in_service(gpu)) ++gpu;
    if (gpu == kDomains * kDomainSize) continue;
    job.handle({Kind::kFailure, s(at), gpu, 1}, health, health.healthy(gpu / kDomainSize));
  }
  return job.finish(s(horizon));
}

// An independent account of the same rules, one second at a time. Everything random is in whole seconds and
// every rate a multiple of 1/6!, so seconds are exact enough to compare to a microsecond.
class SecondBySecond {
 public:
  explicit SecondBySecond(const Setup& setup) : setup_(setup), healthy_(kDomains, kDomainSize) {
    current_ = possible();
  }

  void play(const std::vector<HealthEvent>& events, std::int64_t horizon) {
    std::size_t next = 0;
    for (std::int64_t second = 0; second < horizon; ++second) {
      settle();
      for (; next < events.size() && events[next].at == s(second); ++next) handle(events[next]);
      settle();
      tick();
    }
    settle();
  }

  std::array<double, kCategories> spent{};
  std::int64_t interruptions = 0;

 private:
  double& of(Category category) { return spent[static_cast<std::size_t>(category)]; }

  [[nodiscard]] std::int64_t possible() const {
    const std::int64_t whole = std::ranges::count(healthy_, kDomainSize);
    const std::int64_t replicas = std::min(whole, setup_.replicas);
    return replicas < setup_.least_replicas ? 0 : replicas;
  }

  // Whole domains come first in the order in which the job takes them; hurt ones are never used.
  void handle(const HealthEvent& event) {
    const auto domain = static_cast<std::size_t>(event.first_gpu / kDomainSize);
    const bool active = in_use_.empty() ? initially_active(domain) : in_use_[domain];
    if (in_use_.empty()) start_tracking();
    if (event.kind == Kind::kReturn) {
      ++healthy_[domain];
      if (phases_.empty()) grow();
      return;
    }
    const bool hit = current_ > 0 && active && (!paused_);
    if (event.kind == Kind::kFailure) {
      --healthy_[domain];
      // A hurt domain is replaced by an idle whole one, if there is one.
      if (in_use_[domain]) replace(domain);
    }
    if (hit) interrupt();
  }

  [[nodiscard]] bool initially_active(std::size_t domain) const {
    return static_cast<std::int64_t>(domain) < setup_.replicas;
  }
  void start_tracking() {
    in_use_.assign(kDomains, false);
    for (std::size_t domain = 0; domain < in_use_.size(); ++domain)
      in_use_[domain] = initially_active(domain);
  }
  void replace(std::size_t domain) {
    in_use_[domain] = false;
    refill();
  }
  void refill() {
    std::int64_t used = std::ranges::count(in_use_, true);
    for (std::size_t domain = kDomains; domain-- > 0 && used < current_;) {
      if (!in_use_[domain] && healthy_[domain] == kDomainSize) {
        in_use_[domain] = true;
        ++used;
      }
    }
    for (std::size_t domain = kDomains; domain-- > 0 && used > current_;) {
      if (in_use_[domain]) {
        in_use_[domain] = false;
        --used;
      }
    }
  }

  void interrupt() {
    ++interruptions;
    // Events are of one GPU, so another replica survives whenever there is one.
    const bool peers = setup_.transitions.peers_keep_state && current_ > 1 && possible() > 0;
    const double lost = !peers            ? uncommitted_
                        : phases_.empty() ? rate() * static_cast<double>(trained_ % 10)
                                          : 0;
    of(Category::kGoodput) -= lost;
    of(Category::kWastedProgress) += lost;
    if (peers) {
      uncommitted_ = std::max(0.0, uncommitted_ - lost);
      position_ = std::min(position_, interval());
    } else {
      commit();
    }
    current_ = possible();
    refill();
    const auto& transition = peers ? setup_.transitions.from_peers : setup_.transitions.from_checkpoint;
    begin(current_ > 0 ? transition : ntpsim::sim::Transition{setup_.transitions.from_checkpoint[0]});
  }

  void begin(const ntpsim::sim::Transition& transition) {
    phases_.assign(transition.begin(), transition.end());
    recovering_ = true;
    trained_ = 0;
  }

  // Finishes phases that have no time left.
  void settle() {
    while (recovering_) {
      if (phases_.empty()) {
        recovering_ = false;
        paused_ = current_ == 0;
        grow();
        continue;
      }
      if (phases_.front().length > Time()) return;
      if (phases_.front().category == Category::kCheckpointSave) commit();
      phases_.erase(phases_.begin());
    }
  }

  void grow() {
    const std::int64_t candidate = possible();
    if (candidate == 0) return;
    if (paused_) {
      paused_ = false;
      current_ = candidate;
      refill();
      begin(setup_.transitions.resume);
      return;
    }
    if (candidate <= current_) return;
    const double gain = static_cast<double>(candidate - current_) / static_cast<double>(setup_.replicas);
    const bool pays = gain * setup_.interruption_gap.seconds() > setup_.transitions.rejoin.length().seconds();
    const Rejoin rule = setup_.job.recovery.rejoin;
    if (rule == Rejoin::kNextInterruption || (rule == Rejoin::kAuto && !pays)) return;
    current_ = candidate;
    refill();
    begin(setup_.transitions.rejoin);
  }

  [[nodiscard]] double rate() const {
    return static_cast<double>(current_) / static_cast<double>(setup_.replicas);
  }
  [[nodiscard]] std::int64_t interval() const { return setup_.job.checkpoint.interval / s(1); }

  void commit() {
    position_ = 0;
    uncommitted_ = 0;
  }

  void tick() {
    if (recovering_) {
      of(phases_.front().category) += 1;
      phases_.front().length -= s(1);
    } else if (paused_) {
      of(Category::kPaused) += 1;
    } else if (position_ >= interval()) {
      of(Category::kCheckpointSave) += 1;
      advance_cycle();
    } else {
      of(Category::kGoodput) += rate();
      of(Category::kDroppedReplicas) += 1 - rate();
      uncommitted_ += rate();
      ++trained_;
      advance_cycle();
    }
  }
  void advance_cycle() {
    ++position_;
    if (position_ == interval() + setup_.job.checkpoint.save / s(1)) commit();
  }

  const Setup& setup_;
  std::vector<int> healthy_;
  std::vector<bool> in_use_;
  std::vector<Phase> phases_;
  bool recovering_ = false;
  bool paused_ = false;
  std::int64_t current_ = 0;
  std::int64_t position_ = 0;
  std::int64_t trained_ = 0;
  double uncommitted_ = 0;
};

TEST_CASE("the closed-form account equals one kept second by second") {
  RandomStream random(3, 0, "test/job_simulation");
  std::int64_t interruptions = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Setup setup = random_setup(random);
    // Which of several idle domains takes over is the assignment's own choice; with none idle there is no
    // choice.
    setup.replicas = kDomains;
    // Until repaired capacity is taken in, which domains idle is a choice as well.
    setup.job.recovery.rejoin = Rejoin::kImmediate;
    const std::int64_t horizon = 200 + static_cast<std::int64_t>(random.next_index(1500));
    const std::vector<HealthEvent> events = random_events(random, horizon);
    const JobResult result = play(setup, events, horizon);
    SecondBySecond reference(setup);
    reference.play(events, horizon);
    REQUIRE(result.interruptions == reference.interruptions);
    for (std::size_t i = 0; i < kCategories; ++i) {
      CAPTURE(std::string(ntpsim::sim::name_of(static_cast<Category>(i))));
      REQUIRE(result.ledger[static_cast<Category>(i)].seconds() ==
              doctest::Approx(reference.spent[i]).epsilon(1e-6));
    }
    interruptions += result.interruptions;
  }
  CHECK(interruptions > 1000);
}

TEST_CASE("looking at a job more often changes nothing") {
  RandomStream random(4, 0, "test/job_simulation");
  for (int round = 0; round < 200; ++round) {
    const Setup setup = random_setup(random);
    const std::int64_t horizon = 200 + static_cast<std::int64_t>(random.next_index(3000));
    const std::vector<HealthEvent> events = random_events(random, horizon);
    const JobResult once = play(setup, events, horizon);
    const JobResult often = play_and_poke(setup, events, horizon);
    REQUIRE(once.interruptions == often.interruptions);
    REQUIRE(once.restarts == often.restarts);
    for (std::size_t i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      // Shares are rounded to nanoseconds each time.
      REQUIRE(std::llabs((once.ledger[category] - often.ledger[category]).ns()) <= 2 * horizon);
    }
  }
}

}  // namespace
