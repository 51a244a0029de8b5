#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ntpsim {

/// The candidate that a person who typed `name` most likely meant: least edit distance (insertions,
/// deletions, substitutions and swaps of neighbours), letter case ignored, and only when it is near enough to
/// be a slip. The earliest candidate wins a tie. O(sum of the lengths' products).
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view name,
                                                           std::span<const std::string_view> candidates);

}  // namespace ntpsim
