#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ntpsim/scenario/scenario.h"

#include "command.h"
#include "options.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

po::options_description schema_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("what", po::value<std::string>()->default_value("scenario"), "which schema: scenario");
  add("help", po::bool_switch(), "this text");
  return options;
}

}  // namespace

std::string schema_help() {
  return fmt::format(
      "Usage: ntpsim schema scenario\n\n"
      "Prints the JSON Schema (draft-07) of scenario files, for editors and checks.\n\n"
      "Example:\n"
      "  ntpsim schema scenario > scenario.schema.json\n\n{}",
      fmt::streamed(schema_options()));
}

ExitCode schema_command(Arguments arguments) {
  const auto values = parse_options(arguments, schema_options(), "what");
  if (!values) return usage_error("schema", values.error());
  if ((*values)["help"].as<bool>()) return write_output(schema_help());
  const auto what = (*values)["what"].as<std::string>();
  if (what != "scenario") {
    return usage_error("schema", fmt::format("found '{}', expected scenario", what));
  }
  return write_output(scenario::scenario_schema());
}

}  // namespace ntpsim::cli
