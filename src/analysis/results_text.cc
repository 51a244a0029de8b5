#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ntpsim/analysis/table.h"
#include "ntpsim/core/quantity.h"

#include "render.h"
#include "text_format.h"

namespace ntpsim::analysis {
namespace {

using Align = Table::Align;
using scenario::Scenario;

std::string interval_text(const Estimate& estimate) {
  if (!estimate.ci95) return "n/a";
  return fmt::format("{:.2f}..{:.2f}%", 100 * estimate.ci95->low, 100 * estimate.ci95->high);
}

// What the healthy job uses and does, so that layouts can be compared: Goodput is relative to it.
std::string healthy_line(const GoodputStudy& study, const Scenario& scenario) {
  constexpr double kTera = 1e12;
  std::string text =
      fmt::format("healthy job: {:.3f} s a step, {} tokens/s, {:.0f} TFLOP/s a GPU", study.healthy_step_s,
                  scaled(study.healthy_tokens_per_s), study.healthy_flops_per_gpu / kTera);
  const std::int64_t idle = scenario.cluster.gpus - study.used_gpus;
  if (idle > 0) {
    text +=
        fmt::format("; uses {} GPUs, {} of the cluster are spare", grouped(study.used_gpus), grouped(idle));
  }
  return text + "\n";
}

std::string run_line(const sim::RunSpec& run) {
  return fmt::format("{} from an all-healthy start, {} replication{}, seed {}\n", to_string(run.horizon),
                     grouped(run.replications), run.replications == 1 ? "" : "s", run.seed);
}

std::string failure_lines(const GoodputStudy& study, const Scenario& scenario) {
  const auto gpus = static_cast<double>(scenario.cluster.gpus);
  std::string text = fmt::format("failures: {:.2f} a day", study.failures_per_day);
  for (std::size_t i = 0; i < study.expected_failures.size(); ++i) {
    text += fmt::format("{}{} {:.2f}", i == 0 ? "; expected: " : ", ", study.expected_failures[i].name,
                        study.expected_failures[i].per_day);
  }
  text += fmt::format("\nfailed GPUs: mean {:.1f} ({:.3f}%), peak {} ({:.3f}%)", study.failed_gpus.mean,
                      100 * study.failed_gpus.mean / gpus, grouped(study.failed_gpus.peak),
                      100 * static_cast<double>(study.failed_gpus.peak) / gpus);
  const char* separator = "; time with more than ";
  for (std::size_t i = 0; i < study.failed_gpus.time_above_fraction.size(); ++i) {
    const double threshold = failed_fraction_thresholds()[i];
    if (threshold * gpus < 1) continue;  // a single failed GPU is more than that
    text += fmt::format("{}{}%: {:.1f}%", separator, 100 * threshold,
                        100 * study.failed_gpus.time_above_fraction[i]);
    separator = ", ";
  }
  return text + "\n";
}

std::string goodput_text(const GoodputStudy& study) {
  Table table({{"policy", Align::kLeft},
               {"spare domains"},
               {"Goodput"},
               {"95% interval"},
               {"per provisioned"},
               {"rate loss"},
               {"effective time"},
               {"tokens/s"}});
  for (const PolicyOutcome& outcome : study.policies) {
    table.add_row({outcome.policy.label, fmt::format("{}", outcome.policy.spare_domains),
                   percent(outcome.goodput.mean), interval_text(outcome.goodput),
                   percent(outcome.goodput_per_provisioned), percent(outcome.throughput_loss.mean),
                   percent(outcome.effective_training_time.mean), scaled(outcome.tokens_per_s)});
  }
  return table.to_string();
}

// A table with one column a policy.
class PolicyColumns {
 public:
  PolicyColumns(const GoodputStudy& study, const std::string& title)
      : study_(study), table_(columns(study, title)) {}

  template <class CellOf>
  void add_row(std::string name, const CellOf& cell_of) {
    std::vector<std::string> row = {std::move(name)};
    for (const PolicyOutcome& outcome : study_.policies) row.push_back(cell_of(outcome));
    table_.add_row(std::move(row));
  }
  [[nodiscard]] std::string to_string() const { return table_.to_string(); }

 private:
  static std::vector<Table::Column> columns(const GoodputStudy& study, const std::string& title) {
    std::vector<Table::Column> columns = {{title, Align::kLeft}};
    for (const PolicyOutcome& outcome : study.policies) columns.push_back({outcome.policy.label});
    return columns;
  }

