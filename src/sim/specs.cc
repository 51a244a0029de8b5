#include "ntpsim/sim/specs.h"

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {

int gpus_of(models::Scope scope, const models::SystemSpec& system) {
  switch (scope) {
    case models::Scope::kGpu:
      return 1;
    case models::Scope::kTray:
      return system.gpus_per_tray;
    case models::Scope::kDomain:
      return system.domain_size;
  }
  invariant_broken("every scope has a size", std::source_location::current());
}

std::int64_t units_of(models::Scope scope, const ClusterSpec& cluster) {
  return cluster.gpus / gpus_of(scope, cluster.system);
}

}  // namespace ntpsim::sim
