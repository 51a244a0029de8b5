#include "ntpsim/plan/reshard_plan.h"

#include <algorithm>
#include <cstddef>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
namespace {

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

// Appends units that move, and lengthens the last transfer where they continue it.
void append(std::vector<Transfer>& transfers, const Transfer& next) {
  if (!transfers.empty()) {
    Transfer& last = transfers.back();
    if (last.from == next.from && last.to == next.to && last.units.end == next.units.begin) {
      last.units.end = next.units.end;
      return;
    }
  }
  transfers.push_back(next);
}

}  // namespace

ReshardPlan::ReshardPlan(const ShardLayout& from, const ShardLayout& to)
    : sent_(at(std::max(from.degree(), to.degree()))), received_(sent_.size()) {
  invariant(from.units() == to.units(), "both layouts cut the same tensor");
  transfers_.reserve(std::max(from.ranges().size(), to.ranges().size()));
  auto source = from.ranges().begin();
  auto target = to.ranges().begin();
  for (std::int64_t unit = 0; unit < from.units();) {
    const std::int64_t end = std::min(source->units.end, target->units.end);
    if (source->rank != target->rank) append(transfers_, {source->rank, target->rank, {unit, end}});
    if (source->units.end == end) ++source;
    if (target->units.end == end) ++target;
    unit = end;
  }
  sum_up();
}

void ReshardPlan::sum_up() {
  for (const Transfer& transfer : transfers_) {
    sent_[at(transfer.from)] += transfer.units.size();
    received_[at(transfer.to)] += transfer.units.size();
    total_ += transfer.units.size();
  }
  max_sent_ = std::ranges::max(sent_);
  max_received_ = std::ranges::max(received_);
}

std::int64_t ReshardPlan::sent(int rank) const {
  invariant(rank >= 0 && rank < ranks(), "rank within the plan");
  return sent_[at(rank)];
}

std::int64_t ReshardPlan::received(int rank) const {
  invariant(rank >= 0 && rank < ranks(), "rank within the plan");
  return received_[at(rank)];
}

ReshardPlan ReshardPlan::reversed() const {
  ReshardPlan back = *this;
  for (Transfer& transfer : back.transfers_) std::swap(transfer.from, transfer.to);
  std::swap(back.sent_, back.received_);
  std::swap(back.max_sent_, back.max_received_);
  return back;
}

}  // namespace ntpsim::plan
