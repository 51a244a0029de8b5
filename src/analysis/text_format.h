#pragma once

#include <cstdint>
#include <string>

#include "ntpsim/scenario/scenario.h"

namespace ntpsim::analysis {

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t value);
/// 0.0123 as "1.23%".
[[nodiscard]] std::string percent(double ratio);
/// 12.3e6 as "12.30 M".
[[nodiscard]] std::string scaled(double value);
/// 1.5e6 as "1.50 MB".
[[nodiscard]] std::string bytes_text(std::int64_t bytes);
/// The cluster and the job of a scenario, two lines.
[[nodiscard]] std::string headline(const scenario::Scenario& scenario);

}  // namespace ntpsim::analysis
