#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "ntpsim/analysis/plan_results.h"
#include "ntpsim/core/nearest.h"
#include "ntpsim/scenario/hf_config.h"
#include "ntpsim/scenario/text_file.h"

#include "command.h"
#include "options.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

using analysis::PlanFormat;
using analysis::PlanningPhase;

constexpr std::int64_t kLargestTp = 1024;
constexpr std::size_t kMostDegrees = 64;
constexpr double kMostParameters = 1e15;  // bytes of all gradients stay far below 2^63

// For messages: the beginning of what may be anything.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string printable(text.substr(0, kMost));
  for (char& c : printable) {
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("'{}'{}", printable, text.size() > kMost ? "..." : "");
}

po::options_description plan_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("scenario", po::value<std::string>(), "scenario file; - for standard input");
  add("failed", po::value<std::string>(),
      "failed GPUs of the scenario's cluster: \"domain 3: gpu 4,7; domain 11: gpu 0-3\"");
  add("policy", po::value<std::string>(),
      "the scenario's policy that copes (default: the first that reduces TP degrees)");
  add("set", po::value<std::vector<std::string>>(), "change a value of the scenario; may be repeated");
  add("hosts", po::value<std::string>(),
      "file with the names of the scenario's machines, one a line, domain by domain (default: node00000, "
      "...)");
  add("model", po::value<std::string>(), "without a scenario: a model of the catalog, or a config.json");
  add("tensor-model-parallel-size", po::value<std::int64_t>(), "GPUs of a whole TP group");
  add("reduced", po::value<std::string>(), "degrees of hurt TP groups, comma-separated");
  add("format", po::value<std::string>()->default_value("text"),
      "text, json, megatron (NonuniformTPConfig, groups and hosts), hostfile or devices");
  add("quiet", po::bool_switch(), "no warnings");
  add("timings", po::bool_switch(), "seconds of each phase of planning, on stderr and in json");
  add("help", po::bool_switch(), "this text");
  return options;
}

/// Seconds of the phases of planning.
class Stopwatch {
 public:
  void lap(std::string_view phase) {
    const auto now = Clock::now();
    phases_.push_back({phase, std::chrono::duration<double>(now - start_).count()});
    start_ = now;
  }
  [[nodiscard]] const std::vector<PlanningPhase>& phases() const { return phases_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  std::vector<PlanningPhase> phases_;
};

std::optional<std::string> text_of(const po::variables_map& values, const char* name) {
  if (!values.contains(name)) return std::nullopt;
  return values[name].as<std::string>();
}

std::optional<std::int64_t> number_of(const po::variables_map& values, const char* name) {
  if (!values.contains(name)) return std::nullopt;
  return values[name].as<std::int64_t>();
}

// Options that only make sense with the other kind of input.
std::optional<std::string> misplaced_option(const po::variables_map& values, bool has_scenario) {
  static constexpr std::array kOfScenario = {"failed", "policy", "set", "hosts"};
  static constexpr std::array kOfModel = {"model", "tensor-model-parallel-size", "reduced"};
  const auto given = [&values](const char* name) { return values.contains(name); };
  if (has_scenario) {
    const auto* const found = std::ranges::find_if(kOfModel, given);
    if (found == kOfModel.end()) return std::nullopt;
    return fmt::format("--{}: does not go with a scenario, which says it itself; use --set and --failed",
                       *found);
  }
  const auto* const found = std::ranges::find_if(kOfScenario, given);
  if (found == kOfScenario.end()) return std::nullopt;
  return fmt::format("--{}: needs a scenario file", *found);
}

tl::expected<std::vector<int>, std::string> read_degrees(const std::string& text, std::int64_t tp) {
  std::vector<int> degrees;
  std::vector<std::string> errors;
  for (const std::string& word : split_list(text)) {
    int degree = 0;
    const char* const end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, degree);
    if (parsed.ec != std::errc() || parsed.ptr != end || degree < 1 || degree >= tp) {
      errors.push_back(shown(word));
    }
    degrees.push_back(degree);
  }
  if (degrees.size() > kMostDegrees) {
    return tl::unexpected(
        fmt::format("--reduced: found {} degrees, expected at most {}", degrees.size(), kMostDegrees));
  }
  if (errors.empty()) return degrees;
  if (tp == 1) return tl::unexpected(std::string("--reduced: a TP group of one GPU has nothing to reduce"));
  return tl::unexpected(fmt::format("--reduced: found {}, expected whole numbers from 1 to {}",
                                    fmt::join(errors, ", "), tp - 1));
}

std::string unknown_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const models::TransformerSpec& model : models::model_catalog()) names.push_back(model.name);
  const auto near = nearest_name(name, names);
  return fmt::format("--model: found {}, expected a model of 'ntpsim list models' or a config.json{}",
                     shown(name), near ? fmt::format("; did you mean '{}'?", *near) : "");
}

