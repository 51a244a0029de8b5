#include "ntpsim/analysis/validation_baseline.h"

#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/validation.h"

#include "json_head.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPredictions = "predicted_step_s";

/// Reads one file, noting what is wrong with it.
class BaselineReader {
 public:
  BaselineReader(const Json& json, std::string file) : json_(json) { baseline_.file = std::move(file); }

  [[nodiscard]] Result<Baseline> read() {
    if (!json_.is_object()) {
      error("", "expected an object, as --write-baseline writes it");
    } else {
      read_version();
      read_predictions();
    }
    if (errors_.has_errors()) return tl::unexpected(std::move(errors_));
    return std::move(baseline_);
  }

 private:
  void error(std::string pointer, std::string message) {
    errors_.error(baseline_.file, std::move(pointer), std::move(message));
  }

  void read_version() {
    const auto tool = json_.find("tool");
    if (tool != json_.end() && tool->is_object() && tool->contains("version") &&
        (*tool)["version"].is_string()) {
      baseline_.version = (*tool)["version"].get<std::string>();
    } else {
      error("/tool/version", "expected the version of the program that wrote the file");
    }
  }

  void read_predictions() {
    const auto found = json_.find(kPredictions);
    const std::string pointer = fmt::format("/{}", kPredictions);
    if (found == json_.end() || !found->is_object()) {
      return error(pointer, "expected an object of seconds by the row's id");
    }
    for (const auto& [id, value] : found->items()) {
      if (value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>())) {
        baseline_.predicted_step_s.emplace(id, value.get<double>());
      } else {
        error(fmt::format("{}/{}", pointer, id), "expected a positive number of seconds");
      }
    }
  }

  const Json& json_;
  Baseline baseline_;
  Diagnostics errors_;
};

}  // namespace

Result<Baseline> parse_baseline(std::string_view text, const std::string& file) {
  try {
    return BaselineReader(Json::parse(text), file).read();
  } catch (const Json::parse_error& error) {
    Diagnostics errors;
    errors.error(file, "",
                 fmt::format("no JSON at byte {}, expected a file of --write-baseline", error.byte));
    return tl::unexpected(std::move(errors));
  }
}

std::string baseline_json(std::span<const ComparedRun> runs) {
  Json json = json_head();
  Json predictions = Json::object();
  for (const ComparedRun& each : runs) predictions[each.run.stated.id] = each.predicted_step_s;
  json[kPredictions] = std::move(predictions);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

BaselineCheck check_baseline(std::span<const ComparedRun> runs, const Baseline& baseline, double tolerance) {
  BaselineCheck check = {.file = baseline.file,
                         .version = baseline.version,
                         .tolerance = tolerance,
                         .moved = {},
                         .missing = {},
                         .added = {}};
  std::set<std::string_view> seen;
  for (const ComparedRun& each : runs) {
    const std::string& id = each.run.stated.id;
    seen.insert(id);
    const auto stored = baseline.predicted_step_s.find(id);
    if (stored == baseline.predicted_step_s.end()) {
      check.added.push_back(id);
      continue;
    }
    const MovedRow row = {.id = id, .stored_s = stored->second, .predicted_s = each.predicted_step_s};
    if (!(std::abs(row.change()) <= tolerance)) check.moved.push_back(row);
  }
  for (const auto& [id, stored] : baseline.predicted_step_s) {
    if (!seen.contains(id)) check.missing.push_back(id);
  }
  return check;
}

}  // namespace ntpsim::analysis
