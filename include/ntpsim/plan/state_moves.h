#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/reshard_plan.h"
#include "ntpsim/plan/shard_layout.h"

// Moving weights, gradients and optimizer state from any layout to any other: down after a failure, back
// after a repair, across data parallelism. A rank gets what it lacks from a peer that has it, else from a
// checkpoint, else it is named as lost.
//
// Indices are units of the layouts, or elements where a builder scales units by `unit_elements`; the planner
// does not care which. Ranks are global.

namespace ntpsim::plan {

/// Who holds which indices of one tensor, or of one flat buffer, of `size` indices. Several ranks may hold
/// the same index (data-parallel copies), and an index may be held by nobody. A value.
class Placement {
 public:
  /// From ranges in any order; adjacent ranges of one rank are merged. An error names each range that is
  /// empty, leaves [0, size), has a negative rank or overlaps another of the same rank. Ranges of more than
  /// 2^63 - 1 indices in all are an error too, so that no sum over a placement overflows. O(n log n).
  [[nodiscard]] static Result<Placement> from_ranges(std::int64_t size, std::vector<OwnedRange> ranges);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// All ranges, by rank and then ascending.
  [[nodiscard]] std::span<const OwnedRange> ranges() const { return ranges_; }
  /// The ranges of one rank, ascending; none when it holds nothing. O(log n).
  [[nodiscard]] std::span<const OwnedRange> ranges_of(int rank) const;

  /// The copies that survive when these ranks are gone. They may be in any order, and need hold nothing.
  /// O(n log ranks).
  [[nodiscard]] Placement without(std::span<const int> ranks) const;

  bool operator==(const Placement&) const = default;

 private:
  Placement(std::int64_t size, std::vector<OwnedRange> ranges);

  std::int64_t size_;
  std::vector<OwnedRange> ranges_;  // by (rank, begin), neighbours of one rank merged
};

/// One data-parallel replica of a tensor: TP rank i of the layout is global rank ranks[i].
struct ReplicaShards {
  ShardLayout layout;
  std::vector<int> ranks;
};

/// Every replica holds the tensor once, each in its own layout: a healthy replica at degree 32 beside a hurt
/// one at 30. Each unit is `unit_elements` indices. An error when there is no replica, when replicas differ
/// in units, when a list of ranks does not fit its layout, and as for `Placement::from_ranges`. O(n log n).
[[nodiscard]] Result<Placement> replicated(std::span<const ReplicaShards> replicas,
                                           std::int64_t unit_elements = 1);

/// The same with one layout for all replicas: TP rank i of replica r is global rank ranks[r][i]. Without
/// replicas nobody holds anything.
[[nodiscard]] Result<Placement> replicated(const ShardLayout& layout, std::span<const std::vector<int>> ranks,
                                           std::int64_t unit_elements = 1);

/// Megatron's distributed optimizer: the shard of sync position j (its ranges one after the other, in
/// elements) is cut evenly over the ranks that sync it, the first ones holding one element more. ranks[d][j]
/// is the d-th rank, of DP x CP, for position j. The pieces are contiguous in the shard, so one may be
/// several ranges. Errors as for `replicated`. O(n log n).
[[nodiscard]] Result<Placement> distributed_optimizer(const ShardLayout& sync,
                                                      std::span<const std::vector<int>> ranks,
                                                      std::int64_t unit_elements = 1);

struct MoveOptions {
  bool checkpoint_available = false;
  /// The scale-up domain of each rank. Empty: every rank is a domain of its own.
  std::span<const int> domain_of;
};

/// Indices that no surviving rank holds, and the ranks that want them, ascending.
struct WantedRange {
  UnitRange units;
  std::vector<int> ranks;

  bool operator==(const WantedRange&) const = default;
};

/// What a plan moves over one network, in indices.
struct MoveTraffic {
  std::int64_t total = 0;
  std::int64_t max_sent = 0;      ///< by the busiest sender
  std::int64_t max_received = 0;  ///< by the busiest receiver
  /// No choice of sources within the same network has a smaller bottleneck: some rank must receive this much,
  /// or some set of ranks must send so much, being the only holders, that one of them sends this much.
  std::int64_t lower_bound = 0;

  /// The longer of the two: ports are full duplex, so the time follows it. Always equal to the lower bound.
  [[nodiscard]] std::int64_t bottleneck() const { return max_sent > max_received ? max_sent : max_received; }
  bool operator==(const MoveTraffic&) const = default;
};

/// How the ranks get what they want. Every wanted index of every rank is in exactly one of the four lists.
struct MovePlan {
  /// What stays where it is, by rank and then ascending.
  std::vector<OwnedRange> kept;
  /// By receiver and then ascending; no two neighbours could be one.
  std::vector<Transfer> transfers;
  /// Ascending and without overlap; no two neighbours could be one. Empty without a checkpoint.
  std::vector<WantedRange> checkpoint_reads;
  /// The same, with no copy anywhere. Empty with a checkpoint.
  std::vector<WantedRange> lost;
  MoveTraffic within_domains;  ///< over the scale-up network
  MoveTraffic across_domains;  ///< what network cards carry; all transfers when no domains are given

  /// `plan_moves` for arguments that may be wrong. An error says which of its requirements do not hold.
  [[nodiscard]] static Result<MovePlan> make(const Placement& have, const Placement& want,
                                             const MoveOptions& options = {});

  bool operator==(const MovePlan&) const = default;
};

/// Plans the moves from what ranks have to what they want. `have` is what survives (`Placement::without`).
///
/// A rank keeps what it has. What it lacks comes from holders in its own domain where there are any, else
/// from holders anywhere; the copies may be split between holders. Under this rule the plan is optimal: both
/// networks have the smallest possible bottleneck. Senders are balanced as far as the bottleneck asks for it;
/// below it, fewer and larger transfers are better than more even ones.
///
/// Every copy is sent from a rank of `have`: a broadcast to k ranks counts k times (no multicast), and a rank
/// that receives a range is no source for it (no pipelining). Transfers read the old buffers, so old and new
/// buffers exist side by side.
///
/// Method: the choice of sources is a flow from missing ranges to holders, of a capacity equal to the
/// bottleneck. The capacity starts at what the busiest receiver needs; a greedy choice (the source of the
/// neighbouring range, else the least loaded holder) is completed by Dinic's maximum flow. A flow that falls
/// short has a minimum cut: ranges that only some holders have, too many for the capacity. It rises to their
/// mean load, a lower bound, until all is served (Newton's method, as in Radzik, "Fractional combinatorial
/// optimization", 1998).
///
/// O(n log n + p log p) for n ranges and the p pairs of a missing range, cut where its holders change, with
/// a rank that has or lacks it, plus the flow, which is rarely more than a few passes over the pairs. Memory
/// O(n + p).
/// REQUIRES: both placements have the same size; `domain_of` is empty or covers every rank of both.
[[nodiscard]] MovePlan plan_moves(const Placement& have, const Placement& want,
                                  const MoveOptions& options = {});

/// "units [120, 128) and [130, 131) have no surviving copy", whoever wants them; names the first 8 ranges and
/// counts the others. `noun` says what an index is. Empty when nothing is lost.
[[nodiscard]] std::string describe_lost(std::span<const WantedRange> lost, std::string_view noun);

}  // namespace ntpsim::plan
