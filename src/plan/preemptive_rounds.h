#pragma once

#include <cstdint>

#include "ntpsim/plan/transfer_schedule.h"

namespace ntpsim::plan {

/// Rounds of pieces cut at multiples of `unit` bytes, of at most `budget` units together. Leaves objective
/// and lower bound to the caller. At most messages + 2 ranks rounds.
/// REQUIRES: unit >= 1; no rank sends or receives more than `budget` units, messages rounded up to units.
[[nodiscard]] Rounds preemptive_rounds(const Traffic& traffic, std::int64_t unit, std::int64_t budget);

}  // namespace ntpsim::plan
