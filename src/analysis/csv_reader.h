#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/core/diagnostics.h"

namespace ntpsim::analysis {

/// One record of a CSV text.
struct CsvRecord {
  std::int64_t line = 0;  ///< where it begins, from 1
  std::vector<std::string> cells;
};

/// Reads CSV by RFC 4180: quoted cells may hold commas, quotes written twice and line ends. Lines end with LF
/// or CRLF; a byte order mark at the beginning and blank lines are passed over. Comments (a line that begins
/// with #) and NUL bytes are refused: no two programs agree about them. `file` names it in messages. O(n).
[[nodiscard]] Result<std::vector<CsvRecord>> parse_csv(std::string_view text, const std::string& file);

}  // namespace ntpsim::analysis
