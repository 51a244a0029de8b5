#pragma once

#include <cstdint>

// How much the `make` functions of the planner accept. Within these limits no sum or product overflows and
// each call ends: the dearest, a placement of `kMaxGpus` TP groups of one GPU each, takes about 20 seconds
// and 8 GB. (Moves take what `plan_moves` says.) Constructors do not look at the limits.

namespace ntpsim::plan {

inline constexpr std::int64_t kMaxUnits = std::int64_t{1} << 62;  ///< of one tensor
inline constexpr int kMaxDegree = 1 << 20;                        ///< ranks that cut one tensor
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 20;  ///< query heads
inline constexpr int kMaxDomainSize = 1 << 12;                    ///< GPUs
inline constexpr std::int64_t kMaxGpus = std::int64_t{1} << 25;   ///< of a cluster

}  // namespace ntpsim::plan
