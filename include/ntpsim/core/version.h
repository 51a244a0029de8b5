#pragma once

#include <string_view>

namespace ntpsim {

/// The project's version: "0.1.0".
[[nodiscard]] std::string_view version();

/// The commit that this program was built from, "-dirty" appended when its sources differed from it, or
/// "unknown" when it was built without git.
[[nodiscard]] std::string_view git_revision();

}  // namespace ntpsim