  const GoodputStudy& study_;
  Table table_;
};

std::string ledger_text(const GoodputStudy& study, Time horizon) {
  PolicyColumns table(study, "where the time goes");
  for (std::size_t i = 0; i < sim::kCategories; ++i) {
    const auto spent = [i](const PolicyOutcome& outcome) { return outcome.ledger[i] > Time(); };
    if (std::ranges::none_of(study.policies, spent)) continue;
    table.add_row(std::string(sim::name_of(static_cast<sim::Category>(i))),
                  [i, horizon](const PolicyOutcome& outcome) {
                    return fmt::format("{:.3f}%", 100 * outcome.ledger[i].seconds() / horizon.seconds());
                  });
  }
  return table.to_string();
}

std::string counts_text(const GoodputStudy& study) {
  PolicyColumns table(study, "mean of a replication");
  const auto count = [&table](const char* name, double PolicyOutcome::* member) {
    table.add_row(name,
                  [member](const PolicyOutcome& outcome) { return fmt::format("{:.1f}", outcome.*member); });
  };
  count("interruptions", &PolicyOutcome::interruptions);
  count("restarts", &PolicyOutcome::restarts);
  count("pauses", &PolicyOutcome::pauses);
  const auto boosted = [](const PolicyOutcome& outcome) { return outcome.boosted_domain_hours > 0; };
  if (std::ranges::any_of(study.policies, boosted)) {
    count("boosted TP group hours", &PolicyOutcome::boosted_domain_hours);
    table.add_row("extra power, mean", [](const PolicyOutcome& outcome) {
      constexpr double kKilo = 1e3;
      return fmt::format("{:.1f} kW", outcome.extra_power_w / kKilo);
    });
  }
  return table.to_string();
}

// How NTP policies run hurt replicas; a longer step is what all replicas pay, and why few hurt ones may not
// be worth it.
std::string reduced_text(const GoodputStudy& study, const models::TrainingSpec& training) {
  Table table({{"hurt replica", Align::kLeft},
               {"GPUs in group"},
               {"TP"},
               {"sequences a step"},
               {"power"},
               {"step of the job"}});
  bool any = false;
  for (const PolicyOutcome& outcome : study.policies) {
    for (const ReducedReplica& replica : outcome.reduced) {
      any = true;
      table.add_row({outcome.policy.label, fmt::format("{}", replica.gpus), fmt::format("{}", replica.degree),
                     fmt::format("{} of {}", replica.sequences, training.local_batch()),
                     fmt::format("{:.0f}% of TDP", 100 * replica.power_fraction),
                     fmt::format("{:+.2f}%", 100 * (replica.step_ratio - 1))});
    }
  }
  return any ? "\n" + table.to_string() : "";
}

}  // namespace

std::string render_text(const GoodputStudy& study, const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  std::string text = headline(scenario) + healthy_line(study, scenario) + run_line(scenario.run);
  text += failure_lines(study, scenario) + "\n" + goodput_text(study) + "\n";
  text += ledger_text(study, scenario.run.horizon) + "\n" + counts_text(study);
  text += reduced_text(study, scenario.job.training);
  text +=
      fmt::format("\n{} step times asked for, {} simulated ({} known before)\n", grouped(study.steps.asked),
                  grouped(study.steps.simulated), percent(study.steps.hit_rate()));
  if (scenario.run.replications == 1) {
    text += "\none replication gives no interval: set replications to 2 or more\n";
  }
  return text;
}

std::string render_text(AvailabilityPoints points, std::int64_t draws, const LoadedScenario& loaded) {
  std::string text = headline(loaded.scenario);
  text +=
      fmt::format("{} draws of failed GPUs a point, seed {}\n\n", grouped(draws), loaded.scenario.run.seed);
  Table table({{"failed"},
               {"GPUs"},
               {"policy", Align::kLeft},
               {"spares"},
               {"loss"},
               {"95% interval"},
               {"whole domains"}});
  for (const AvailabilityPoint& point : points) {
    const sim::PolicySpec& policy = loaded.scenario.policies[point.policy];
    table.add_row({fmt::format("{:.3f}%", 100 * point.failed_fraction), grouped(point.failed_gpus),
                   policy.label, fmt::format("{}", policy.spare_domains), percent(point.loss.mean),
                   interval_text(point.loss), percent(point.domain_availability.mean)});
  }
  return text + table.to_string();
}

}  // namespace ntpsim::analysis
