#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ntpsim/analysis/availability_study.h"

#include "command.h"
#include "options.h"
#include "progress_line.h"

namespace ntpsim::cli {
namespace po = boost::program_options;
namespace {

constexpr std::int64_t kMostDraws = 10'000'000;

po::options_description availability_options() {
  po::options_description options = simulation_options();
  auto add = options.add_options();
  add("failed-fractions", po::value<std::string>()->default_value("0.0005,0.001,0.002,0.003,0.004"),
      "shares of failed GPUs, comma-separated");
  add("draws", po::value<std::int64_t>()->default_value(1000), "random sets of failed GPUs a share");
  return options;
}

// "0.004" or "0.4%".
std::optional<double> read_fraction(std::string_view word) {
  const bool percent = word.ends_with('%');
  if (percent) word.remove_suffix(1);
  double number = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) return std::nullopt;
  const double fraction = percent ? number / 100 : number;
  return fraction >= 0 && fraction <= 1 ? std::optional(fraction) : std::nullopt;
}

tl::expected<analysis::AvailabilityOptions, std::string> read_availability_options(
    const po::variables_map& values) {
  analysis::AvailabilityOptions options;
  for (const std::string& word : split_list(values["failed-fractions"].as<std::string>())) {
    const std::optional<double> fraction = read_fraction(word);
    if (!fraction) {
      return tl::unexpected(fmt::format(
          "--failed-fractions: found '{}', expected numbers from 0 to 1, as in 0.001,0.004 or 0.1%,0.4%",
          word));
    }
    options.failed_fractions.push_back(*fraction);
  }
  options.draws = values["draws"].as<std::int64_t>();
  if (options.draws < 1 || options.draws > kMostDraws) {
    return tl::unexpected(fmt::format("--draws: found {}, expected 1 to {}", options.draws, kMostDraws));
  }
  return options;
}

// Says so when the draws would take hours.
std::optional<std::string> too_much_work(const analysis::AvailabilityOptions& options,
                                         const scenario::Scenario& scenario) {
  constexpr double kMostFailed = 2e10;
  const double failed = std::ranges::max(options.failed_fractions) *
                        static_cast<double>(scenario.cluster.gpus) * static_cast<double>(options.draws);
  if (failed <= kMostFailed) return std::nullopt;
  return fmt::format(
      "--draws: {} draws would fail {:.2g} GPUs in all, expected at most {:.0g}; lower --draws",
      options.draws, failed, kMostFailed);
}

// A scenario file serves every verb, so what it says about time is no surprise here; a --set that cannot
// matter is.
void warn_of_unread_sets(const std::vector<std::string>& sets) {
  static constexpr std::array<std::string_view, 6> kUnread = {"failures", "checkpoint",   "recovery",
                                                              "horizon",  "replications", "name"};
  for (const std::string& set : sets) {
    std::string_view key = set;
    if (key.starts_with('/')) key.remove_prefix(1);
    key = key.substr(0, key.find_first_of("./="));
    if (std::ranges::find(kUnread, key) == kUnread.end()) continue;
    say(fmt::format("warning: --set: {}: has no effect: availability does not read /{}\n", set, key));
  }
}

}  // namespace

std::string availability_help() {
  return fmt::format(
      "Usage: ntpsim availability SCENARIO.json [options]\n\n"
      "Fails a given share of the GPUs at random, many times, and reports the training rate that each policy "
      "loses\n"
      "on what is left. No time passes: failures, recovery and checkpoints of the scenario are not read.\n\n"
      "Example:\n"
      "  ntpsim availability scenarios/ntp-paper-32k.json --failed-fractions 0.001,0.004 --draws 1000\n\n{}",
      fmt::streamed(availability_options()));
}

ExitCode availability_command(Arguments arguments) {
  const auto values = parse_options(arguments, availability_options(), "scenario");
  if (!values) return usage_error("availability", values.error());
  if ((*values)["help"].as<bool>()) return write_output(availability_help());
  const auto options = read_simulation_options(*values);
  if (!options) return usage_error("availability", options.error());
  const auto availability = read_availability_options(*values);
  if (!availability) return usage_error("availability", availability.error());
  const auto loaded = load(*options);
  if (!loaded) return ExitCode::kBadInput;
  if (const auto excess = too_much_work(*availability, loaded->scenario))
    return usage_error("availability", *excess);
  if (!options->quiet) warn_of_unread_sets(options->load.sets);
  const auto points = analysis::run_availability_study(
      loaded->scenario, *availability,
      {.threads = options->threads, .progress = progress_line("draws", options->quiet)});
  return write_output(analysis::render(points, availability->draws, *loaded, options->format));
}

}  // namespace ntpsim::cli
