#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ntpsim/models/tensor_parallel.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/plan/sync_plan.h"

namespace ntpsim::analysis {

/// How one kind of unit is cut over TP groups of one degree. Tensors with as many units share it, whatever
/// their layer.
struct PlannedCut {
  std::string unit;
  std::int64_t units = 0;
  std::int64_t heads_per_group = 0;  ///< above 0: copies of KV groups, which follow the plan of their heads
  plan::SyncPlan plan;
  /// Of copied KV groups: the chains along which gradients meet (plan/head_cut.h), and who holds what.
  std::vector<plan::Transfer> chains;
  std::vector<std::vector<plan::UnitRange>> held;  ///< by rank
  std::int64_t max_units_per_rank = 0;
  double load = 1;          ///< fullest rank over the mean
  std::int64_t moves = 0;   ///< transfers of a reshard, one way
  std::int64_t rounds = 0;  ///< in which no rank sends or receives twice; of copies, the longest chain
  plan::SyncTraffic moved;  ///< units
  std::int64_t bound = 0;   ///< units; no plan's busiest rank moves less
};

/// One tensor of every layer that has it, in TP groups of one degree. Bytes are those of gradients, of one
/// layer.
struct PlannedTensor {
  models::TpTensor tensor;
  std::int64_t layers = 1;  ///< that have such a tensor
  std::size_t cut = 0;      ///< index into `TensorPlan::cuts`
  std::int64_t unit_bytes = 0;
};

/// A reshard of the whole model, one tensor after the other, in TP groups of one degree.
struct DegreeSummary {
  int degree = 0;
  double load = 1;  ///< weights on the fullest rank of each tensor over an even share of the model
  std::int64_t moves = 0;
  std::int64_t sent_bytes_max = 0;      ///< by the busiest rank, over all tensors and layers
  std::int64_t received_bytes_max = 0;  ///< the same
  std::int64_t total_bytes = 0;
  std::int64_t bottleneck_bytes = 0;   ///< the longer of the two of each tensor, added up
  std::int64_t lower_bound_bytes = 0;  ///< of that
};

/// Layouts and gradient reshards of a model in a job whose TP groups run at several degrees.
struct TensorPlan {
  int full_degree = 0;
  std::vector<int> degrees;  ///< of the job's TP groups, descending, each once, the full degree first
  int sync_degree = 0;
  std::vector<PlannedCut> cuts;
  std::vector<PlannedTensor> tensors;  ///< by degree, then in the order of the forward pass
  std::vector<DegreeSummary> summary;  ///< by degree
};

/// Bytes of one element of a gradient: FP32, as Megatron's main gradients.
inline constexpr std::int64_t kGradientBytes = 4;

/// `(bottleneck - bound) / bound`: 0 for a plan that no other beats, and where nothing moves.
[[nodiscard]] double gap_of(std::int64_t bottleneck, std::int64_t bound);

/// Plans the model. `degrees`: those of the TP groups, in any order. REQUIRES: each in [1, the TP size], at
/// least one. O(cuts * TP size), whatever the number of layers.
[[nodiscard]] TensorPlan plan_tensors(const models::TransformerSpec& model,
                                      const models::TrainingSpec& training, std::span<const int> degrees);

}  // namespace ntpsim::analysis
