#pragma once

#include <concepts>
#include <cstdint>

#include "ntpsim/core/random.h"

namespace ntpsim::testing {

/// A whole number from `low` to `high`, both included.
template <std::integral Low, std::integral High>
[[nodiscard]] auto draw(RandomStream& random, Low low, High high) {
  using Number = decltype(low + high);
  const auto choices = static_cast<std::uint64_t>(high - low) + 1;
  return static_cast<Number>(low + static_cast<Number>(random.next_index(choices)));
}

}  // namespace ntpsim::testing
