#include "ntpsim/plan/shard_layout.h"

#include <algorithm>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

ShardLayout::ShardLayout(std::int64_t units, int degree) : units_(units), degree_(degree) {
  invariant(units >= 0 && degree >= 1, "a layout needs a degree of at least 1 and no negative units");
}

UnitRange ShardLayout::owned_by(int rank) const {
  invariant(rank >= 0 && rank < degree_, "rank within the layout");
  const std::int64_t base = units_ / degree_;
  const std::int64_t larger = units_ % degree_;
  const std::int64_t begin = rank * base + std::min<std::int64_t>(rank, larger);
  return {begin, begin + base + (rank < larger ? 1 : 0)};
}

int ShardLayout::owner_of(std::int64_t unit) const {
  invariant(unit >= 0 && unit < units_, "unit within the tensor");
  const std::int64_t base = units_ / degree_;
  const std::int64_t larger = units_ % degree_;
  const std::int64_t in_larger = larger * (base + 1);
  const std::int64_t rank = unit < in_larger ? unit / (base + 1) : larger + (unit - in_larger) / base;
  return static_cast<int>(rank);
}

std::int64_t ShardLayout::max_units() const {
  return ceil_div(units_, degree_);
}

double ShardLayout::load() const {
  if (units_ == 0) return 1;
  return static_cast<double>(max_units()) * degree_ / static_cast<double>(units_);
}

ReshardVolume reshard_volume(std::int64_t units, int compute_degree, int sync_degree) {
  invariant(sync_degree >= 1 && sync_degree <= compute_degree, "sync degree at most the compute degree");
  if (sync_degree == compute_degree) return {};
  const std::int64_t shard = ShardLayout(units, compute_degree).max_units();
  const std::int64_t moved = shard * (compute_degree - sync_degree);
  return {shard, ceil_div(moved, sync_degree)};
}

}  // namespace ntpsim::plan
