#include "ntpsim/sim/cluster_health.h"

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {

ClusterHealth::ClusterHealth(std::int64_t domains, int domain_size)
    : domain_size_(domain_size),
      out_(static_cast<std::size_t>(domains * domain_size), 0),
      healthy_(static_cast<std::size_t>(domains), domain_size) {}

int ClusterHealth::healthy_after(const HealthEvent& event) const {
  int change = 0;
  for (std::int64_t gpu = event.first_gpu; gpu < event.first_gpu + event.gpus; ++gpu) {
    const std::uint32_t failures = out_[static_cast<std::size_t>(gpu)];
    if (event.kind == HealthEvent::Kind::kFailure && failures == 0) --change;
    if (event.kind == HealthEvent::Kind::kReturn && failures == 1) ++change;
  }
  return healthy(domain_of(event.first_gpu)) + change;
}

void ClusterHealth::apply(const HealthEvent& event) {
  if (event.kind == HealthEvent::Kind::kInterruption) return;
  healthy_[static_cast<std::size_t>(domain_of(event.first_gpu))] = healthy_after(event);
  for (std::int64_t gpu = event.first_gpu; gpu < event.first_gpu + event.gpus; ++gpu) {
    std::uint32_t& failures = out_[static_cast<std::size_t>(gpu)];
    if (event.kind == HealthEvent::Kind::kFailure) {
      ++failures;
    } else {
      invariant(failures > 0, "only a failed GPU returns");
      --failures;
    }
  }
}

int ClusterHealth::healthy_before(std::int64_t gpu) const {
  int count = 0;
  for (std::int64_t other = domain_of(gpu) * domain_size_; other < gpu; ++other)
    count += in_service(other) ? 1 : 0;
  return count;
}

}  // namespace ntpsim::sim
