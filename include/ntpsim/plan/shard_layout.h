#pragma once

#include <cstdint>

namespace ntpsim::plan {

/// Half-open range of units (attention heads or KV groups, FFN columns, vocabulary rows, experts) of one
/// tensor.
struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
  constexpr bool operator==(const UnitRange&) const = default;
};

/// One tensor cut along one dimension into `units` that stay whole, over `degree` ranks, contiguously and
/// balanced: the first units % degree ranks hold one unit more than the others, and no rank more than
/// ceil(units / degree).
class ShardLayout {
 public:
  /// REQUIRES: units >= 0, degree >= 1.
  ShardLayout(std::int64_t units, int degree);

  [[nodiscard]] std::int64_t units() const { return units_; }
  [[nodiscard]] int degree() const { return degree_; }

  /// The units that `rank` owns; empty when there are more ranks than units. REQUIRES: 0 <= rank < degree.
  [[nodiscard]] UnitRange owned_by(int rank) const;
  /// The rank that owns `unit`. O(1). REQUIRES: 0 <= unit < units.
  [[nodiscard]] int owner_of(std::int64_t unit) const;

  /// Units on the fullest rank: ceil(units / degree). The step time follows it.
  [[nodiscard]] std::int64_t max_units() const;
  /// Fullest rank over the mean, at least 1; 1 for a tensor without units.
  [[nodiscard]] double load() const;

 private:
  std::int64_t units_;
  int degree_;
};

/// What the gradient reshard between a compute layout of degree `compute_degree` and a sync layout of degree
/// `sync_degree` moves, per tensor, in units. Each of the extra ranks (compute minus sync degree) sends its
/// whole shard to the core ranks before the data-parallel sync and gets it back afterwards: nothing less can
/// do, since the reduced replica has no peer for it.
struct ReshardVolume {
  std::int64_t max_sent_by_extra = 0;     ///< units, by the fullest extra rank
  std::int64_t max_received_by_core = 0;  ///< units, by the fullest core rank
};

/// REQUIRES: 1 <= sync_degree <= compute_degree, units >= 0. O(1).
[[nodiscard]] ReshardVolume reshard_volume(std::int64_t units, int compute_degree, int sync_degree);

}  // namespace ntpsim::plan