Result<models::TransformerSpec> read_model(const std::string& name) {
  if (const models::TransformerSpec* const model = models::find_model(name)) return *model;
  if (name.ends_with(".json")) return scenario::load_hf_config(name);
  Diagnostics errors;
  errors.error("command line", "", unknown_model(name));
  return tl::unexpected(std::move(errors));
}

tl::expected<models::TrainingSpec, std::string> read_training(const po::variables_map& values,
                                                              const models::TransformerSpec& model) {
  models::TrainingSpec training;
  const auto tp = number_of(values, "tensor-model-parallel-size");
  if (!tp) return tl::unexpected(std::string("--tensor-model-parallel-size: name the GPUs of a TP group"));
  if (*tp < 1 || *tp > kLargestTp) {
    return tl::unexpected(
        fmt::format("--tensor-model-parallel-size: found {}, expected 1 to {}", *tp, kLargestTp));
  }
  training.tensor_model_parallel_size = *tp;
  // The experts of a layer are spread over the ranks of the TP group.
  if (model.experts) training.expert_model_parallel_size = *tp;
  return training;
}

void print_phases(const std::vector<PlanningPhase>& phases) {
  for (const PlanningPhase& phase : phases) say(fmt::format("{}: {:.6f} s\n", phase.name, phase.seconds));
}

ExitCode write_model_plan(const analysis::ModelPlan& plan, PlanFormat format,
                          const std::vector<PlanningPhase>& phases) {
  switch (format) {
    case PlanFormat::kJson:
      return write_output(plan_json(plan, phases));
    case PlanFormat::kMegatron:
      return write_output(analysis::plan_megatron(analysis::placement_of(plan.tensors), nullptr));
    case PlanFormat::kHostfile:
    case PlanFormat::kDevices:
      return usage_error("plan",
                         "--format hostfile, devices: needs a scenario file, whose cluster has hosts");
    case PlanFormat::kText:
      break;
  }
  return write_output(plan_text(plan));
}

ExitCode plan_model(const po::variables_map& values, PlanFormat format) {
  const auto name = text_of(values, "model");
  if (!name) return usage_error("plan", "name a scenario file, or a --model");
  const auto model = read_model(*name);
  if (!model) {
    print_diagnostics(model.error());
    return ExitCode::kBadInput;
  }
  if (model->total_parameters() > kMostParameters) {
    return usage_error("plan", fmt::format("--model: found {:.2g} parameters, expected at most {:.0g}",
                                           model->total_parameters(), kMostParameters));
  }
  const auto training = read_training(values, *model);
  if (!training) return usage_error("plan", training.error());
  std::vector<int> degrees = {static_cast<int>(training->tensor_model_parallel_size)};
  if (const auto reduced = text_of(values, "reduced")) {
    const auto read = read_degrees(*reduced, training->tensor_model_parallel_size);
    if (!read) return usage_error("plan", read.error());
    degrees.insert(degrees.end(), read->begin(), read->end());
  }
  Stopwatch watch;
  const analysis::ModelPlan plan = {.model = model->name,
                                    .tensors = analysis::plan_tensors(*model, *training, degrees)};
  watch.lap("tensors");
  if (!values["timings"].as<bool>()) return write_model_plan(plan, format, {});
  print_phases(watch.phases());
  return write_model_plan(plan, format, watch.phases());
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool is_host_name(std::string_view name) {
  constexpr std::size_t kLongest = 253;  // of a name in DNS
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, fits);
}

Result<analysis::Hosts> read_hosts(const std::optional<std::string>& file, const models::SystemSpec& system,
                                   std::int64_t domains) {
  analysis::Hosts hosts = {.gpus_each = system.gpus_per_tray, .names = {}};
  if (!file) return hosts;
  const Result<std::string> text = scenario::read_text(*file);
  if (!text) return tl::unexpected(text.error());
  hosts.names = lines_of(*text);
  Diagnostics errors;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < hosts.names.size(); ++i) {
    const std::string& name = hosts.names[i];
    if (!is_host_name(name)) {
      errors.error(*file, "",
                   fmt::format("line {}: found {}, expected the name of a machine", i + 1, shown(name)));
    } else if (!seen.insert(name).second) {
      errors.error(*file, "", fmt::format("line {}: found {} a second time", i + 1, shown(name)));
    }
  }
  const std::int64_t expected = domains * (system.domain_size / system.gpus_per_tray);
  if (std::ssize(hosts.names) != expected) {
    errors.error(
        *file, "",
        fmt::format("found {} machines, expected {}: {} domains of {} GPUs, {} a machine", hosts.names.size(),
                    expected, domains, system.domain_size, system.gpus_per_tray));
  }
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return hosts;
}

