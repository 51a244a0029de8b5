#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/sim/specs.h"

namespace ntpsim::scenario {

/// A checked scenario: everything a study needs, defaults filled in.
struct Scenario {
  std::string name;
  std::string description;
  sim::ClusterSpec cluster;
  sim::JobSpec job;
  sim::FailureSpec failures;
  std::vector<sim::PolicySpec> policies;  ///< at least one
  sim::RunSpec run;
};

/// A scenario, what to tell the user about it, and the document it came from.
struct LoadedScenario {
  Scenario scenario;
  /// The scenario as JSON with catalog entries, files and defaults written out: reading it again gives the
  /// same scenario on any machine. Text, so that this header needs no JSON library.
  std::string resolved_json;
  Diagnostics warnings;
};

/// What the command line changes in a scenario.
struct LoadOptions {
  /// "training.seq_length=8192" (dots) or "/failures/classes/0/share=0.5" (a JSON pointer); the value is
  /// JSON, or text when it is not JSON. Applied in order.
  std::vector<std::string> sets;
  /// Names of the policies to run, in this order, instead of the scenario's; a policy that the scenario
  /// configures keeps its configuration. Empty: the scenario's.
  std::vector<std::string> policies;
};

/// Reads and checks a scenario file ("-" is standard input). All violations at once.
[[nodiscard]] Result<LoadedScenario> load_scenario(const std::string& path, const LoadOptions& options);

/// The same for text already in memory; `file` is the name to use in messages, and paths in the text are
/// relative to its directory.
[[nodiscard]] Result<LoadedScenario> parse_scenario(std::string_view text, const std::string& file,
                                                    const LoadOptions& options);

/// The JSON Schema (draft-07) of scenario files, pretty-printed with a final newline.
[[nodiscard]] std::string scenario_schema();

}  // namespace ntpsim::scenario
