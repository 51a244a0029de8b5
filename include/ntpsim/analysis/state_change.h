#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/plan/rank_placement.h"

namespace ntpsim::analysis {

/// How one kind of a job's state gets from the GPUs that held it to those that are to hold it. Bytes; those
/// of ranks are summed over tensors, which move one after the other.
struct StateChange {
  std::string_view what;  ///< "weights", "optimizer"
  std::int64_t from_peers_bytes = 0;
  std::int64_t within_domains_bottleneck_bytes = 0;  ///< of the busiest rank, sent or received
  std::int64_t across_domains_bottleneck_bytes = 0;  ///< the same, through network cards
  std::int64_t lower_bound_bytes = 0;                ///< of the two added up
  std::int64_t without_copy_bytes = 0;               ///< no GPU has them any more: from a checkpoint
};

/// Bytes of an element: 16-bit weights; of the optimizer an FP32 master weight and two moments (Adam).
inline constexpr std::int64_t kWeightBytes = 2;
inline constexpr std::int64_t kOptimizerBytes = 12;

/// Plans the moves from a placement to a later one of the same job, whose failed GPUs have lost what they
/// held (`plan::plan_moves`). With the distributed optimizer its state is cut over data parallelism, tensor
/// by tensor, and has no copies. Layers are spread evenly over pipeline stages. Experts are left out where
/// expert-parallel groups span replicas. O(n log n) in the GPUs of the job, for each stage and tensor.
/// REQUIRES: the same shape but for the number of replicas, and the same domains.
[[nodiscard]] std::vector<StateChange> plan_state_change(const models::TransformerSpec& model,
                                                         const models::TrainingSpec& training,
                                                         const plan::RankPlacement& before,
                                                         const plan::RankPlacement& after);

}  // namespace ntpsim::analysis
