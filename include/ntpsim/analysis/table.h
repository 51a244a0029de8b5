#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ntpsim::analysis {

/// Rows of text cells under a header, printed with aligned columns for people.
class Table {
 public:
  enum class Align : unsigned char { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// REQUIRES: one cell a column.
  void add_row(std::vector<std::string> cells);

  /// Every line ends with a newline and has no blanks before it. Two blanks between columns.
  [[nodiscard]] std::string to_string() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ntpsim::analysis
