#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "ntpsim/analysis/validation.h"

namespace ntpsim::analysis {

// 0.0123 as "+1.2%", and as "1.2%".
[[nodiscard]] std::string signed_percent(double ratio);
[[nodiscard]] std::string short_percent(double ratio);

// Errors of all rows and of each group, as a table and as JSON.
[[nodiscard]] std::string summary_text(const ValidationSummary& summary);
[[nodiscard]] nlohmann::ordered_json summary_json(const ValidationSummary& summary);

}  // namespace ntpsim::analysis
