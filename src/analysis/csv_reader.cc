#include "csv_reader.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace ntpsim::analysis {
namespace {

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& file) : text_(text), file_(file) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  [[nodiscard]] Result<std::vector<CsvRecord>> records() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        error(line_, "found a comment, expected a row: CSV has no comments; use the column source");
        skip_line();
      } else if (!end_line()) {
        read_record();
      }
    }
    if (errors_.has_errors()) return tl::unexpected(std::move(errors_));
    return std::move(records_);
  }

 private:
  void error(std::int64_t line, std::string_view message) {
    errors_.error(file_, "", fmt::format("line {}: {}", line, message));
  }

  /// Passes over a line end, if there is one here.
  bool end_line() {
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with("\n") && !rest.starts_with("\r\n")) return false;
    at_ += rest.front() == '\n' ? 1 : 2;
    ++line_;
    return true;
  }

  void skip_line() {
    while (at_ < text_.size() && !end_line()) ++at_;
  }

  void read_record() {
    CsvRecord record{.line = line_, .cells = {}};
    for (;;) {
      if (!read_cell(record)) return skip_line();
      if (at_ >= text_.size() || end_line()) break;
      ++at_;  // the comma
    }
    records_.push_back(std::move(record));
  }

  /// Ends at a comma, a line end or the end of the text; false after an error.
  bool read_cell(CsvRecord& record) {
    std::string& cell = record.cells.emplace_back();
    return text_.substr(at_).starts_with('"') ? read_quoted(cell) : read_plain(cell);
  }

  [[nodiscard]] bool at_cell_end() const {
    const std::string_view rest = text_.substr(at_);
    return rest.empty() || rest.front() == ',' || rest.front() == '\n' || rest.starts_with("\r\n");
  }

  bool read_plain(std::string& cell) {
    for (; !at_cell_end(); ++at_) {
      if (text_[at_] == '"') return fail("found a quote inside a cell, expected the whole cell in quotes");
      if (text_[at_] == '\0') return fail("found a NUL byte, expected text");
      cell += text_[at_];
    }
    return true;
  }

  bool read_quoted(std::string& cell) {
    const std::int64_t opened = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\0') return fail("found a NUL byte, expected text");
      if (c == '"') {
        ++at_;
        if (at_cell_end()) return true;
        if (text_[at_] != '"') return fail("found text after a closing quote, expected a comma");
      }
      if (c == '\n') ++line_;
      cell += c;
    }
    error(opened, "found a cell whose quote is never closed");
    return false;
  }

  bool fail(std::string_view message) {
    error(line_, message);
    return false;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::vector<CsvRecord> records_;
  Diagnostics errors_;
};

}  // namespace

Result<std::vector<CsvRecord>> parse_csv(std::string_view text, const std::string& file) {
  return CsvParser(text, file).records();
}

}  // namespace ntpsim::analysis
