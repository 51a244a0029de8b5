#pragma once

#include <cstdint>
#include <span>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/limits.h"
#include "ntpsim/plan/reshard_plan.h"
#include "ntpsim/plan/shard_layout.h"

// Gradient sync of one tensor of U units in a job whose TP groups have different degrees.
//
// All replicas reduce gradients over one *sync layout* of degree m: balanced, one shard a *core rank*, so
// that core rank i reduces with core rank i of every other replica. A TP group of a higher degree k has k - m
// *extra ranks*. Its *compute layout* is derived from the sync layout: core rank i keeps the first
// min(s_i, M) units of its sync shard of s_i units, M = ceil(U / k) being what balance allows, and the extra
// ranks take the rest, as evenly as whole units allow. Before the data-parallel sync (pre-sync) extra ranks
// send their gradients to the core ranks, which then hold their sync shards whole; afterwards (post-sync) the
// extra ranks get the synced gradients back. In a transformer block any order of a tensor's units is right
// when its partner's units follow the same order, so replicas may compute in these layouts.
//
// Units are numbered so that the groups of the full degree compute on consecutive ones. A core rank's sync
// shard is then what it computes on in a whole group, followed by what it takes over of the extra ranks'
// units, and both replicas store it in this order: the reduction is contiguous on either side. Where the full
// degree divides the units, whole groups compute on the same units whatever happens to other groups; a
// failure elsewhere moves none of their weights.
//
// Bound: whatever the layouts, the m core ranks hold at most m M units, so at least X = max(0, U - m M) units
// are on extra ranks and must move. Some extra rank sends at least ceil(X / (k - m)), some core rank receives
// at least ceil(X / m). The plan reaches both: with M <= floor(U / m) every core rank keeps exactly M, and
// otherwise M = ceil(U / m) and nothing moves. Where units do not divide, this can leave extra ranks without
// work that the fullest rank would have to wait for anyway.
//
// The least degree of the job is the best sync degree: X, both bounds and the largest sync shard ceil(U / m)
// never rise with m, and a higher m would give some core rank of the least replica two shards to sync.

namespace ntpsim::plan {

/// What a reshard between compute and sync layout moves, in units.
struct SyncTraffic {
  std::int64_t max_sent = 0;      ///< by an extra rank
  std::int64_t max_received = 0;  ///< by a core rank
  std::int64_t total = 0;

  /// Ports are full duplex, so the time of the reshard follows the longer of the two.
  [[nodiscard]] std::int64_t bottleneck() const { return max_sent > max_received ? max_sent : max_received; }
  bool operator==(const SyncTraffic&) const = default;
};

/// What these transfers move. REQUIRES: ranks >= 1, all of them in [0, ranks). O(transfers + ranks).
[[nodiscard]] SyncTraffic traffic_of(std::span<const Transfer> transfers, int ranks);

/// The least that any pair of layouts can move when no rank computes on more than ceil(units /
/// compute_degree) and none syncs more than ceil(units / sync_degree); `SyncPlan` moves just that. O(1).
/// REQUIRES: units >= 0, 1 <= sync_degree <= compute_degree.
[[nodiscard]] SyncTraffic sync_traffic(std::int64_t units, int compute_degree, int sync_degree);

/// The sync layout of degree `sync_degree` in a job whose whole TP groups have `full_degree`: what a group of
/// the sync degree computes on. O(sync_degree). REQUIRES: units >= 0, 1 <= sync_degree <= full_degree.
[[nodiscard]] ShardLayout sync_layout(std::int64_t units, int full_degree, int sync_degree);

/// The layouts of one tensor in TP groups of one degree, and the reshards between them. Ranks are positions
/// within the TP group: core ranks 0 to sync_degree - 1, then extra ranks. Which GPU holds which position is
/// for the rank placement to say, so failed GPUs may be any. A value.
class SyncPlan {
 public:
  /// REQUIRES: units >= 0, 1 <= sync_degree <= compute_degree <= full_degree. O(n log n) for n =
  /// compute_degree.
  SyncPlan(std::int64_t units, int full_degree, int compute_degree, int sync_degree);
  /// The same for arguments that may be wrong. Errors: units outside [0, kMaxUnits], full_degree outside
  /// [1, kMaxDegree], compute_degree outside [1, full_degree], sync_degree outside [1, compute_degree].
  [[nodiscard]] static Result<SyncPlan> make(std::int64_t units, int full_degree, int compute_degree,
                                             int sync_degree);

  [[nodiscard]] const ShardLayout& compute() const { return compute_; }
  [[nodiscard]] const ShardLayout& sync() const { return sync_; }
  /// From compute to sync layout: extra ranks send, core ranks receive, in at most compute_degree - 1
  /// messages: most core ranks deal with one extra rank only.
  [[nodiscard]] const ReshardPlan& pre_sync() const { return pre_sync_; }
  /// The way back.
  [[nodiscard]] ReshardPlan post_sync() const { return pre_sync_.reversed(); }

  /// Units that the busiest rank sends or receives.
  [[nodiscard]] std::int64_t objective() const { return pre_sync_.bottleneck(); }
  /// The least possible objective. O(1).
  [[nodiscard]] std::int64_t lower_bound() const {
    return sync_traffic(sync_.units(), compute_.degree(), sync_.degree()).bottleneck();
  }

  bool operator==(const SyncPlan&) const = default;

 private:
  ShardLayout sync_;
  ShardLayout compute_;
  ReshardPlan pre_sync_;
};

/// The degree to sync at in a job whose TP groups have these degrees: the least of them. Every group computes
/// at its own degree. REQUIRES: at least one degree.
[[nodiscard]] int sync_degree_of(std::span<const int> degrees);

}  // namespace ntpsim::plan
