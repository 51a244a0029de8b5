#include "ntpsim/plan/shard_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "errors.h"

namespace ntpsim::plan {
namespace {

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

std::string text(const OwnedRange& range) {
  return "units [" + std::to_string(range.units.begin) + ", " + std::to_string(range.units.end) +
         ") of rank " + std::to_string(range.rank);
}

Diagnostics errors_of(std::int64_t units, int degree) {
  Diagnostics errors;
  check_range(errors, "units", units, 0, kMaxUnits);
  check_range(errors, "degree", degree, 1, kMaxDegree);
  return errors;
}

Diagnostics errors_of(std::int64_t units, int degree, const std::vector<OwnedRange>& sorted) {
  Diagnostics errors = errors_of(units, degree);
  if (errors.has_errors()) return errors;
  const auto error = [&errors](std::string message) { add_error(errors, std::move(message)); };
  std::int64_t next = 0;
  for (const OwnedRange& range : sorted) {
    if (range.rank < 0 || range.rank >= degree) {
      error(text(range) + ": expected a rank from 0 to " + std::to_string(degree - 1));
    }
    if (range.units.begin < 0 || range.units.begin >= range.units.end || range.units.end > units) {
      error(text(range) + ": expected a range that is not empty, within [0, " + std::to_string(units) + ")");
      continue;
    }
    if (range.units.begin < next) error(text(range) + ": overlaps a range before it");
    if (range.units.begin > next) {
      error("units [" + std::to_string(next) + ", " + std::to_string(range.units.begin) + ") have no owner");
    }
    next = std::max(next, range.units.end);
  }
  if (next < units) {
    error("units [" + std::to_string(next) + ", " + std::to_string(units) + ") have no owner");
  }
  return errors;
}

void sort_by_units(std::vector<OwnedRange>& ranges) {
  std::ranges::sort(ranges, {},
                    [](const OwnedRange& range) { return std::pair(range.units.begin, range.units.end); });
}

void merge_neighbours(std::vector<OwnedRange>& sorted) {
  if (sorted.empty()) return;
  auto last = sorted.begin();
  for (const OwnedRange& range : std::span(sorted).subspan(1)) {
    if (range.rank == last->rank) {
      last->units.end = range.units.end;
    } else {
      *++last = range;
    }
  }
  sorted.erase(last + 1, sorted.end());
}

}  // namespace

std::int64_t max_units(std::int64_t units, std::int64_t degree) {
  invariant(units >= 0 && degree >= 1, "a tensor has no negative units and at least one rank");
  return units / degree + (units % degree != 0 ? 1 : 0);
}

ShardLayout::ShardLayout(std::int64_t units, int degree) : units_(units), degree_(degree) {
  invariant(units >= 0 && degree >= 1, "a tensor has no negative units and at least one rank");
  const std::int64_t base = units / degree;
  const std::int64_t longer = units % degree;
  ranges_.reserve(at(degree));
  std::int64_t next = 0;
  for (int rank = 0; rank < degree && next < units; ++rank) {
    const std::int64_t size = base + (rank < longer ? 1 : 0);
    ranges_.push_back({{next, next + size}, rank});
    next += size;
  }
  index_by_rank();
}

ShardLayout::ShardLayout(std::int64_t units, int degree, std::vector<OwnedRange> ranges)
    : units_(units), degree_(degree), ranges_(std::move(ranges)) {
  sort_by_units(ranges_);
  merge_neighbours(ranges_);
  index_by_rank();
}

Result<ShardLayout> ShardLayout::make(std::int64_t units, int degree) {
  Diagnostics errors = errors_of(units, degree);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return ShardLayout(units, degree);
}

Result<ShardLayout> ShardLayout::from_ranges(std::int64_t units, int degree, std::vector<OwnedRange> ranges) {
  sort_by_units(ranges);
  Diagnostics errors = errors_of(units, degree, ranges);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return ShardLayout(units, degree, std::move(ranges));
}

// Counting sort by rank; it keeps the unit order within a rank.
void ShardLayout::index_by_rank() {
  rank_begin_.assign(at(degree_) + 1, 0);
  for (const OwnedRange& range : ranges_) ++rank_begin_[at(range.rank) + 1];
  for (std::size_t rank = 0; rank < at(degree_); ++rank) rank_begin_[rank + 1] += rank_begin_[rank];
  rank_ranges_.resize(ranges_.size());
  for (const OwnedRange& range : ranges_) rank_ranges_[rank_begin_[at(range.rank)]++] = range.units;
  for (std::size_t rank = at(degree_); rank > 0; --rank) rank_begin_[rank] = rank_begin_[rank - 1];
  rank_begin_[0] = 0;
}

std::span<const UnitRange> ShardLayout::ranges_of(int rank) const {
  invariant(rank >= 0 && rank < degree_, "rank within the layout");
  const std::size_t begin = rank_begin_[at(rank)];
  return std::span(rank_ranges_).subspan(begin, rank_begin_[at(rank) + 1] - begin);
}

std::int64_t ShardLayout::units_of(int rank) const {
  std::int64_t sum = 0;
  for (const UnitRange& range : ranges_of(rank)) sum += range.size();
  return sum;
}

int ShardLayout::owner_of(std::int64_t unit) const {
  invariant(unit >= 0 && unit < units_, "unit within the tensor");
  const auto after =
      std::ranges::upper_bound(ranges_, unit, {}, [](const OwnedRange& range) { return range.units.begin; });
  return std::prev(after)->rank;
}

std::int64_t ShardLayout::offset_of(std::int64_t unit) const {
  std::int64_t offset = 0;
  for (const UnitRange& range : ranges_of(owner_of(unit))) {
    if (unit < range.end) return offset + unit - range.begin;
    offset += range.size();
  }
  invariant_broken("an owner has its unit", std::source_location::current());
}

std::int64_t ShardLayout::max_units() const {
  std::int64_t most = 0;
  for (int rank = 0; rank < degree_; ++rank) most = std::max(most, units_of(rank));
  return most;
}

double ShardLayout::load() const {
  if (units_ == 0) return 1;
  return static_cast<double>(max_units()) * degree_ / static_cast<double>(units_);
}

}  // namespace ntpsim::plan
