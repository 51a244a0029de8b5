#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ntpsim/analysis/table.h"
#include "ntpsim/core/quantity.h"

#include "render.h"

namespace ntpsim::analysis {
namespace {

using Align = Table::Align;
using scenario::Scenario;

// 1234567 as "1,234,567".
std::string grouped(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string percent(double ratio) {
  return fmt::format("{:.2f}%", 100 * ratio);
}

std::string interval_text(const Estimate& estimate) {
  if (!estimate.ci95) return "n/a";
  return fmt::format("{:.2f}..{:.2f}%", 100 * estimate.ci95->low, 100 * estimate.ci95->high);
}

// "12.3 M" for rates of tokens.
std::string scaled(double value) {
  static constexpr std::array<std::pair<double, const char*>, 3> kScales = {
      {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [factor, suffix] : kScales) {
    if (value >= factor) return fmt::format("{:.2f}{}", value / factor, suffix);
  }
  return fmt::format("{:.2f}", value);
}

std::string headline(const Scenario& scenario) {
  const models::TrainingSpec& training = scenario.job.training;
  std::string text = fmt::format(
      "{}: {} {} GPUs in {} domains of {} ({}), training {}\nTP {} x PP {}", scenario.name,
      grouped(scenario.cluster.gpus), scenario.cluster.system.gpu.name, grouped(scenario.cluster.domains()),
      scenario.cluster.system.domain_size, scenario.cluster.system.name, scenario.job.model.name,
      training.tensor_model_parallel_size, training.pipeline_model_parallel_size);
  if (training.context_parallel_size > 1) text += fmt::format(" x CP {}", training.context_parallel_size);
  text += fmt::format(" x DP {}", training.data_parallel_size);
  if (training.expert_model_parallel_size > 1)
    text += fmt::format(", EP {}", training.expert_model_parallel_size);
  return text + fmt::format(", {} sequences of {} tokens a step\n", grouped(training.global_batch_size),
                            grouped(training.seq_length));
}

std::string failure_lines(const GoodputStudy& study, const Scenario& scenario) {
  const auto gpus = static_cast<double>(scenario.cluster.gpus);
  std::string text =
      fmt::format("failures: {:.2f} a day; failed GPUs: mean {:.1f} ({:.3f}%), peak {} ({:.3f}%)\n",
                  study.failures_per_day, study.failed_gpus.mean, 100 * study.failed_gpus.mean / gpus,
                  grouped(study.failed_gpus.peak), 100 * static_cast<double>(study.failed_gpus.peak) / gpus);
  text += "time with more failed than";
  for (std::size_t i = 0; i < study.failed_gpus.time_above_fraction.size(); ++i) {
    text += fmt::format("{} {}%: {:.1f}%", i == 0 ? "" : ",", 100 * failed_fraction_thresholds()[i],
                        100 * study.failed_gpus.time_above_fraction[i]);
  }
  return text + "\n";
}

std::string policy_table_text(const GoodputStudy& study) {
  Table table({{"policy", Align::kLeft},
               {"spares"},
               {"Goodput"},
               {"95% interval"},
               {"per provisioned"},
               {"rate loss"},
               {"effective time"},
               {"tokens/s"},
               {"interruptions"},
               {"restarts"},
               {"pauses"},
               {"extra power"}});
  for (const PolicyOutcome& outcome : study.policies) {
    table.add_row({outcome.policy.label, fmt::format("{}", outcome.policy.spare_domains),
                   percent(outcome.goodput.mean), interval_text(outcome.goodput),
                   percent(outcome.goodput_per_provisioned), percent(outcome.throughput_loss.mean),
                   percent(outcome.effective_training_time.mean), scaled(outcome.tokens_per_s),
                   fmt::format("{:.1f}", outcome.interruptions), fmt::format("{:.1f}", outcome.restarts),
                   fmt::format("{:.1f}", outcome.pauses),
                   fmt::format("{:.1f} kW", outcome.extra_power_w / 1e3)});
  }
  return table.to_string();
}

std::string ledger_text(const GoodputStudy& study, Time horizon) {
  std::vector<Table::Column> columns = {{"where the time goes", Align::kLeft}};
  for (const PolicyOutcome& outcome : study.policies) columns.push_back({outcome.policy.label});
  Table table(columns);
  for (std::size_t i = 0; i < sim::kCategories; ++i) {
    std::vector<std::string> row = {std::string(sim::name_of(static_cast<sim::Category>(i)))};
    bool any = false;
    for (const PolicyOutcome& outcome : study.policies) {
      any = any || outcome.ledger[i] > Time();
      row.push_back(fmt::format("{:.3f}%", 100 * outcome.ledger[i].seconds() / horizon.seconds()));
    }
    if (any) table.add_row(std::move(row));
  }
  return table.to_string();
}

}  // namespace

std::string render_text(const GoodputStudy& study, const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  std::string text = headline(scenario);
  text += fmt::format("healthy: {:.3f} s a step, {} tokens/s\n", study.healthy_step_s,
                      scaled(study.healthy_tokens_per_s));
  text += fmt::format("{} simulated, {} replication{}, seed {}\n", to_string(scenario.run.horizon),
                      grouped(scenario.run.replications), scenario.run.replications == 1 ? "" : "s",
                      scenario.run.seed);
  text += failure_lines(study, scenario) + "\n" + policy_table_text(study) + "\n";
  text += ledger_text(study, scenario.run.horizon);
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
