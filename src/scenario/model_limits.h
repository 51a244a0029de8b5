#pragma once

#include <cstdint>

namespace ntpsim::scenario {

// Limits of a model's dimensions, however the model is given. No real model comes near them.
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxWidth = 10'000'000;  ///< of anything in a layer, and the vocabulary
inline constexpr std::int64_t kMaxHeads = 100'000;
inline constexpr std::int64_t kMaxExperts = 100'000;
inline constexpr std::int64_t kMaxWindow = 1'000'000'000;

}  // namespace ntpsim::scenario
