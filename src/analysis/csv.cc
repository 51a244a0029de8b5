#include "csv.h"

#include <string_view>

namespace ntpsim::analysis {
namespace {

std::string quoted(std::string_view cell) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(cell);
  std::string text = "\"";
  for (const char c : cell) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

}  // namespace

std::string csv_line(std::span<const std::string> cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    line += quoted(cells[i]);
  }
  return line + "\n";
}

}  // namespace ntpsim::analysis
