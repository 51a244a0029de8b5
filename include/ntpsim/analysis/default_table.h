#pragma once

#include <string_view>

namespace ntpsim::analysis {

/// The table of published runs that is built into the program: data/validation/measured.csv.
[[nodiscard]] std::string_view default_table();
/// The models of it that the catalog lacks: data/validation/models.json.
[[nodiscard]] std::string_view default_models();

}  // namespace ntpsim::analysis
