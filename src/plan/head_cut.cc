#include "ntpsim/plan/head_cut.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "errors.h"

namespace ntpsim::plan {

HeadCut::HeadCut(std::int64_t query_heads, std::int64_t kv_groups, int full_degree)
    : heads(query_heads), groups(kv_groups), copies_groups(full_degree > kv_groups) {
  invariant(kv_groups >= 1 && query_heads % kv_groups == 0, "KV groups divide the query heads");
  invariant(full_degree >= 1, "a TP group has a rank");
  if (groups == heads) copies_groups = false;  // a head has its own keys and values
}

Result<HeadCut> HeadCut::make(std::int64_t heads, std::int64_t groups, int full_degree) {
  Diagnostics errors;
  const bool some = check_range(errors, "heads", heads, 1, kMaxHeads);
  const bool fits =
      check_range(errors, "groups", groups, 1, some ? heads : kMaxHeads, some ? "the heads" : "");
  if (some && fits && heads % groups != 0) {
    add_error(errors, "groups: found " + std::to_string(groups) + ", expected a divisor of the " +
                          std::to_string(heads) + " heads");
  }
  check_range(errors, "full_degree", full_degree, 1, kMaxDegree);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return HeadCut(heads, groups, full_degree);
}

GroupCopies::GroupCopies(const ShardLayout& heads, std::int64_t heads_per_group)
    : by_rank_(static_cast<std::size_t>(heads.degree())) {
  invariant(heads_per_group >= 1 && heads.units() % heads_per_group == 0, "KV groups divide the query heads");
  for (const OwnedRange& range : heads.ranges()) {
    auto& groups = by_rank_[static_cast<std::size_t>(range.rank)];
    const UnitRange needed = {range.units.begin / heads_per_group,
                              (range.units.end - 1) / heads_per_group + 1};
    if (!groups.empty() && needed.begin <= groups.back().end) {
      groups.back().end = std::max(groups.back().end, needed.end);
    } else {
      groups.push_back(needed);
    }
  }
}

std::span<const UnitRange> GroupCopies::groups_of(int rank) const {
  invariant(rank >= 0 && rank < degree(), "rank within the layout");
  return by_rank_[static_cast<std::size_t>(rank)];
}

std::int64_t GroupCopies::count_of(int rank) const {
  std::int64_t count = 0;
  for (const UnitRange& range : groups_of(rank)) count += range.size();
  return count;
}

std::vector<Transfer> gather_group_copies(const GroupCopies& copies, const ShardLayout& sync,
                                          std::int64_t heads_per_group) {
  std::vector<std::vector<int>> holders(static_cast<std::size_t>(sync.units() / heads_per_group));
  for (int rank = 0; rank < copies.degree(); ++rank) {
    for (const UnitRange& range : copies.groups_of(rank)) {
      for (std::int64_t group = range.begin; group < range.end; ++group) {
        holders[static_cast<std::size_t>(group)].push_back(rank);
      }
    }
  }
  std::vector<Transfer> gathered;
  for (std::size_t group = 0; group < holders.size(); ++group) {
    const auto first = static_cast<std::int64_t>(group);
    std::vector<int>& chain = holders[group];
    const int home = sync.owner_of(first * heads_per_group);
    std::erase(chain, home);
    chain.push_back(home);
    for (std::size_t i = 1; i < chain.size(); ++i) {
      gathered.push_back({chain[i - 1], chain[i], {first, first + 1}});
    }
  }
  return gathered;
}

}  // namespace ntpsim::plan
