#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "ntpsim/sim/step_model.h"

#include "resolve.h"

// Work is estimated in real numbers: what is refused may be far past the range of integers.

namespace ntpsim::scenario {
namespace {

constexpr double kMostDomains = 1e8;
constexpr double kMostFailures = 2e9;
constexpr double kLongestStep = 86400;

// The policy with the most spare domains. REQUIRES: there is one.
const sim::PolicySpec& most_spares(const Scenario& scenario) {
  return *std::ranges::max_element(scenario.policies, {}, &sim::PolicySpec::spare_domains);
}

void check_machines(const Scenario& scenario, Reader& reader) {
  const sim::ClusterSpec& cluster = scenario.cluster;
  const sim::PolicySpec& policy = most_spares(scenario);
  const std::int64_t spare_gpus = policy.spare_domains * cluster.system.domain_size;
  if (cluster.gpus + spare_gpus > kMaxGpus) {
    reader.error(
        spare_gpus > cluster.gpus ? "/policies" : "/cluster/gpus",
        fmt::format("{} GPUs and {} spare domains of {} GPUs for {} are {} GPUs, expected at most {}; "
                    "lower {}",
                    cluster.gpus, policy.spare_domains, cluster.system.domain_size, policy.label,
                    cluster.gpus + spare_gpus, kMaxGpus,
                    spare_gpus > cluster.gpus ? "spare_domains" : "gpus"));
  }
  const auto count = static_cast<std::int64_t>(scenario.policies.size());
  std::int64_t spares = 0;
  for (const sim::PolicySpec& each : scenario.policies) spares += each.spare_domains;
  const std::int64_t domains = count * cluster.domains() + spares;
  if (static_cast<double>(domains) <= kMostDomains) return;
  reader.error(
      "/policies",
      fmt::format("{} policies on {} domains, and {} spare ones, are {} domains to simulate, expected "
                  "at most {}; lower {}",
                  count, cluster.domains(), spares, domains, kMostDomains,
                  spares > count * cluster.domains() ? "spare_domains" : "the number of policies"));
}

// Each spare domain fails by streams of its own, one a class.
void check_spare_streams(const Scenario& scenario, Reader& reader) {
  constexpr std::size_t kMostStreams = 5'000'000;
  const sim::PolicySpec& policy = most_spares(scenario);
  const std::size_t streams =
      static_cast<std::size_t>(policy.spare_domains) * scenario.failures.classes.size();
  if (streams <= kMostStreams) return;
  reader.error("/policies",
               fmt::format("{} spare domains for {} with {} failure classes are {} failure processes, "
                           "expected at most {}; lower spare_domains",
                           policy.spare_domains, policy.label, scenario.failures.classes.size(), streams,
                           kMostStreams));
}

// Failures of one class in one repetition, if nothing were ever in repair.
double expected_failures(const models::FailureClass& failure, const sim::ClusterSpec& cluster, Time horizon) {
  return static_cast<double>(units_of(failure.component, cluster)) / failure.lifetime.mean_s() *
         horizon.seconds();
}

void check_failures(const Scenario& scenario, Reader& reader) {
  sim::ClusterSpec cluster = scenario.cluster;
  cluster.gpus += most_spares(scenario).spare_domains * cluster.system.domain_size;
  double once = 0;
  double most = 0;
  std::string frequent;
  for (const models::FailureClass& failure : scenario.failures.classes) {
    const double expected = expected_failures(failure, cluster, scenario.run.horizon);
    once += expected;
    if (expected > most) frequent = failure.name;
    most = std::max(most, expected);
  }
  const double all = once * static_cast<double>(scenario.run.replications);
  if (all <= kMostFailures) return;
  const bool replications_matter = once <= kMostFailures;
  reader.error(replications_matter ? "/replications" : "/horizon",
               fmt::format("would simulate about {:.2g} failures, {:.2g} in each of {} replications, most of "
                           "them of class {}; expected at most {:.2g} in all; {}",
                           all, once, scenario.run.replications, in_quotes(frequent), kMostFailures,
                           replications_matter ? "lower replications"
                                               : "shorten the horizon or let it fail "
                                                 "less often"));
}

void check_step(const Scenario& scenario, Reader& reader) {
  const sim::StepModel steps(scenario.cluster.system, scenario.job.model, scenario.job.training);
  const double seconds = steps.step(steps.healthy_shape()).total_s();
  if (std::isfinite(seconds) && seconds <= kLongestStep) return;
  reader.error("/training", fmt::format("one step of the healthy job takes {:.3g} d, expected at most 1 d",
                                        seconds / kLongestStep));
}

}  // namespace

void check_work(const Scenario& scenario, Reader& reader) {
  if (!reader.all_good()) return;
  check_machines(scenario, reader);
  check_spare_streams(scenario, reader);
  check_failures(scenario, reader);
  check_step(scenario, reader);
}

}  // namespace ntpsim::scenario
