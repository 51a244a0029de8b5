#pragma once

#include <cstdint>
#include <vector>

#include "ntpsim/sim/failure_process.h"

namespace ntpsim::sim {

/// Which GPUs are in service. A GPU is out while at least one failure that covers it is unrepaired.
/// Memory: four bytes a GPU and four a domain.
class ClusterHealth {
 public:
  ClusterHealth(std::int64_t domains, int domain_size);

  /// Takes the GPUs of a failure out of service, or puts those of a return back; an interruption changes
  /// nothing.
  void apply(const HealthEvent& event);

  [[nodiscard]] int domain_size() const { return domain_size_; }
  [[nodiscard]] std::int64_t domain_of(std::int64_t gpu) const { return gpu / domain_size_; }
  [[nodiscard]] bool in_service(std::int64_t gpu) const { return out_[static_cast<std::size_t>(gpu)] == 0; }
  /// GPUs of the domain in service.
  [[nodiscard]] int healthy(std::int64_t domain) const { return healthy_[static_cast<std::size_t>(domain)]; }
  /// What `apply` would leave in service of the event's domain.
  [[nodiscard]] int healthy_after(const HealthEvent& event) const;
  /// GPUs of the domain in service with a smaller number than `gpu`. O(domain size).
  [[nodiscard]] int healthy_before(std::int64_t gpu) const;

 private:
  int domain_size_;
  std::vector<std::uint32_t> out_;     // GPU -> unrepaired failures that cover it
  std::vector<std::int32_t> healthy_;  // domain -> GPUs in service
};

}  // namespace ntpsim::sim
