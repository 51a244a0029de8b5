#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace ntpsim::sim {

class Policy;
struct ClusterSpec;
struct JobSpec;
struct PolicySpec;

/// One way of coping with failures: what users are told of it, what it reads, and how to make one.
struct PolicyInfo {
  std::string_view name;
  std::string_view description;
  /// JSON pointers of the settings this policy reads, among those that not every policy reads.
  std::span<const std::string_view> settings;
  bool reduces_tp = false;       ///< runs hurt replicas at a reduced TP degree (reads reduced_degrees)
  bool boosts = false;           ///< needs a power curve
  bool lives_on_spares = false;  ///< makes little sense without spares
  std::unique_ptr<Policy> (*make)(const ClusterSpec&, const JobSpec&, const PolicySpec&) = nullptr;
};

/// All policies, in the order in which they are listed. The one place that names them.
[[nodiscard]] std::span<const PolicyInfo> policy_table();
/// The entry with this name, or null.
[[nodiscard]] const PolicyInfo* find_policy(std::string_view name);

}  // namespace ntpsim::sim
