#include "ntpsim/analysis/throughput_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ntpsim/core/nearest.h"

#include "csv_reader.h"
#include "run_check.h"

namespace ntpsim::analysis {
namespace {

using models::Precision;
using models::Recompute;

/// User text as messages show it.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string printable(text.substr(0, kMost));
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return fmt::format("'{}'{}", printable, text.size() > kMost ? "..." : "");
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string nearest_text(std::string_view name, std::span<const std::string_view> known) {
  const auto near = nearest_name(name, known);
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

std::optional<double> parse_number(std::string_view text) {
  const std::string digits(text);
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// A column and the member that it sets.
struct Column {
  std::string_view name;
  bool required = false;  ///< the column must be there, and no cell of it blank
  std::string expected;
  /// False when the cell is not what is expected.
  std::function<bool(std::string_view cell, ThroughputRow& row)> read;
  std::vector<std::string_view> known;  ///< names that a cell may hold
};

Column text_column(std::string_view name, std::string ThroughputRow::* member, bool required) {
  return {name,
          required,
          "text",
          [member](std::string_view cell, ThroughputRow& row) {
            row.*member = cell;
            return true;
          },
          {}};
}

struct Range {
  std::int64_t min = 1;
  std::int64_t max = 1;
};

/// Whole numbers, which spreadsheets also write as 64.0.
template <class V>
Column whole_column(std::string_view name, V ThroughputRow::* member, bool required, Range range) {
  return {name,
          required,
          fmt::format("a whole number from {} to {}", range.min, range.max),
          [member, range](std::string_view cell, ThroughputRow& row) {
            const auto value = parse_number(cell);
            if (!value || *value != std::floor(*value) || *value < static_cast<double>(range.min) ||
                *value > static_cast<double>(range.max)) {
              return false;
            }
            row.*member = static_cast<std::int64_t>(*value);
            return true;
          },
          {}};
}

/// Measured figures.
Column figure_column(std::string_view name, std::optional<double> ThroughputRow::* member) {
  constexpr double kLeast = 1e-9;
  constexpr double kMost = 1e12;
  return {name,
          false,
          fmt::format("a number from {:g} to {:g}", kLeast, kMost),
          [member](std::string_view cell, ThroughputRow& row) {
            row.*member = parse_number(cell);
            return row.*member && *(row.*member) >= kLeast && *(row.*member) <= kMost;
          },
          {}};
}

Column precision_column() {
  std::vector<std::string_view> known;
  for (const Precision precision : models::all_precisions()) known.push_back(models::to_string(precision));
  std::string expected = fmt::format("one of {}", fmt::join(known, ", "));
  return {"precision", true, std::move(expected),
          [](std::string_view cell, ThroughputRow& row) {
            const auto all = models::all_precisions();
            const auto found =
                std::ranges::find(all, lower(cell), [](Precision each) { return models::to_string(each); });
            if (found == all.end()) return false;
            row.precision = *found;
            return true;
          },
          std::move(known)};
}

struct RecomputeName {
  std::string_view name;
  std::optional<Recompute> value;
};

constexpr std::array kRecomputeNames = {
    RecomputeName{"unstated", std::nullopt},
    RecomputeName{"none", Recompute::kNone},
    RecomputeName{"selective", Recompute::kSelective},
    RecomputeName{"selective+sequence-parallel", Recompute::kSelective},
    RecomputeName{"full", Recompute::kFull},
};

Column recompute_column() {
  std::vector<std::string_view> known;
  for (const RecomputeName& each : kRecomputeNames) known.push_back(each.name);
  std::string expected = fmt::format("one of {}", fmt::join(known, ", "));
  return {"recompute", false, std::move(expected),
          [](std::string_view cell, ThroughputRow& row) {
            const auto* const found = std::ranges::find(kRecomputeNames, lower(cell), &RecomputeName::name);
            if (found == kRecomputeNames.end()) return false;
            row.recompute = found->value;
            return true;
          },
          std::move(known)};
}

/// All columns, in the order in which messages list them.
const std::vector<Column>& all_columns() {
  using T = ThroughputRow;
  constexpr Range kGpus{1, 100'000'000};
  constexpr Range kDegree{1, 100'000};  // any four of them multiply to less than 2^63
  constexpr Range kMany{1, 1'000'000'000'000};
  static const std::vector<Column> columns = {text_column("id", &T::id, true),
                                              text_column("model", &T::model, true),
                                              text_column("system", &T::system, true),
                                              whole_column("gpus", &T::gpus, true, kGpus),
                                              precision_column(),
                                              whole_column("gbs", &T::gbs, true, kMany),
                                              whole_column("seq", &T::seq, true, kMany),
                                              whole_column("tp", &T::tp, true, kDegree),
                                              whole_column("pp", &T::pp, true, kDegree),
                                              whole_column("mbs", &T::mbs, false, kMany),
                                              whole_column("cp", &T::cp, false, kDegree),
                                              whole_column("vp", &T::vp, false, kDegree),
                                              whole_column("ep", &T::ep, false, kDegree),
                                              whole_column("etp", &T::etp, false, kDegree),
                                              whole_column("fsdp", &T::fsdp, false, {0, kGpus.max}),
                                              recompute_column(),
                                              figure_column("step_s", &T::step_s),
                                              figure_column("tokens_per_s_per_gpu", &T::tokens_per_s_per_gpu),
                                              figure_column("tflops_per_gpu", &T::tflops_per_gpu),
                                              text_column("flops_convention", &T::flops_convention, false),
                                              text_column("source", &T::source, false),
                                              figure_column("peak_mem_gib", &T::peak_mem_gib)};
  return columns;
}

constexpr std::array<std::string_view, 3> kFigures = {"step_s", "tokens_per_s_per_gpu", "tflops_per_gpu"};

std::vector<std::string_view> column_names() {
  std::vector<std::string_view> names;
  for (const Column& column : all_columns()) names.push_back(column.name);
  return names;
}

class TableReader {
 public:
  TableReader(const std::string& file, const scenario::ModelTable& models) : file_(file), models_(models) {
    table_.file = file;
  }

  [[nodiscard]] Result<ThroughputTable> read(std::span<const CsvRecord> records) {
    if (records.empty()) {
      errors_.error(file_, "",
                    fmt::format("found no header, expected columns {}", fmt::join(column_names(), ", ")));
      return tl::unexpected(std::move(errors_));
    }
    read_header(records.front());
    for (const CsvRecord& record : records.subspan(1)) {
      const auto is_blank = [](const std::string& cell) { return trimmed(cell).empty(); };
      if (!std::ranges::all_of(record.cells, is_blank)) read_row(record);
    }
    if (!errors_.has_errors() && table_.runs.empty()) {
      errors_.error(file_, "", "found a header only, expected a row for every run");
    }
    if (errors_.has_errors()) return tl::unexpected(std::move(errors_));
    return std::move(table_);
  }

 private:
  void error(std::int64_t line, std::string_view column, std::string_view message) {
    errors_.error(file_, "", fmt::format("line {}, column {}: {}", line, column, message));
    row_good_ = false;
  }

  void line_error(std::int64_t line, std::string_view message) {
    errors_.error(file_, "", fmt::format("line {}: {}", line, message));
  }

  [[nodiscard]] bool has_column(std::string_view name) const {
    return std::ranges::any_of(
        header_, [name](const Column* column) { return column != nullptr && column->name == name; });
  }

  void read_header(const CsvRecord& record) {
    const auto& columns = all_columns();
    std::vector<std::string_view> unused;
    for (const std::string& cell : record.cells) {
      const std::string_view name = trimmed(cell);
      const auto found = std::ranges::find(columns, name, &Column::name);
      const Column* const column = found == columns.end() ? nullptr : &*found;
      if (column == nullptr) unused.push_back(name);
      if (column != nullptr && has_column(name)) {
        line_error(record.line, fmt::format("found column {} a second time", name));
      }
      header_.push_back(column);
    }
    report_missing(record.line, unused);
    report_unused(record.line, unused);
    header_good_ = !errors_.has_errors();
  }

  void report_missing(std::int64_t line, std::span<const std::string_view> unused) {
    for (const Column& column : all_columns()) {
      if (!column.required || has_column(column.name)) continue;
      line_error(line, fmt::format("found no column {}, expected one{}", column.name,
                                   nearest_text(column.name, unused)));
    }
    if (std::ranges::none_of(kFigures, [this](std::string_view name) { return has_column(name); })) {
      line_error(line, fmt::format("found none of the columns {}, expected one at least",
                                   fmt::join(kFigures, ", ")));
    }
    if (header_.size() == 1 && !unused.empty() &&
        unused.front().find_first_of(";\t") != std::string_view::npos) {
      line_error(line, "found one cell, expected cells separated by commas");
    }
  }

  void report_unused(std::int64_t line, std::span<const std::string_view> unused) {
    std::vector<std::string_view> free;
    for (const std::string_view name : column_names()) {
      if (!has_column(name)) free.push_back(name);
    }
    for (const std::string_view name : unused) {
      if (name.empty()) continue;  // an index that a program left without a title
      table_.warnings.warning(
          file_, "",
          fmt::format("line {}: column {} is not used{}", line, shown(name), nearest_text(name, free)));
    }
  }

  void read_row(const CsvRecord& record) {
    if (record.cells.size() != header_.size()) {
      line_error(record.line, fmt::format("found {} cells, expected {} as in the header", record.cells.size(),
                                          header_.size()));
      return;
    }
    row_good_ = header_good_;
    MeasuredRun run;
    run.stated.line = record.line;
    for (std::size_t i = 0; i < header_.size(); ++i) {
      if (header_[i] != nullptr) read_cell(record, i, run.stated);
    }
    if (header_good_) check_row(run);
    if (row_good_) {
      check_run(run, [this, line = record.line](std::string_view column, const std::string& message) {
        error(line, column, message);
      });
    }
    if (row_good_) table_.runs.push_back(std::move(run));
  }

  void read_cell(const CsvRecord& record, std::size_t at, ThroughputRow& row) {
    const Column& column = *header_[at];
    const std::string_view cell = trimmed(record.cells[at]);
    if (cell.empty()) {
      if (column.required) {
        error(record.line, column.name, fmt::format("found a blank cell, expected {}", column.expected));
      }
      return;
    }
    if (column.read(cell, row)) return;
    error(record.line, column.name,
          fmt::format("found {}, expected {}{}", shown(cell), column.expected,
                      nearest_text(cell, column.known)));
  }

  void check_row(MeasuredRun& run) {
    const ThroughputRow& row = run.stated;
    if (row_good_) check_figures(row);
    if (!row.id.empty()) {
      const auto [first, is_new] = lines_by_id_.emplace(row.id, row.line);
      if (!is_new) {
        error(row.line, "id",
              fmt::format("found {}, which is that of line {}", shown(row.id), first->second));
      }
    }
    if (!row.model.empty()) find_model(run);
    if (!row.system.empty()) find_system(run);
  }

  void check_figures(const ThroughputRow& row) {
    if (row.step_s || row.tokens_per_s_per_gpu) return;
    if (row.tflops_per_gpu) return check_convention(row);
    error(row.line, kFigures.front(),
          fmt::format("found no figure, expected one in {}", fmt::join(kFigures, ", ")));
  }

  /// FLOP/s say nothing unless it is known how FLOPs were counted.
  void check_convention(const ThroughputRow& row) {
    const std::string_view text = row.flops_convention;
    if (text.empty() || text.starts_with("model") || text.starts_with("hardware")) return;
    error(
        row.line, "flops_convention",
        fmt::format("found {}, expected a text that begins with model or hardware, as the row's only figure "
                    "is tflops_per_gpu",
                    shown(text)));
  }

  void find_model(MeasuredRun& run) {
    const std::string& name = run.stated.model;
    if (const auto found = models_.find(name); found != models_.end()) {
      run.model = found->second;
      return;
    }
    if (const models::TransformerSpec* const known = models::find_model(name)) {
      run.model = *known;
      return;
    }
    std::vector<std::string_view> names;
    for (const auto& [each, model] : models_) names.push_back(each);
    for (const models::TransformerSpec& model : models::model_catalog()) names.push_back(model.name);
    error(run.stated.line, "model",
          fmt::format("found {}, expected a model of --models or of 'ntpsim list models'{}", shown(name),
                      nearest_text(name, names)));
  }

  void find_system(MeasuredRun& run) {
    const std::string& name = run.stated.system;
    if (const models::SystemSpec* const found = find_system_meant(name)) {
      run.system = *found;
      return;
    }
    std::vector<std::string_view> names;
    for (const models::SystemSpec& system : models::system_catalog()) names.push_back(system.name);
    error(run.stated.line, "system",
          fmt::format("found {}, expected a system of 'ntpsim list systems' or a text with the name of a GPU "
                      "of one (H100, GB200){}",
                      shown(name), nearest_text(name, names)));
  }

  const std::string& file_;
  const scenario::ModelTable& models_;
  std::vector<const Column*> header_;  // null: not used
  bool header_good_ = false;
  bool row_good_ = false;
  std::map<std::string, std::int64_t, std::less<>> lines_by_id_;
  ThroughputTable table_;
  Diagnostics errors_;
};

struct GpuName {
  std::string_view gpu;
  std::string_view system;
};

constexpr std::array kGpuNames = {
    GpuName{"a100", "dgx-a100"},     GpuName{"h100", "dgx-h100"},     GpuName{"h200", "dgx-h200"},
    GpuName{"gb200", "gb200-nvl72"}, GpuName{"gb300", "gb300-nvl72"}, GpuName{"b200", "dgx-b200"},
    GpuName{"b300", "dgx-b300"},
};

/// Not after a G, which makes another product of it.
bool names_gpu(std::string_view text, std::string_view gpu) {
  for (std::size_t at = text.find(gpu); at != std::string_view::npos; at = text.find(gpu, at + 1)) {
    if (at == 0 || text[at - 1] != 'g') return true;
  }
  return false;
}

}  // namespace

const models::SystemSpec* find_system_meant(std::string_view text) {
  const std::string name = lower(text);
  if (const models::SystemSpec* const exact = models::find_system(name)) return exact;
  const auto* const found =
      std::ranges::find_if(kGpuNames, [&name](const GpuName& each) { return names_gpu(name, each.gpu); });
  return found == kGpuNames.end() ? nullptr : models::find_system(found->system);
}

Result<ThroughputTable> parse_throughput_table(std::string_view text, const std::string& file,
                                               const scenario::ModelTable& models) {
  const auto records = parse_csv(text, file);
  if (!records) return tl::unexpected(records.error());
  return TableReader(file, models).read(*records);
}

std::vector<int> container_of(std::string_view source) {
  constexpr std::string_view kWord = "container ";
  const std::size_t found = source.find(kWord);
  if (found == std::string_view::npos) return {};
  std::vector<int> numbers;
  const char* at = source.data() + found + kWord.size();
  const char* const end = source.data() + source.size();
  for (;;) {
    int number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) return numbers;
    numbers.push_back(number);
    if (parsed.ptr == end || *parsed.ptr != '.') return numbers;
    at = parsed.ptr + 1;
  }
}

}  // namespace ntpsim::analysis
