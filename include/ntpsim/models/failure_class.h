#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ntpsim/models/distribution.h"

namespace ntpsim::models {

/// A set of GPUs: one of them, those of one tray (host), or those of one scale-up domain.
enum class Scope : unsigned char { kGpu, kTray, kDomain };

[[nodiscard]] std::string_view to_string(Scope scope);

/// One way in which hardware or software fails. Every unit of the component (each GPU, tray or domain of the
/// cluster) is an alternating renewal process of its own: it lives for a `lifetime`, is repaired for a
/// `repair_time`, and starts a new life. A GPU is in service while no process that covers it is in repair.
struct FailureClass {
  std::string name;
  Scope component = Scope::kGpu;     ///< what fails
  Scope blast_radius = Scope::kGpu;  ///< what leaves service with it; at least the component
  Distribution lifetime{Distribution::Family::kExponential, 1};  ///< its mean is the MTBF of one unit
  /// Absent: nothing is broken; the job is interrupted and the unit is back at once (a software crash).
  std::optional<Distribution> repair_time;

  bool operator==(const FailureClass&) const = default;
};

}  // namespace ntpsim::models
