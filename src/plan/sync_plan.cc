#include "ntpsim/plan/sync_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "ntpsim/core/invariant.h"

#include "errors.h"
#include "layout_builder.h"

namespace ntpsim::plan {
namespace {

void require_degrees(int larger, int smaller) {
  invariant(smaller >= 1 && smaller <= larger, "a sync degree is at most the degree it serves");
}

/// Deals units to ranks one after the other, as evenly as whole units allow.
class EvenDeal {
 public:
  EvenDeal(std::int64_t units, int first_rank, int ranks)
      : base_(ranks > 0 ? units / ranks : 0), longer_(ranks > 0 ? units % ranks : 0), rank_(first_rank) {
    room_ = size_of_next();
  }

  void deal(UnitRange units, LayoutBuilder& layout) {
    while (units.size() > 0) {
      while (room_ == 0) advance();
      const std::int64_t end = std::min(units.end, units.begin + room_);
      layout.add({units.begin, end}, rank_);
      room_ -= end - units.begin;
      units.begin = end;
    }
  }

 private:
  void advance() {
    ++rank_;
    ++dealt_;
    room_ = size_of_next();
  }
  [[nodiscard]] std::int64_t size_of_next() const { return base_ + (dealt_ < longer_ ? 1 : 0); }

  std::int64_t base_;
  std::int64_t longer_;
  std::int64_t dealt_ = 0;  // ranks that are full
  int rank_;
  std::int64_t room_ = 0;
};

// Core ranks keep the first units of their sync shards.
ShardLayout compute_layout(const ShardLayout& sync, int compute_degree) {
  require_degrees(compute_degree, sync.degree());
  const std::int64_t most = max_units(sync.units(), compute_degree);
  const std::int64_t on_extra = sync_traffic(sync.units(), compute_degree, sync.degree()).total;
  EvenDeal extra(on_extra, sync.degree(), compute_degree - sync.degree());
  LayoutBuilder layout(sync.units(), compute_degree, 2 * sync.ranges().size());
  for (int rank = 0; rank < sync.degree(); ++rank) {
    std::int64_t room = most;
    for (const UnitRange& range : sync.ranges_of(rank)) {
      const std::int64_t kept = std::min(range.size(), room);
      layout.add({range.begin, range.begin + kept}, rank);
      extra.deal({range.begin + kept, range.end}, layout);
      room -= kept;
    }
  }
  return std::move(layout).build();
}

}  // namespace

SyncTraffic traffic_of(std::span<const Transfer> transfers, int ranks) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> received(sent.size());
  SyncTraffic traffic;
  for (const Transfer& transfer : transfers) {
    sent[static_cast<std::size_t>(transfer.from)] += transfer.units.size();
    received[static_cast<std::size_t>(transfer.to)] += transfer.units.size();
    traffic.total += transfer.units.size();
  }
  traffic.max_sent = std::ranges::max(sent);
  traffic.max_received = std::ranges::max(received);
  return traffic;
}

SyncTraffic sync_traffic(std::int64_t units, int compute_degree, int sync_degree) {
  require_degrees(compute_degree, sync_degree);
  const std::int64_t most = max_units(units, compute_degree);
  if (most >= max_units(units, sync_degree)) return {};
  const std::int64_t on_extra = units - sync_degree * most;
  return {.max_sent = max_units(on_extra, compute_degree - sync_degree),
          .max_received = max_units(on_extra, sync_degree),
          .total = on_extra};
}

// The core ranks' own units come first, then those of the extra ranks, from which each core rank in turn
// fills up its shard.
ShardLayout sync_layout(std::int64_t units, int full_degree, int sync_degree) {
  require_degrees(full_degree, sync_degree);
  const std::int64_t most = max_units(units, full_degree);
  const ShardLayout balanced(units, sync_degree);
  std::int64_t own = 0;
  std::int64_t taken_over = units - sync_traffic(units, full_degree, sync_degree).total;
  LayoutBuilder layout(units, sync_degree, 2 * balanced.ranges().size());
  for (const OwnedRange& shard : balanced.ranges()) {
    const std::int64_t kept = std::min(shard.units.size(), most);
    const std::int64_t others = shard.units.size() - kept;
    layout.add({own, own + kept}, shard.rank);
    layout.add({taken_over, taken_over + others}, shard.rank);
    own += kept;
    taken_over += others;
  }
  return std::move(layout).build();
}

SyncPlan::SyncPlan(std::int64_t units, int full_degree, int compute_degree, int sync_degree)
    : sync_(sync_layout(units, full_degree, sync_degree)),
      compute_(compute_layout(sync_, compute_degree)),
      pre_sync_(compute_, sync_) {
  require_degrees(full_degree, compute_degree);
}

Result<SyncPlan> SyncPlan::make(std::int64_t units, int full_degree, int compute_degree, int sync_degree) {
  Diagnostics errors;
  check_range(errors, "units", units, 0, kMaxUnits);
  const bool full = check_range(errors, "full_degree", full_degree, 1, kMaxDegree);
  const int most = full ? full_degree : kMaxDegree;
  const bool compute =
      check_range(errors, "compute_degree", compute_degree, 1, most, full ? "the full_degree" : "");
  check_range(errors, "sync_degree", sync_degree, 1, compute ? compute_degree : most,
              compute ? "the compute_degree" : "");
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return SyncPlan(units, full_degree, compute_degree, sync_degree);
}

int sync_degree_of(std::span<const int> degrees) {
  invariant(!degrees.empty(), "a job has TP groups");
  return std::ranges::min(degrees);
}

}  // namespace ntpsim::plan
