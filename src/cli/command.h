#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ntpsim::cli {

// What the process returns to its caller.
enum class ExitCode : unsigned char {
  kOk = 0,
  kFailed = 1,    // the work itself failed: the output could not be written, say
  kBadInput = 2,  // wrong usage or a bad input file
};

using Arguments = std::span<const std::string>;

// A verb of the command line.
struct Command {
  std::string_view name;
  std::string_view summary;
  std::string (*help)();
  ExitCode (*run)(Arguments arguments);
};

// All verbs, in the order in which help lists them.
[[nodiscard]] std::span<const Command> commands();

[[nodiscard]] std::string run_help();
ExitCode run_command(Arguments arguments);
[[nodiscard]] std::string availability_help();
ExitCode availability_command(Arguments arguments);
[[nodiscard]] std::string plan_help();
ExitCode plan_command(Arguments arguments);
[[nodiscard]] std::string validate_help();
ExitCode validate_command(Arguments arguments);
[[nodiscard]] std::string calibrate_help();
ExitCode calibrate_command(Arguments arguments);
[[nodiscard]] std::string search_help();
ExitCode search_command(Arguments arguments);
[[nodiscard]] std::string step_help();
ExitCode step_command(Arguments arguments);
[[nodiscard]] std::string list_help();
ExitCode list_command(Arguments arguments);
[[nodiscard]] std::string schema_help();
ExitCode schema_command(Arguments arguments);

}  // namespace ntpsim::cli
