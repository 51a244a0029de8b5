#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ntpsim/analysis/availability_study.h"
#include "ntpsim/analysis/goodput_study.h"
#include "ntpsim/scenario/scenario.h"

namespace ntpsim::analysis {

// One pair of functions a format; `render` of results.h chooses.
using AvailabilityPoints = std::span<const AvailabilityPoint>;
using scenario::LoadedScenario;

[[nodiscard]] std::string render_json(const GoodputStudy& study, const LoadedScenario& loaded);
[[nodiscard]] std::string render_json(AvailabilityPoints points, std::int64_t draws,
                                      const LoadedScenario& loaded);
[[nodiscard]] std::string render_csv(const GoodputStudy& study, const LoadedScenario& loaded);
[[nodiscard]] std::string render_csv(AvailabilityPoints points, std::int64_t draws,
                                     const LoadedScenario& loaded);
[[nodiscard]] std::string render_text(const GoodputStudy& study, const LoadedScenario& loaded);
[[nodiscard]] std::string render_text(AvailabilityPoints points, std::int64_t draws,
                                      const LoadedScenario& loaded);

}  // namespace ntpsim::analysis
