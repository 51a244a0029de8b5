#pragma once

#include <string_view>

#include "ntpsim/analysis/progress.h"

namespace ntpsim::cli {

// A line on stderr that says how far a study is, how fast it goes and how long it will take, redrawn a few
// times a second and wiped at the end. Empty when stderr is not a terminal or `quiet` is set.
[[nodiscard]] analysis::Progress progress_line(std::string_view unit, bool quiet);

}  // namespace ntpsim::cli
