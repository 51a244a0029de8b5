#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/core/diagnostics.h"

// Predictions as an earlier version made them, to notice when they move.

namespace ntpsim::analysis {

struct ComparedRun;

struct Baseline {
  std::string file;
  std::string version;                                          ///< of the program that wrote it
  std::map<std::string, double, std::less<>> predicted_step_s;  ///< by the row's id
};

/// A row whose prediction is not the stored one.
struct MovedRow {
  std::string id;
  double stored_s = 0;
  double predicted_s = 0;

  [[nodiscard]] double change() const { return predicted_s / stored_s - 1; }
};

/// The rows of a table against a baseline.
struct BaselineCheck {
  std::string file;
  std::string version;
  double tolerance = 0;  ///< of the stored prediction
  std::vector<MovedRow> moved;
  std::vector<std::string> missing;  ///< stored, but not in the table
  std::vector<std::string> added;    ///< in the table, but not stored

  [[nodiscard]] bool holds() const { return moved.empty() && missing.empty() && added.empty(); }
};

/// Reads what `baseline_json` writes.
[[nodiscard]] Result<Baseline> parse_baseline(std::string_view text, const std::string& file);

/// The predictions of these runs, and the version of this program.
[[nodiscard]] std::string baseline_json(std::span<const ComparedRun> runs);

/// `runs`: all of a table. Moved and added rows are listed in their order, missing ones by id.
[[nodiscard]] BaselineCheck check_baseline(std::span<const ComparedRun> runs, const Baseline& baseline,
                                           double tolerance);

}  // namespace ntpsim::analysis
