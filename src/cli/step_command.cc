#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ntpsim/analysis/step_results.h"
#include "ntpsim/analysis/trace.h"
#include "ntpsim/sim/step_timeline.h"

#include "command.h"
#include "options.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

constexpr const char* kVerb = "step";
// Passes in a trace, at some 300 bytes each. Viewers cope with some hundred megabytes.
constexpr std::int64_t kMostPasses = 400'000;

po::options_description step_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("scenario", po::value<std::string>(), "scenario file; - for standard input");
  add("set", po::value<std::vector<std::string>>(),
      "change a value of the scenario: a.b=value or /a/b/0=value; may be repeated");
  add("format", po::value<std::string>()->default_value("text"), "text, json or csv");
  add("trace", po::value<std::string>(), "write the step to this file, for ui.perfetto.dev");
  add("trace-microbatches", po::value<std::int64_t>()->default_value(0),
      "trace only this many microbatches, as a step of their own (0: all)");
  add("trace-detail", po::value<std::int64_t>()->default_value(1),
      "trace the single operations of the first microbatches, this many");
  add("quiet", po::bool_switch(), "no warnings");
  add("help", po::bool_switch(), "this text");
  return options;
}

// What is wrong with the options of the trace for this job.
std::optional<std::string> trace_error(const po::variables_map& values,
                                       const models::TrainingSpec& training) {
  const auto microbatches = values["trace-microbatches"].as<std::int64_t>();
  const auto detail = values["trace-detail"].as<std::int64_t>();
  if (microbatches < 0)
    return fmt::format("--trace-microbatches: found {}, expected 0 or more", microbatches);
  if (detail < 0) return fmt::format("--trace-detail: found {}, expected 0 or more", detail);
  const std::int64_t chunks =
      training.pipeline_model_parallel_size * training.virtual_pipeline_model_parallel_size;
  const std::int64_t shown =
      microbatches > 0 ? std::min(microbatches, training.microbatches()) : training.microbatches();
  if (shown <= kMostPasses / (2 * chunks)) return std::nullopt;
  return fmt::format(
      "--trace: {} microbatches of {} model chunks are more than the {} passes that a viewer copes with; "
      "give "
      "--trace-microbatches of at most {}",
      shown, chunks, kMostPasses, std::max<std::int64_t>(1, kMostPasses / (2 * chunks)));
}

ExitCode write_trace(const po::variables_map& values, const scenario::Scenario& scenario,
                     const sim::ReplicaShape& shape) {
  Timeline timeline =
      sim::step_timeline(scenario.cluster.system, scenario.job.model, scenario.job.training, shape,
                         {.microbatches = values["trace-microbatches"].as<std::int64_t>(),
                          .detailed_microbatches = values["trace-detail"].as<std::int64_t>()});
  timeline.name = scenario.name;
  return write_file(values["trace"].as<std::string>(), analysis::trace_json(timeline));
}

}  // namespace

std::string step_help() {
  return fmt::format(
      "Usage: ntpsim step SCENARIO.json [--trace step.json] [options]\n\n"
      "Plays one training step of a scenario's healthy job: step time, TFLOP/s a GPU, MFU, what the slowest "
      "pipeline\nstage spends the time on, and the memory of the fullest GPU.\n\n"
      "Examples:\n"
      "  ntpsim step scenarios/llama3-405b-gb200-nvl72.json\n"
      "  ntpsim step scenarios/small.json --trace step.json --trace-microbatches 8\n\n{}",
      fmt::streamed(step_options()));
}

ExitCode step_command(Arguments arguments) {
  const auto values = parse_options(arguments, step_options(), "scenario");
  if (!values) return usage_error(kVerb, values.error());
  if ((*values)["help"].as<bool>()) return write_output(step_help());
  if (!values->contains("scenario")) return usage_error(kVerb, "name a scenario file");
  const auto format = read_format(*values);
  if (!format) return usage_error(kVerb, format.error());
  SimulationOptions options;
  options.scenario = (*values)["scenario"].as<std::string>();
  options.quiet = (*values)["quiet"].as<bool>();
  if (values->contains("set")) options.load.sets = (*values)["set"].as<std::vector<std::string>>();
  const auto loaded = load(options);
  if (!loaded) return ExitCode::kBadInput;
  const bool traces = values->contains("trace");
  if (traces) {
    if (const auto wrong = trace_error(*values, loaded->scenario.job.training))
      return usage_error(kVerb, *wrong);
  }
  const analysis::StepStudy study = analysis::study_step(loaded->scenario);
  if (traces) {
    const ExitCode written = write_trace(*values, loaded->scenario, study.shape);
    if (written != ExitCode::kOk) return written;
  }
  return write_output(render(study, *loaded, *format));
}

}  // namespace ntpsim::cli
