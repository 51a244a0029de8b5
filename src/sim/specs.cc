#include "ntpsim/sim/specs.h"

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {

std::int64_t units_of(models::Scope scope, const ClusterSpec& cluster) {
  switch (scope) {
    case models::Scope::kGpu:
      return cluster.gpus;
    case models::Scope::kTray:
      return cluster.gpus / cluster.system.gpus_per_tray;
    case models::Scope::kDomain:
      return cluster.domains();
  }
  invariant_broken("every scope has units", std::source_location::current());
}

}  // namespace ntpsim::sim
