#include <array>
#include <vector>

#include <fmt/format.h>

#include "csv.h"
#include "render.h"

namespace ntpsim::analysis {
namespace {

using scenario::Scenario;

std::string number(double value) {
  return fmt::format("{}", value);
}

// "goodput_time_s", "paused_time_s": lower case like the other columns, and with its unit.
std::string ledger_column(sim::Category category) {
  std::string name(sim::name_of(category));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name + (name.ends_with("_time") ? "_s" : "_time_s");
}

void add_interval(std::vector<std::string>& cells, const Estimate& estimate) {
  cells.push_back(number(estimate.mean));
  cells.push_back(estimate.ci95 ? number(estimate.ci95->low) : "");
  cells.push_back(estimate.ci95 ? number(estimate.ci95->high) : "");
}

}  // namespace

std::string render_csv(const GoodputStudy& study, const LoadedScenario& loaded) {
  std::vector<std::string> header = {"scenario",
                                     "policy",
                                     "label",
                                     "spare_domains",
                                     "seed",
                                     "replications",
                                     "horizon_s",
                                     "goodput_ratio",
                                     "goodput_ci95_low_ratio",
                                     "goodput_ci95_high_ratio",
                                     "goodput_per_provisioned_ratio",
                                     "throughput_loss_ratio",
                                     "throughput_loss_ci95_low_ratio",
                                     "throughput_loss_ci95_high_ratio",
                                     "effective_training_time_ratio",
                                     "tokens_per_s",
                                     "failures_count",
                                     "interruptions_count",
                                     "restarts_count",
                                     "pauses_count",
                                     "pause_ratio",
                                     "boosted_domain_h",
                                     "extra_power_w"};
  for (std::size_t i = 0; i < sim::kCategories; ++i) {
    header.push_back(ledger_column(static_cast<sim::Category>(i)));
  }
  std::string text = csv_line(header);
  const Scenario& scenario = loaded.scenario;
  for (const PolicyOutcome& outcome : study.policies) {
    std::vector<std::string> cells = {scenario.name,
                                      outcome.policy.name,
                                      outcome.policy.label,
                                      fmt::format("{}", outcome.policy.spare_domains),
                                      fmt::format("{}", scenario.run.seed),
                                      fmt::format("{}", scenario.run.replications),
                                      number(scenario.run.horizon.seconds())};
    add_interval(cells, outcome.goodput);
    cells.push_back(number(outcome.goodput_per_provisioned));
    add_interval(cells, outcome.throughput_loss);
    for (const double value : {outcome.effective_training_time.mean, outcome.tokens_per_s, study.failures,
                               outcome.interruptions, outcome.restarts, outcome.pauses,
                               outcome.pause_fraction, outcome.boosted_domain_hours, outcome.extra_power_w}) {
      cells.push_back(number(value));
    }
    for (const Time span : outcome.ledger) cells.push_back(number(span.seconds()));
    text += csv_line(cells);
  }
  return text;
}

std::string render_csv(AvailabilityPoints points, std::int64_t draws, const LoadedScenario& loaded) {
  const std::array<std::string, 13> header = {"scenario",
                                              "seed",
                                              "draws",
                                              "failed_fraction_ratio",
                                              "failed_gpus_count",
                                              "policy",
                                              "label",
                                              "spare_domains",
                                              "loss_ratio",
                                              "loss_ci95_low_ratio",
                                              "loss_ci95_high_ratio",
                                              "domain_availability_ratio",
                                              "domains_count"};
  std::string text = csv_line(header);
  const Scenario& scenario = loaded.scenario;
  for (const AvailabilityPoint& point : points) {
    const sim::PolicySpec& policy = scenario.policies[point.policy];
    std::vector<std::string> cells = {scenario.name,
                                      fmt::format("{}", scenario.run.seed),
                                      fmt::format("{}", draws),
                                      number(point.failed_fraction),
                                      fmt::format("{}", point.failed_gpus),
                                      policy.name,
                                      policy.label,
                                      fmt::format("{}", policy.spare_domains)};
    add_interval(cells, point.loss);
    cells.push_back(number(point.domain_availability.mean));
    cells.push_back(fmt::format("{}", scenario.cluster.domains()));
    text += csv_line(cells);
  }
  return text;
}

}  // namespace ntpsim::analysis
