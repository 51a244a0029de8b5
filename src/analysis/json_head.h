#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ntpsim/scenario/scenario.h"

namespace ntpsim::analysis {

/// What every JSON result starts with: the version of its schema, and the program.
[[nodiscard]] nlohmann::ordered_json json_head();
/// The same, with the resolved scenario and its seed.
[[nodiscard]] nlohmann::ordered_json json_head(const scenario::LoadedScenario& loaded);

}  // namespace ntpsim::analysis
