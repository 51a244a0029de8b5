#pragma once

#include <cstdint>

// How much the `make` functions of the planner accept. Within these limits no sum or product overflows, and
// each call takes seconds and a few gigabytes at most. Constructors do not look at them.

namespace ntpsim::plan {

inline constexpr std::int64_t kMaxUnits = std::int64_t{1} << 62;  ///< of one tensor
inline constexpr int kMaxDegree = 1 << 20;                        ///< ranks that cut one tensor
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 20;  ///< query heads
inline constexpr int kMaxDomainSize = 1 << 12;                    ///< GPUs
inline constexpr std::int64_t kMaxGpus = std::int64_t{1} << 25;   ///< of a cluster

}  // namespace ntpsim::plan
