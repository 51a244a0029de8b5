#include "ntpsim/models/replica_groups.h"

#include <algorithm>

namespace ntpsim::models {

ReplicaGroups replica_groups(const TrainingSpec& training, std::int64_t domain_size) {
  const std::int64_t replicas = training.data_parallel_size * training.context_parallel_size;
  const std::int64_t tp = training.tensor_model_parallel_size;
  const std::int64_t holders = training.expert_model_parallel_size * training.expert_tensor_parallel_size;
  return {.dense = span_of(replicas, tp, domain_size),
          .experts = span_of(std::max<std::int64_t>(replicas * tp / holders, 1), holders, domain_size)};
}

}  // namespace ntpsim::models
