#include "ntpsim/sim/cluster_simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/sim/cluster_health.h"
#include "ntpsim/sim/failure_process.h"
#include "ntpsim/sim/policy_table.h"

namespace ntpsim::sim {
namespace {

// Follows the number of failed GPUs of the cluster proper through time.
class FailedGpuMeter {
 public:
  FailedGpuMeter(std::int64_t gpus, std::span<const double> thresholds) {
    for (const double share : thresholds) limits_.push_back(share * static_cast<double>(gpus));
    result_.time_above.resize(thresholds.size());
  }

  void change(Time at, std::int64_t by) {
    advance(at);
    failed_ += by;
    result_.peak = std::max(result_.peak, failed_);
  }

  FailedGpus finish(Time horizon) {
    advance(horizon);
    result_.mean = gpu_seconds_ / horizon.seconds();
    return std::move(result_);
  }

 private:
  void advance(Time to) {
    const Time span = to - now_;
    gpu_seconds_ += static_cast<double>(failed_) * span.seconds();
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      if (static_cast<double>(failed_) > limits_[i]) result_.time_above[i] += span;
    }
    now_ = to;
  }

  std::vector<double> limits_;
  FailedGpus result_;
  double gpu_seconds_ = 0;
  std::int64_t failed_ = 0;
  Time now_;
};

}  // namespace

Time mean_time_to_interruption(const ClusterSpec& cluster, const FailureSpec& failures) {
  double per_second = 0;
  for (const models::FailureClass& failure : failures.classes) {
    per_second += static_cast<double>(units_of(failure.component, cluster)) / failure.lifetime.mean_s();
  }
  return per_second > 0 ? Time::from_seconds_saturated(1 / per_second) : Time::max();
}

ClusterSimulation::ClusterSimulation(ClusterSpec cluster, JobSpec job, FailureSpec failures,
                                     std::span<const PolicySpec> policies, std::span<const double> thresholds)
    : cluster_(std::move(cluster)),
      job_(std::move(job)),
      failures_(std::move(failures)),
      thresholds_(thresholds.begin(), thresholds.end()) {
  invariant(!policies.empty(), "a study has at least one policy");
  for (const PolicySpec& spec : policies) {
    const PolicyInfo* const info = find_policy(spec.name);
    invariant(info != nullptr, "the scenario reader knows every policy");
    policies_.push_back(info->make(cluster_, job_, spec));
    spare_domains_.push_back(spec.spare_domains);
    most_spare_domains_ = std::max(most_spare_domains_, spec.spare_domains);
  }
}

ReplicationResult ClusterSimulation::run(Time horizon, std::uint64_t seed, std::uint64_t replication) const {
  FailureProcess process(cluster_, most_spare_domains_, failures_, horizon, seed, replication);
  ClusterHealth health(cluster_.domains() + most_spare_domains_, cluster_.system.domain_size);
  FailedGpuMeter meter(cluster_.gpus, thresholds_);
  const Time interruption_gap = mean_time_to_interruption(cluster_, failures_);
  std::vector<JobSimulation> jobs;
  jobs.reserve(policies_.size());
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    jobs.emplace_back(*policies_[i], job_, cluster_.domains() + spare_domains_[i], interruption_gap);
  }
  ReplicationResult result;
  while (const auto event = process.next()) {
    const int healthy_after = health.healthy_after(*event);
    for (JobSimulation& job : jobs) job.handle(*event, health, healthy_after);
    ++result.events;
    if (event->first_gpu < cluster_.gpus) {
      result.failures += event->kind == HealthEvent::Kind::kReturn ? 0 : 1;
      meter.change(event->at, health.healthy(health.domain_of(event->first_gpu)) - healthy_after);
    }
    health.apply(*event);
  }
  for (JobSimulation& job : jobs) result.jobs.push_back(job.finish(horizon));
  result.failed_gpus = meter.finish(horizon);
  return result;
}

}  // namespace ntpsim::sim
