#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/limits.h"

namespace ntpsim::plan {

/// Half-open range of units (attention heads or KV groups, FFN columns, vocabulary rows, experts) of one
/// tensor.
struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
  constexpr bool operator==(const UnitRange&) const = default;
};

/// A range of units and the rank that owns it.
struct OwnedRange {
  UnitRange units;
  int rank = 0;

  constexpr bool operator==(const OwnedRange&) const = default;
};

/// Units on the fullest rank of a balanced cut: ceil(units / degree). The step time follows it.
/// REQUIRES: units >= 0, degree >= 1.
[[nodiscard]] std::int64_t max_units(std::int64_t units, std::int64_t degree);

/// Which rank of a TP group owns which units of one tensor. The tensor is cut along one dimension into
/// `units` that stay whole; every unit has exactly one owner, and a rank may own several ranges, or none. A
/// rank stores its ranges one after the other in ascending order.
///
/// A value: copies are independent, and equal layouts compare equal.
class ShardLayout {
 public:
  /// Contiguous and balanced: the first units % degree ranks own one unit more than the others, and none more
  /// than `max_units`. REQUIRES: units >= 0, degree >= 1. O(degree).
  ShardLayout(std::int64_t units, int degree);
  /// The same for arguments that may be wrong. Errors: units outside [0, kMaxUnits], degree outside
  /// [1, kMaxDegree].
  [[nodiscard]] static Result<ShardLayout> make(std::int64_t units, int degree);

  /// Any layout, from ranges in any order; adjacent ranges of one rank are merged. An error names each range
  /// that is empty, overlaps another, leaves a gap, or has a rank outside [0, degree); others are as for
  /// `make`. O(n log n).
  [[nodiscard]] static Result<ShardLayout> from_ranges(std::int64_t units, int degree,
                                                       std::vector<OwnedRange> ranges);

  [[nodiscard]] std::int64_t units() const { return units_; }
  [[nodiscard]] int degree() const { return degree_; }

  /// All ranges in unit order; neighbours have different owners.
  [[nodiscard]] std::span<const OwnedRange> ranges() const { return ranges_; }
  /// The ranges of one rank, ascending; none when it owns nothing. REQUIRES: 0 <= rank < degree.
  [[nodiscard]] std::span<const UnitRange> ranges_of(int rank) const;
  /// How many units the rank owns. REQUIRES: 0 <= rank < degree.
  [[nodiscard]] std::int64_t units_of(int rank) const;
  /// The rank that owns `unit`. O(log ranges). REQUIRES: 0 <= unit < units.
  [[nodiscard]] int owner_of(std::int64_t unit) const;
  /// Where its owner stores `unit`: how many of the owner's units come before it. O(log ranges + the
  /// owner's ranges).
  /// REQUIRES: 0 <= unit < units.
  [[nodiscard]] std::int64_t offset_of(std::int64_t unit) const;

  /// Units on the fullest rank.
  [[nodiscard]] std::int64_t max_units() const;
  /// Fullest rank over the mean, at least 1; 1 for a tensor without units.
  [[nodiscard]] double load() const;

  bool operator==(const ShardLayout&) const = default;

 private:
  friend class LayoutBuilder;  // for layouts that are right by construction

  /// Ranges that cut the tensor, in any order.
  ShardLayout(std::int64_t units, int degree, std::vector<OwnedRange> ranges);
  void index_by_rank();

  std::int64_t units_;
  int degree_;
  std::vector<OwnedRange> ranges_;       // in unit order, neighbours merged
  std::vector<UnitRange> rank_ranges_;   // by rank, ascending
  std::vector<std::size_t> rank_begin_;  // rank -> its first range; one more entry than ranks
};

}  // namespace ntpsim::plan
