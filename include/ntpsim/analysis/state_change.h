#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/plan/rank_placement.h"

namespace ntpsim::analysis {

/// Bytes that a job's state moves over one kind of network.
struct StateTraffic {
  std::int64_t total_bytes = 0;
  std::int64_t bottleneck_bytes = 0;  ///< sent or received by the busiest GPU
  /// Of the bottleneck: what the busiest receiver lacks, and what no plan of a single tensor can beat.
  std::int64_t lower_bound_bytes = 0;
};

/// How one kind of a job's state gets from the GPUs that held it to those that are to hold it.
struct StateChange {
  std::string_view what;  ///< "weights", "optimizer"
  StateTraffic within_domains;
  StateTraffic across_domains;            ///< through network cards
  std::int64_t without_copy_bytes = 0;    ///< no GPU has them any more: from a checkpoint
  std::vector<std::string> without_copy;  ///< which these are, by stage and tensor, in words
};

/// Bytes of an element: 16-bit weights; of the optimizer an FP32 master weight and two moments (Adam).
inline constexpr std::int64_t kWeightBytes = 2;
inline constexpr std::int64_t kOptimizerBytes = 12;

/// Jobs on clusters with more GPUs than this are not planned: it would take many seconds.
inline constexpr std::int64_t kMostGpusOfStateChange = std::int64_t{1} << 18;

/// Plans the moves from a placement to a later one of the same job, whose failed GPUs have lost what they
/// held (`plan::plan_moves`). With the distributed optimizer its state is cut over data parallelism, tensor
/// by tensor, and has no copies. Layers are spread evenly over pipeline stages. Experts are left out unless
/// those of a layer fill just a TP group. O(n log n) in the GPUs of the job, for each stage and tensor.
/// REQUIRES: the same shape but for the number of replicas, and the same domains; at most
/// kMostGpusOfStateChange GPUs.
[[nodiscard]] std::vector<StateChange> plan_state_change(const models::TransformerSpec& model,
                                                         const models::TrainingSpec& training,
                                                         const plan::RankPlacement& before,
                                                         const plan::RankPlacement& after);

}  // namespace ntpsim::analysis
