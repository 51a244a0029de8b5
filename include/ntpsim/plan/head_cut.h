#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/limits.h"
#include "ntpsim/plan/reshard_plan.h"
#include "ntpsim/plan/shard_layout.h"

// How attention heads are cut. With grouped-query attention several query heads share one key/value (KV)
// group. As long as the TP degree is at most the number of groups, a group and its query heads stay together
// and the group is the unit. Beyond, query heads are the units and every rank holds a copy of each KV group
// that its heads need, as in Megatron. The full degree of the job decides, so that all its TP groups cut
// alike.

namespace ntpsim::plan {

/// The unit of attention's tensors in a job.
struct HeadCut {
  std::int64_t heads = 1;   ///< query heads
  std::int64_t groups = 1;  ///< KV groups; heads without grouped-query attention
  bool copies_groups = false;

  /// REQUIRES: 1 <= groups, groups divides heads, full_degree >= 1.
  HeadCut(std::int64_t heads, std::int64_t groups, int full_degree);
  /// The same for arguments that may be wrong. Errors: heads outside [1, kMaxHeads], groups outside
  /// [1, heads] or no divisor of the heads, full_degree outside [1, kMaxDegree].
  [[nodiscard]] static Result<HeadCut> make(std::int64_t heads, std::int64_t groups, int full_degree);

  [[nodiscard]] std::int64_t units() const { return copies_groups ? heads : groups; }
  [[nodiscard]] std::int64_t heads_per_group() const { return heads / groups; }
  [[nodiscard]] std::int64_t heads_per_unit() const { return copies_groups ? 1 : heads_per_group(); }
};

/// Which rank holds copies of which KV groups when heads are cut one by one. A value.
class GroupCopies {
 public:
  /// `heads`: a layout of query heads. REQUIRES: heads_per_group divides its units. O(ranges).
  GroupCopies(const ShardLayout& heads, std::int64_t heads_per_group);

  /// The groups that the heads of a rank need, ascending and not adjacent. REQUIRES: 0 <= rank < degree.
  [[nodiscard]] std::span<const UnitRange> groups_of(int rank) const;
  /// How many they are. REQUIRES: 0 <= rank < degree.
  [[nodiscard]] std::int64_t count_of(int rank) const;
  [[nodiscard]] int degree() const { return static_cast<int>(by_rank_.size()); }

 private:
  std::vector<std::vector<UnitRange>> by_rank_;
};

/// How the gradients of copied KV groups meet before the data-parallel sync. The copies of a group form a
/// chain that ends at the group's home, the core rank that syncs the group's first head: each rank adds its
/// own gradient to what it has received and passes the sum on. Afterwards the synced gradient takes the chain
/// back. So no rank sends or receives a group more than once; cut into pieces, all links are busy at once. In
/// groups, by ascending group and then in the order of the chain. A whole job does the same within each TP
/// group. REQUIRES: `copies` and `sync` are of layouts of the same heads.
[[nodiscard]] std::vector<Transfer> gather_group_copies(const GroupCopies& copies, const ShardLayout& sync,
                                                        std::int64_t heads_per_group);

}  // namespace ntpsim::plan
