#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ntpsim/plan/shard_layout.h"

namespace ntpsim::plan {

/// Collects the ranges of a layout that is right by construction: every unit is added exactly once, in any
/// order.
class LayoutBuilder {
 public:
  LayoutBuilder(std::int64_t units, int degree, std::size_t expected_ranges)
      : units_(units), degree_(degree) {
    ranges_.reserve(expected_ranges);
  }

  /// Empty ranges are left out.
  void add(UnitRange units, int rank) {
    if (units.size() > 0) ranges_.push_back({units, rank});
  }

  [[nodiscard]] ShardLayout build() && { return {units_, degree_, std::move(ranges_)}; }

 private:
  std::int64_t units_;
  int degree_;
  std::vector<OwnedRange> ranges_;
};

}  // namespace ntpsim::plan
