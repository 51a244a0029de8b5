#pragma once

#include <cstdint>

#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/training.h"

namespace ntpsim::models {

/// The ranks that hold the same weights and sync their gradients.
struct ReplicaGroups {
  GroupSpan dense;    ///< data-parallel times context-parallel ranks
  GroupSpan experts;  ///< of routed experts
};

/// TP ranks are next to each other, context- and data-parallel ones follow. REQUIRES: all positive.
[[nodiscard]] ReplicaGroups replica_groups(const TrainingSpec& training, std::int64_t domain_size);

}  // namespace ntpsim::models
