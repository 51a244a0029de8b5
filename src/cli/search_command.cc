#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include "ntpsim/analysis/search.h"

#include "command.h"
#include "options.h"
#include "progress_line.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

constexpr const char* kVerb = "search";

po::options_description search_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("scenario", po::value<std::string>(), "scenario file; - for standard input");
  add("gpus", po::value<std::int64_t>(),
      "GPUs of the scenario's system, whole domains (default: the scenario's)");
  add("set", po::value<std::vector<std::string>>(),
      "change a value of the scenario: a.b=value or /a/b/0=value; may be repeated");
  add("fix", po::value<std::vector<std::string>>(),
      "search only layouts with this value: context_parallel_size=1; may be repeated");
  add("format", po::value<std::string>()->default_value("text"), "text, json or csv");
  add("threads", po::value<std::int64_t>(),
      "worker threads (default: one a core); results do not depend on it");
  add("quiet", po::bool_switch(), "no warnings and no progress");
  add("help", po::bool_switch(), "this text");
  return options;
}

// The scenario's cluster, or as many GPUs of its system as asked for.
tl::expected<sim::ClusterSpec, std::string> searched_cluster(const po::variables_map& values,
                                                             sim::ClusterSpec cluster) {
  constexpr std::int64_t kMostGpus = 10'000'000;
  if (!values.contains("gpus")) return cluster;
  const auto gpus = values["gpus"].as<std::int64_t>();
  const int domain = cluster.system.domain_size;
  if (gpus < 1 || gpus > kMostGpus || gpus % domain != 0) {
    return tl::unexpected(fmt::format("--gpus: found {}, expected whole domains of {} GPUs, up to {} GPUs",
                                      gpus, domain, kMostGpus));
  }
  cluster.gpus = gpus;
  return cluster;
}

// "context_parallel_size=1".
tl::expected<analysis::FixedSetting, std::string> read_fixed(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string_view key = std::string_view(text).substr(0, equals);
  std::vector<std::string_view> keys;
  for (const analysis::LayoutSetting& setting : analysis::layout_settings()) {
    keys.push_back(setting.key);
    if (setting.key != key) continue;
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto parsed = std::from_chars(begin, end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end && value >= 1) {
      return analysis::FixedSetting{.setting = setting.value, .value = value};
    }
    return tl::unexpected(
        fmt::format("--fix: found '{}', expected {}= and a whole number above 0", text, key));
  }
  return tl::unexpected(
      fmt::format("--fix: found '{}', expected a number for one of {}", text, fmt::join(keys, ", ")));
}

tl::expected<analysis::SearchOptions, std::string> read_search_options(const po::variables_map& values) {
  analysis::SearchOptions options;
  if (!values.contains("fix")) return options;
  for (const std::string& text : values["fix"].as<std::vector<std::string>>()) {
    const auto fixed = read_fixed(text);
    if (!fixed) return tl::unexpected(fixed.error());
    options.fixed.push_back(*fixed);
  }
  return options;
}

}  // namespace

std::string search_help() {
  return fmt::format(
      "Usage: ntpsim search SCENARIO.json [--gpus N] [options]\n\n"
      "Finds the fastest layout of the scenario's job on its cluster: every tensor, pipeline, virtual "
      "pipeline, context\n"
      "and expert degree with every microbatch, each with the least recomputation that fits into memory. "
      "What "
      "the\n"
      "scenario says of these is not used, but must be valid. Its model, batch, precision and overlaps are "
      "kept.\n\n"
      "Examples:\n"
      "  ntpsim search scenarios/ntp-paper-32k.json --gpus 8192 --fix context_parallel_size=1\n"
      "  ntpsim search scenarios/ntp-paper-32k.json --set cluster.domain_size=8 --set "
      "training.tensor_model_parallel_size=8\n\n{}",
      fmt::streamed(search_options()));
}

ExitCode search_command(Arguments arguments) {
  const auto values = parse_options(arguments, search_options(), "scenario");
  if (!values) return usage_error(kVerb, values.error());
  if ((*values)["help"].as<bool>()) return write_output(search_help());
  const auto options = read_simulation_options(*values);
  if (!options) return usage_error(kVerb, options.error());
  auto how = read_search_options(*values);
  if (!how) return usage_error(kVerb, how.error());
  const auto loaded = load(*options);
  if (!loaded) return ExitCode::kBadInput;
  const auto cluster = searched_cluster(*values, loaded->scenario.cluster);
  if (!cluster) return usage_error(kVerb, cluster.error());
  const sim::JobSpec& job = loaded->scenario.job;
  how->threads = options->threads;
  how->progress = progress_line("layouts", options->quiet);
  return write_output(
      render(search_layouts(*cluster, job.model, job.training, *how), *loaded, options->format));
}

}  // namespace ntpsim::cli
