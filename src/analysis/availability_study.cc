#include "ntpsim/analysis/availability_study.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "ntpsim/core/random.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/policy_table.h"

#include "ordered_parallel.h"

namespace ntpsim::analysis {
namespace {

// Fails the GPUs of a pool one after the other in a random order that depends on the stream only.
class FailingPool {
 public:
  FailingPool(std::int64_t gpus, const RandomStream& stream)
      : failed_(static_cast<std::size_t>(gpus), false), stream_(stream) {}

  template <class Fail>
  void fail_until(std::int64_t count, const Fail& fail) {
    // Redrawing what has already failed is a uniform choice among the rest.
    for (; count_ < count; ++count_) {
      std::uint64_t gpu = stream_.next_index(failed_.size());
      while (failed_[gpu]) gpu = stream_.next_index(failed_.size());
      failed_[gpu] = true;
      fail(static_cast<std::int64_t>(gpu));
    }
  }

 private:
  std::vector<bool> failed_;
  RandomStream stream_;
  std::int64_t count_ = 0;
};

// Fails each spare GPU with the given probability, by a number of its own: so it does not matter how many
// others there are, and a higher share fails all that a lower one does.
class FailingSpares {
 public:
  FailingSpares(std::int64_t gpus, RandomStream stream) {
    for (std::int64_t gpu = 0; gpu < gpus; ++gpu) fails_at_.emplace_back(stream.next_uniform(), gpu);
    std::ranges::sort(fails_at_);
  }

  template <class Fail>
  void fail_up_to(double fraction, const Fail& fail) {
    for (; next_ < fails_at_.size() && fails_at_[next_].first <= fraction; ++next_)
      fail(fails_at_[next_].second);
  }

 private:
  std::vector<std::pair<double, std::int64_t>> fails_at_;
  std::size_t next_ = 0;
};

std::int64_t failed_count(double fraction, std::int64_t gpus) {
  return std::llround(fraction * static_cast<double>(gpus));
}

struct DrawResult {
  std::vector<double> losses;               // by share, then by policy
  std::vector<double> domain_availability;  // by share
};

class AvailabilityDraw {
 public:
  AvailabilityDraw(const scenario::Scenario& scenario, std::span<const std::unique_ptr<sim::Policy>> policies)
      : scenario_(scenario), policies_(policies) {}

  // `fractions` ascend.
  [[nodiscard]] DrawResult draw(std::span<const double> fractions, std::uint64_t index) const {
    const sim::ClusterSpec& cluster = scenario_.cluster;
    const int domain_size = cluster.system.domain_size;
    FailingPool base(cluster.gpus, RandomStream(scenario_.run.seed, index, "availability/cluster"));
    FailingSpares spares(most_spare_domains() * domain_size,
                         RandomStream(scenario_.run.seed, index, "availability/spares"));
    std::vector<plan::ReplicaAssignment> assignments = fresh_assignments();
    std::vector<int> healthy(static_cast<std::size_t>(cluster.domains() + most_spare_domains()), domain_size);
    std::int64_t hurt_domains = 0;
    const auto fail = [&](std::int64_t gpu) {
      const std::int64_t domain = gpu / domain_size;
      int& left = healthy[static_cast<std::size_t>(domain)];
      if (left == domain_size && domain < cluster.domains()) ++hurt_domains;
      --left;
      for (plan::ReplicaAssignment& assignment : assignments) {
        if (domain < assignment.domains()) assignment.set_healthy(domain, left);
      }
    };
    DrawResult result;
    for (const double fraction : fractions) {
      base.fail_until(failed_count(fraction, cluster.gpus), fail);
      spares.fail_up_to(fraction, [&](std::int64_t gpu) { fail(cluster.gpus + gpu); });
      for (std::size_t i = 0; i < policies_.size(); ++i) {
        const sim::JobConfiguration job = policies_[i]->configure(assignments[i]);
        result.losses.push_back(job.running ? 1 - job.goodput() : 1);
      }
      result.domain_availability.push_back(1 - static_cast<double>(hurt_domains) /
                                                   static_cast<double>(cluster.domains()));
    }
    return result;
  }

 private:
  [[nodiscard]] std::int64_t most_spare_domains() const {
    return std::ranges::max(scenario_.policies, {}, &sim::PolicySpec::spare_domains).spare_domains;
  }

  [[nodiscard]] std::vector<plan::ReplicaAssignment> fresh_assignments() const {
    std::vector<plan::ReplicaAssignment> assignments;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      assignments.emplace_back(policies_[i]->cuts(),
                               scenario_.cluster.domains() + scenario_.policies[i].spare_domains,
                               policies_[i]->groups_per_replica());
    }
    return assignments;
  }

  const scenario::Scenario& scenario_;
  std::span<const std::unique_ptr<sim::Policy>> policies_;
};

}  // namespace

std::vector<AvailabilityPoint> run_availability_study(const scenario::Scenario& scenario,
                                                      const AvailabilityOptions& availability,
                                                      const StudyOptions& options) {
  std::vector<std::unique_ptr<sim::Policy>> policies;
  for (const sim::PolicySpec& spec : scenario.policies) {
    policies.push_back(sim::find_policy(spec.name)->make(scenario.cluster, scenario.job, spec));
  }
  std::vector<double> fractions = availability.failed_fractions;
  std::ranges::sort(fractions);
  std::vector<Accumulator> losses(fractions.size() * policies.size());
  std::vector<Accumulator> available(fractions.size());
  const AvailabilityDraw draws(scenario, policies);
  ordered_parallel(
      availability.draws, options.threads, options.progress,
      [&](std::int64_t index) { return draws.draw(fractions, static_cast<std::uint64_t>(index)); },
      [&](const DrawResult& result) {
        for (std::size_t i = 0; i < losses.size(); ++i) losses[i].add(result.losses[i]);
        for (std::size_t i = 0; i < available.size(); ++i) available[i].add(result.domain_availability[i]);
      });
  std::vector<AvailabilityPoint> points;
  for (std::size_t f = 0; f < fractions.size(); ++f) {
    for (std::size_t p = 0; p < policies.size(); ++p) {
      points.push_back({fractions[f], failed_count(fractions[f], scenario.cluster.gpus), p,
                        losses[f * policies.size() + p].share_estimate(), available[f].share_estimate()});
    }
  }
  return points;
}

}  // namespace ntpsim::analysis
