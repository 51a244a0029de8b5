#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ntpsim/sim/policy_table.h"

#include "resolve.h"

namespace ntpsim::scenario {
namespace {

using sim::PolicyInfo;

bool reads(const PolicyInfo& policy, std::string_view setting) {
  return std::ranges::find(policy.settings, setting) != policy.settings.end();
}

// The settings that only some policies read, in the order of the policy table.
std::vector<std::string_view> policy_settings() {
  std::vector<std::string_view> settings;
  for (const PolicyInfo& policy : sim::policy_table()) {
    for (const std::string_view setting : policy.settings) {
      if (std::ranges::find(settings, setting) == settings.end()) settings.push_back(setting);
    }
  }
  return settings;
}

std::vector<std::string_view> readers_of(std::string_view setting) {
  std::vector<std::string_view> names;
  for (const PolicyInfo& policy : sim::policy_table()) {
    if (reads(policy, setting)) names.push_back(policy.name);
  }
  return names;
}

void warn_of_policy_settings(const Scenario& scenario, Reader& reader) {
  for (const std::string_view setting : policy_settings()) {
    if (reader.document().find(setting) == nullptr) continue;
    const bool read = std::ranges::any_of(scenario.policies, [&](const sim::PolicySpec& policy) {
      const PolicyInfo* info = sim::find_policy(policy.name);
      return info == nullptr || reads(*info, setting);
    });
    if (read) continue;
    reader.warning(std::string(setting),
                   fmt::format("no chosen policy reads it, so it has no effect (read by: {})",
                               fmt::join(readers_of(setting), ", ")));
  }
}

void warn_of_training(const TrainingDoc& doc, const Scenario& scenario, Reader& reader) {
  const models::TrainingSpec& training = scenario.job.training;
  if (!scenario.job.model.is_moe() && doc.given_expert_tensor_parallel_size && reader.good({"/model"})) {
    reader.warning("/training/expert_tensor_parallel_size",
                   fmt::format("{} has no experts, so it has no effect", scenario.job.model.name));
  }
  if (doc.given_overlap_param_gather.value_or(false) && !training.use_distributed_optimizer) {
    reader.warning("/training/overlap_param_gather",
                   "only the distributed optimizer gathers parameters, so it has no effect");
  }
  if (doc.given_sequence_parallel.value_or(false) && training.tensor_model_parallel_size == 1) {
    reader.warning("/training/sequence_parallel", "tensor_model_parallel_size is 1, so it has no effect");
  }
}

bool has_tray_scope(const models::FailureClass& failure) {
  return failure.component == models::Scope::kTray || failure.blast_radius == models::Scope::kTray;
}

void warn_of_failures(const ScenarioDoc& doc, const Scenario& scenario, Reader& reader) {
  if (!reader.good({"/failures"})) return;
  const auto& classes = scenario.failures.classes;
  if (classes.empty()) reader.warning("/failures/classes", "there are none, so nothing ever fails");
  if (doc.cluster.system && doc.cluster.gpus_per_tray && std::ranges::none_of(classes, has_tray_scope)) {
    reader.warning("/cluster/gpus_per_tray", "no failure class concerns trays, so it has no effect");
  }
}

}  // namespace

void warn_of_idle_inputs(const ScenarioDoc& doc, const Scenario& scenario, Reader& reader) {
  warn_of_policy_settings(scenario, reader);
  warn_of_training(doc.training, scenario, reader);
  warn_of_failures(doc, scenario, reader);
}

}  // namespace ntpsim::scenario