struct PlannedScenario {
  analysis::JobPlan plan;
  analysis::Hosts hosts;
};

Result<PlannedScenario> plan_scenario(const po::variables_map& values, const scenario::Scenario& scenario,
                                      Stopwatch& watch) {
  const auto policy = analysis::choose_policy(scenario, text_of(values, "policy"));
  if (!policy) return tl::unexpected(policy.error());
  const std::int64_t domains = scenario.cluster.domains() + policy->spare_domains;
  const int domain_size = scenario.cluster.system.domain_size;
  const auto failed = values.contains("failed")
                          ? plan::parse_failed_gpus(*text_of(values, "failed"), domains, domain_size)
                          : plan::FailedGpus(domains, domain_size);
  auto hosts = read_hosts(text_of(values, "hosts"), scenario.cluster.system, domains);
  if (!failed || !hosts) {
    Diagnostics errors;
    if (!failed) errors.append(failed.error());
    if (!hosts) errors.append(hosts.error());
    return tl::unexpected(std::move(errors));
  }
  watch.lap("input");
  auto plan = analysis::plan_job(scenario, *policy, *failed);
  if (!plan) return tl::unexpected(plan.error());
  watch.lap("job");
  return PlannedScenario{.plan = *std::move(plan), .hosts = *std::move(hosts)};
}

ExitCode plan_scenario(const po::variables_map& values, PlanFormat format) {
  scenario::LoadOptions load;
  if (values.contains("set")) load.sets = values["set"].as<std::vector<std::string>>();
  Stopwatch watch;
  const auto loaded = scenario::load_scenario(values["scenario"].as<std::string>(), load);
  if (!loaded) {
    print_diagnostics(loaded.error());
    return ExitCode::kBadInput;
  }
  const auto planned = plan_scenario(values, loaded->scenario, watch);
  if (!planned) {
    print_diagnostics(planned.error());
    return ExitCode::kBadInput;
  }
  if (!values["quiet"].as<bool>()) print_diagnostics(loaded->warnings);
  const auto& [plan, hosts] = *planned;
  std::vector<analysis::StateChange> state;
  if (format == PlanFormat::kText || format == PlanFormat::kJson) {
    state = analysis::state_change_of(loaded->scenario, plan);
    watch.lap("state_change");
  }
  const bool timings = values["timings"].as<bool>();
  if (timings) print_phases(watch.phases());
  switch (format) {
    case PlanFormat::kJson:
      return write_output(
          analysis::plan_json(plan, state, *loaded, timings ? watch.phases() : std::vector<PlanningPhase>()));
    case PlanFormat::kMegatron:
      return write_output(analysis::plan_megatron(plan.placement, &hosts));
    case PlanFormat::kHostfile:
      return write_output(analysis::plan_hostfile(plan.placement, hosts));
    case PlanFormat::kDevices:
      return write_output(analysis::plan_devices(plan.placement, hosts));
    case PlanFormat::kText:
      break;
  }
  return write_output(analysis::plan_text(plan, state, *loaded));
}

}  // namespace

std::string plan_help() {
  return fmt::format(
      "Usage: ntpsim plan SCENARIO.json [--failed \"...\"] [options]\n"
      "       ntpsim plan --model NAME --tensor-model-parallel-size N [--reduced N,...] [options]\n\n"
      "Plans a job some of whose TP groups run at a reduced degree: which rank holds what of every tensor, "
      "what\n"
      "moves before and after the gradient sync, and, on a scenario's cluster with failed GPUs, which GPU "
      "is\n"
      "which rank.\n\n"
      "Examples:\n"
      "  ntpsim plan --model llama3.1-405b --tensor-model-parallel-size 32 --reduced 30\n"
      "  ntpsim plan scenarios/ntp-paper-32k.json --failed \"domain 3: gpu 4,7; domain 11: gpu 0\" "
      "--format megatron\n\n{}",
      fmt::streamed(plan_options()));
}

ExitCode plan_command(Arguments arguments) {
  const auto values = parse_options(arguments, plan_options(), "scenario");
  if (!values) return usage_error("plan", values.error());
  if ((*values)["help"].as<bool>()) return write_output(plan_help());
  const auto format_name = (*values)["format"].as<std::string>();
  const auto format = analysis::find_plan_format(format_name);
  if (!format) {
    return usage_error(
        "plan",
        fmt::format("--format: found '{}', expected text, json, megatron, hostfile or devices", format_name));
  }
  const bool has_scenario = values->contains("scenario");
  if (const auto misplaced = misplaced_option(*values, has_scenario)) return usage_error("plan", *misplaced);
  return has_scenario ? plan_scenario(*values, *format) : plan_model(*values, *format);
}

}  // namespace ntpsim::cli
