#pragma once

#include <string>

#include "ntpsim/core/diagnostics.h"

namespace ntpsim::scenario {

/// The text of a file ("-": standard input). Refuses more than 64 MiB: no input is that large.
[[nodiscard]] Result<std::string> read_text(const std::string& path);

}  // namespace ntpsim::scenario
