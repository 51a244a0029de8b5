#include "options.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

#include "ntpsim/core/nearest.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

std::string unknown_option(const std::string& name, const po::options_description& options) {
  std::vector<std::string> long_names;
  for (const auto& option : options.options()) long_names.push_back("--" + option->long_name());
  const std::vector<std::string_view> candidates(long_names.begin(), long_names.end());
  const auto near = nearest_name(name, candidates);
  return fmt::format("unknown option '{}'{}", name, near ? fmt::format("; did you mean '{}'?", *near) : "");
}

// What the user wrote where a number was expected; the library keeps it for its own message only.
std::string given_value(const po::invalid_option_value& error) {
  const std::string text = error.what();
  const std::size_t open = text.find("('");
  const std::size_t close = text.rfind("')");
  return open == std::string::npos || close < open + 2 ? "" : text.substr(open + 2, close - open - 2);
}

}  // namespace

tl::expected<po::variables_map, std::string> parse_options(Arguments arguments,
                                                           const po::options_description& options,
                                                           const char* positional) {
  po::positional_options_description positions;
  po::options_description all;
  all.add(options);
  positions.add(positional, 1);
  // Abbreviations would turn a later option into a change of meaning of an older command line.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    const std::vector<std::string> words(arguments.begin(), arguments.end());
    po::store(po::command_line_parser(words).options(all).positional(positions).style(style).run(), values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    return tl::unexpected(unknown_option(error.get_option_name(), options));
  } catch (const po::invalid_option_value& error) {
    return tl::unexpected(
        fmt::format("{}: found '{}', expected a whole number", error.get_option_name(), given_value(error)));
  } catch (const po::too_many_positional_options_error&) {
    return tl::unexpected(std::string("more arguments than expected"));
  } catch (const po::error& error) {
    return tl::unexpected(std::string(error.what()));
  }
  return values;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t first = part.find_first_not_of(' ');
    parts.emplace_back(first == std::string_view::npos
                           ? std::string_view()
                           : part.substr(first, part.find_last_not_of(' ') - first + 1));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

void say(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

ExitCode usage_error(std::string_view verb, std::string_view message) {
  say(fmt::format("error: command line: {}\nsee 'ntpsim help {}'\n", message, verb));
  return ExitCode::kBadInput;
}

void print_diagnostics(const Diagnostics& diagnostics) {
  constexpr std::size_t kMostShown = 200;
  const auto& items = diagnostics.items();
  for (std::size_t i = 0; i < items.size() && i < kMostShown; ++i) say(to_string(items[i]) + "\n");
  if (items.size() > kMostShown) say(fmt::format("and {} more\n", items.size() - kMostShown));
}

ExitCode write_output(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return ExitCode::kOk;
  std::perror("ntpsim: standard output");
  return ExitCode::kFailed;
}

ExitCode write_file(const std::string& path, std::string_view text) {
  const auto failure = [&path] {
    std::perror(("ntpsim: " + path).c_str());
    return ExitCode::kFailed;
  };
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failure();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed ? ExitCode::kOk : failure();
}

tl::expected<analysis::Format, std::string> read_format(const po::variables_map& values) {
  const auto name = values["format"].as<std::string>();
  const auto format = analysis::find_format(name);
  if (!format) {
    return tl::unexpected(fmt::format("--format: found '{}', expected text, json or csv", name));
  }
  return *format;
}

po::options_description simulation_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("scenario", po::value<std::string>(), "scenario file; - for standard input");
  add("policies", po::value<std::string>(), "only these policies, comma-separated, in this order");
  add("set", po::value<std::vector<std::string>>(),
      "change a value of the scenario: a.b=value or /a/b/0=value; may be repeated");
  add("format", po::value<std::string>()->default_value("text"), "text, json or csv");
  add("threads", po::value<std::int64_t>(),
      "worker threads (default: one a core); results do not depend on it");
  add("quiet", po::bool_switch(), "no warnings and no progress");
  add("help", po::bool_switch(), "this text");
  return options;
}

tl::expected<SimulationOptions, std::string> read_simulation_options(const po::variables_map& values) {
  SimulationOptions options;
  if (!values.contains("scenario")) return tl::unexpected(std::string("name a scenario file"));
  options.scenario = values["scenario"].as<std::string>();
  const auto format = read_format(values);
  if (!format) return tl::unexpected(format.error());
  options.format = *format;
  if (values.contains("policies")) options.load.policies = split_list(values["policies"].as<std::string>());
  if (values.contains("set")) options.load.sets = values["set"].as<std::vector<std::string>>();
  constexpr std::int64_t kMostThreads = 1024;
  const std::int64_t threads = values.contains("threads")
                                   ? values["threads"].as<std::int64_t>()
                                   : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  if (threads < 1 || threads > kMostThreads) {
    return tl::unexpected(fmt::format("--threads: found {}, expected 1 to {}", threads, kMostThreads));
  }
  options.threads = static_cast<unsigned>(threads);
  options.quiet = values["quiet"].as<bool>();
  return options;
}

std::optional<scenario::LoadedScenario> load(const SimulationOptions& options) {
  auto loaded = scenario::load_scenario(options.scenario, options.load);
  if (!loaded) {
    print_diagnostics(loaded.error());
    return std::nullopt;
  }
  if (!options.quiet) print_diagnostics(loaded->warnings);
  return std::move(*loaded);
}

}  // namespace ntpsim::cli
