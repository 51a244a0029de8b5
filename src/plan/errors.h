#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/limits.h"

namespace ntpsim::plan {

/// An error about an argument; arguments have no file.
inline void add_error(Diagnostics& errors, std::string message) {
  errors.error("", "", std::move(message));
}

/// Is the number within [least, most]? Else adds "degree: found 9, expected 1 to 8"; `why` says what the
/// upper limit is.
inline bool check_range(Diagnostics& errors, std::string_view name, std::int64_t found, std::int64_t least,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                        std::string_view why = "") {
  if (found >= least && found <= most) return true;
  std::string message = std::string(name) + ": found " + std::to_string(found) + ", expected ";
  if (most == std::numeric_limits<std::int64_t>::max()) {
    message += "at least " + std::to_string(least);
  } else {
    message += std::to_string(least) + " to " + std::to_string(most);
  }
  if (!why.empty()) message.append(", ").append(why);
  add_error(errors, std::move(message));
  return false;
}

/// Why a replica cannot have more groups.
inline constexpr std::string_view kGroupsOfCluster = "the TP groups of the healthy cluster";

/// Checks a cluster of `domains` domains of `domain_size` GPUs each.
inline void check_cluster(Diagnostics& errors, std::int64_t domains, int domain_size) {
  const bool some = check_range(errors, "domains", domains, 1, kMaxGpus);
  if (!check_range(errors, "domain_size", domain_size, 1, kMaxDomainSize) || !some) return;
  check_range(errors, "domains * domain_size", domains * domain_size, 1, kMaxGpus);
}

}  // namespace ntpsim::plan
