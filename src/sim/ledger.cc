#include "ntpsim/sim/ledger.h"

#include <numeric>

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {

std::string_view name_of(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames = {
      "GOODPUT",
      "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
      "WASTED_PROGRESS_FROM_DISRUPTION",
      "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
      "PROGRAM_STARTUP",
      "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
      "ELASTIC_SLICE_DOWN",
      "ELASTIC_SCALE_UP",
      "ELASTIC_REINITIALIZATION",
      "degraded_tp",
      "dropped_replicas",
      "straggler_wait",
      "paused",
  };
  return kNames.at(static_cast<std::size_t>(category));
}

void Ledger::move(Category from, Category to, Time span) {
  invariant(span >= Time() && span <= at(from), "only time that is there can move");
  at(from) -= span;
  at(to) += span;
}

Time Ledger::total() const {
  return std::accumulate(spans_.begin(), spans_.end(), Time());
}

}  // namespace ntpsim::sim
