#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/plan/shard_layout.h"

namespace ntpsim::plan {

/// Units of one tensor that go from one rank to another.
struct Transfer {
  int from = 0;
  int to = 0;
  UnitRange units;

  bool operator==(const Transfer&) const = default;
};

/// What moves when one tensor changes from one layout to another over the same ranks: rank i of both layouts
/// is the same process. Units whose owner stays the same do not move. A value.
class ReshardPlan {
 public:
  /// REQUIRES: both layouts have the same units. O(ranges of both).
  ReshardPlan(const ShardLayout& from, const ShardLayout& to);

  /// Ranks of the larger of the two layouts.
  [[nodiscard]] int ranks() const { return static_cast<int>(sent_.size()); }
  /// In unit order; no two neighbours could be one. Every unit that moves is in exactly one of them.
  [[nodiscard]] std::span<const Transfer> transfers() const { return transfers_; }
  /// Units that a rank sends. REQUIRES: 0 <= rank < ranks.
  [[nodiscard]] std::int64_t sent(int rank) const;
  /// Units that a rank receives. REQUIRES: 0 <= rank < ranks.
  [[nodiscard]] std::int64_t received(int rank) const;
  [[nodiscard]] std::int64_t max_sent() const { return max_sent_; }
  [[nodiscard]] std::int64_t max_received() const { return max_received_; }
  /// The longer of the two: ports are full duplex, so the time of the reshard follows it.
  [[nodiscard]] std::int64_t bottleneck() const {
    return max_sent_ > max_received_ ? max_sent_ : max_received_;
  }
  /// Units that move.
  [[nodiscard]] std::int64_t total() const { return total_; }

  /// The way back: the same transfers with sender and receiver exchanged.
  [[nodiscard]] ReshardPlan reversed() const;

  bool operator==(const ReshardPlan&) const = default;

 private:
  void sum_up();

  std::vector<Transfer> transfers_;
  std::vector<std::int64_t> sent_;      // by rank
  std::vector<std::int64_t> received_;  // by rank
  std::int64_t max_sent_ = 0;
  std::int64_t max_received_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace ntpsim::plan
