#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ntpsim/analysis/goodput_study.h"

#include "command.h"
#include "options.h"
#include "progress_line.h"

namespace ntpsim::cli {

std::string run_help() {
  return fmt::format(
      "Usage: ntpsim run SCENARIO.json [options]\n\n"
      "Simulates the job of a scenario through its failures, once a replication, under each policy, and "
      "reports\n"
      "Goodput with its 95% interval, where the rest of the time went, and what the failures were.\n\n"
      "Examples:\n"
      "  ntpsim run scenarios/ntp-paper-32k.json\n"
      "  ntpsim run scenarios/llama3-405b-16k-h100.json --policies dp_drop,ntp --format json\n"
      "  ntpsim run scenarios/small.json --set horizon=\"90 d\" --set replications=200\n\n{}",
      fmt::streamed(simulation_options()));
}

ExitCode run_command(Arguments arguments) {
  const auto values = parse_options(arguments, simulation_options(), "scenario");
  if (!values) return usage_error("run", values.error());
  if ((*values)["help"].as<bool>()) return write_output(run_help());
  const auto options = read_simulation_options(*values);
  if (!options) return usage_error("run", options.error());
  const auto loaded = load(*options);
  if (!loaded) return ExitCode::kBadInput;
  const analysis::GoodputStudy study = analysis::run_goodput_study(
      loaded->scenario,
      {.threads = options->threads, .progress = progress_line("replications", options->quiet)});
  return write_output(analysis::render(study, *loaded, options->format));
}

}  // namespace ntpsim::cli
