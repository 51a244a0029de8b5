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

// A setting that cannot affect the result of a scenario, whatever its value.
struct IdleSetting {
  std::string_view pointer;
  std::string reason;
};

std::vector<IdleSetting> idle_settings(const Scenario& scenario) {
  std::vector<IdleSetting> idle;
  for (const std::string_view setting : policy_settings()) {
    const bool read = std::ranges::any_of(scenario.policies, [&](const sim::PolicySpec& policy) {
      const PolicyInfo* info = sim::find_policy(policy.name);
      return info == nullptr || reads(*info, setting);
    });
    if (!read) {
      idle.push_back({setting, fmt::format("no chosen policy reads it, so it has no effect (read by: {})",
                                           fmt::join(readers_of(setting), ", "))});
    }
  }
  const bool memoryless = std::ranges::all_of(scenario.failures.classes, [](const auto& failure) {
    return failure.lifetime.family() == models::Distribution::Family::kExponential;
  });
  if (memoryless) {
    idle.push_back({"/failures/initial_age", "no class has lives that depend on age, so it has no effect"});
  }
  return idle;
}

void warn_of_settings(const Scenario& scenario, Reader& reader) {
  for (const IdleSetting& idle : idle_settings(scenario)) {
    if (!reader.good({"/failures"}) && is_within(idle.pointer, "/failures")) continue;
    if (reader.document().find(idle.pointer) != nullptr)
      reader.warning(std::string(idle.pointer), idle.reason);
  }
}

void warn_of_overlap(const models::TrainingSpec& training, Reader& reader) {
  if (!training.tp_comm_overlap) return;
  if (training.tensor_model_parallel_size == 1) {
    reader.warning("/training/tp_comm_overlap", "tensor_model_parallel_size is 1, so it has no effect");
  } else if (!training.sequence_parallel) {
    reader.warning("/training/tp_comm_overlap",
                   "only collectives of sequence_parallel are hidden, so it has no effect");
  }
}

// Settings of experts in a job without, and of recomputed layers where none are counted.
void warn_of_unused(const models::TrainingSpec& training, bool moe, Reader& reader) {
  const models::TrainingSpec usual;
  const auto warn_without_experts = [&](bool set, const char* pointer) {
    if (set && !moe && reader.good({"/model"})) {
      reader.warning(pointer, "the model has no experts, so it has no effect");
    }
  };
  warn_without_experts(training.moe_token_dispatcher != usual.moe_token_dispatcher,
                       "/training/moe_token_dispatcher");
  warn_without_experts(training.overlap_moe_expert_parallel_comm,
                       "/training/overlap_moe_expert_parallel_comm");
  warn_without_experts(training.moe_fused_grouped_mlp, "/training/moe_fused_grouped_mlp");
  if (training.recompute_granularity != models::Recompute::kBlock && training.recompute_num_layers > 0) {
    reader.warning("/training/recompute_num_layers",
                   "only block recomputation counts layers, so it has no effect");
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
  warn_of_overlap(training, reader);
  warn_of_unused(training, scenario.job.model.is_moe(), reader);
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
  warn_of_settings(scenario, reader);
  warn_of_training(doc.training, scenario, reader);
  warn_of_failures(doc, scenario, reader);
}

void leave_out_idle_defaults(const Scenario& scenario, Json& document) {
  // An empty document is its defaults; what it lacks besides does not matter here.
  const Document nothing{Json::object(), "", {}};
  Diagnostics unused;
  Reader reader(nothing, unused);
  ScenarioDoc defaults;
  scenario_section().read(nothing.root, "", defaults, reader);
  defaults.power.boost_limit = default_boost_limit(scenario.cluster.system.gpu);
  const Json written = scenario_section().write(defaults);
  for (const IdleSetting& idle : idle_settings(scenario)) {
    const Json::json_pointer at{std::string(idle.pointer)};
    if (document.at(at) == written.at(at)) document.at(at.parent_pointer()).erase(at.back());
  }
}

}  // namespace ntpsim::scenario
