#pragma once

#include <span>
#include <string>

namespace ntpsim::analysis {

// One line of CSV with its line end, quoted by RFC 4180 where a cell needs it.
[[nodiscard]] std::string csv_line(std::span<const std::string> cells);

}  // namespace ntpsim::analysis
