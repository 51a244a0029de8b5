#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ntpsim/analysis/availability_study.h"
#include "ntpsim/analysis/goodput_study.h"
#include "ntpsim/scenario/scenario.h"

namespace ntpsim::analysis {

enum class Format : unsigned char { kText, kJson, kCsv };

/// "text", "json", "csv", or nothing.
[[nodiscard]] std::optional<Format> find_format(std::string_view name);

/// The version of the JSON that these functions write: raised when a key changes its meaning or goes away.
inline constexpr int kSchemaVersion = 1;

/// The results of `ntpsim run`, ready to print. Pure functions: the same study gives the same bytes.
[[nodiscard]] std::string render(const GoodputStudy& study, const scenario::LoadedScenario& loaded,
                                 Format format);

/// The results of `ntpsim availability`.
[[nodiscard]] std::string render(std::span<const AvailabilityPoint> points, std::int64_t draws,
                                 const scenario::LoadedScenario& loaded, Format format);

}  // namespace ntpsim::analysis
