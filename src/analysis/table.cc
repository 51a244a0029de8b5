#include "ntpsim/analysis/table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"

namespace ntpsim::analysis {

void Table::add_row(std::vector<std::string> cells) {
  invariant(cells.size() == columns_.size(), "a row has one cell a column");
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Table::to_string() const {
  const std::vector<std::size_t> width = widths();
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::kLeft ? fmt::format("{:<{}}", cell_of(i), width[i])
                                                : fmt::format("{:>{}}", cell_of(i), width[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace ntpsim::analysis
