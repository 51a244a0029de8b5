#pragma once

#include <span>
#include <string_view>

namespace ntpsim::sim {

/// What the scenario reader and `ntpsim list policies` need to know of a policy without running it.
struct PolicyInfo {
  std::string_view name;
  std::string_view description;
  /// JSON pointers of the settings this policy reads, among those that not every policy reads.
  std::span<const std::string_view> settings;
  bool reduces_tp = false;  ///< runs hurt replicas at a reduced TP degree (reads reduced_degrees)
  bool boosts = false;      ///< needs a power curve
};

/// All policies, in the order in which they are listed. The one place that names them.
[[nodiscard]] std::span<const PolicyInfo> policy_table();
/// The entry with this name, or null.
[[nodiscard]] const PolicyInfo* find_policy(std::string_view name);

}  // namespace ntpsim::sim
