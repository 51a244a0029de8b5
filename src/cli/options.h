#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>
#include <tl/expected.hpp>

#include "ntpsim/analysis/progress.h"
#include "ntpsim/analysis/results.h"
#include "ntpsim/core/diagnostics.h"
#include "ntpsim/scenario/scenario.h"

#include "command.h"

namespace ntpsim::cli {

// Parses a verb's arguments; `positional` names the option that arguments without a dash go to. On an error
// gives the sentence to print.
[[nodiscard]] tl::expected<boost::program_options::variables_map, std::string> parse_options(
    Arguments arguments, const boost::program_options::options_description& options, const char* positional);

// "a,b,c" as its parts, blanks around them removed.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);

// Prints a message to stderr. A closed stderr is no error: results do not go there.
void say(std::string_view text);

// Prints an error of the command line, with a pointer to the verb's help, and returns the exit code for it.
ExitCode usage_error(std::string_view verb, std::string_view message);

// Prints all diagnostics to stderr, one a line.
void print_diagnostics(const Diagnostics& diagnostics);

// Writes a whole result to stdout. A result that could not be written is an error.
ExitCode write_output(std::string_view text);

// Writes a whole file. One that could not be written is an error, with its name on stderr.
ExitCode write_file(const std::string& path, std::string_view text);

// The value of --format, or what is wrong with it.
[[nodiscard]] tl::expected<analysis::Format, std::string> read_format(
    const boost::program_options::variables_map& values);

// What verbs that simulate a scenario have in common.
struct SimulationOptions {
  std::string scenario;
  scenario::LoadOptions load;
  analysis::Format format = analysis::Format::kText;
  unsigned threads = 1;
  bool quiet = false;
};

[[nodiscard]] boost::program_options::options_description simulation_options();

// Reads them, or says what is wrong.
[[nodiscard]] tl::expected<SimulationOptions, std::string> read_simulation_options(
    const boost::program_options::variables_map& values);

// Loads the scenario and prints its diagnostics; nothing when it has errors.
[[nodiscard]] std::optional<scenario::LoadedScenario> load(const SimulationOptions& options);

}  // namespace ntpsim::cli
