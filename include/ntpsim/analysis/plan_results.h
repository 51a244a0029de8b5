#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/analysis/job_plan.h"
#include "ntpsim/analysis/tensor_plan.h"
#include "ntpsim/scenario/scenario.h"

namespace ntpsim::analysis {

enum class PlanFormat : unsigned char {
  kText,
  kJson,
  kMegatron,  ///< NonuniformTPConfig, process groups and hosts of Megatron Core, as JSON
  kHostfile,  ///< one host a rank, for srun -m arbitrary
  kDevices    ///< one GPU index within its host a rank, for CUDA_VISIBLE_DEVICES
};

/// "text", "json", "megatron", "hostfile", "devices", or nothing.
[[nodiscard]] std::optional<PlanFormat> find_plan_format(std::string_view name);

/// A job without a cluster: one TP group of each degree.
struct ModelPlan {
  std::string model;
  TensorPlan tensors;
};

/// Names of the machines of a cluster: machine m holds GPUs [m * gpus_each, (m + 1) * gpus_each), counted
/// domain by domain.
struct Hosts {
  int gpus_each = 1;
  std::vector<std::string> names;  ///< empty: "node00000" and so on
};

/// Seconds of one phase of planning, for those who ask.
struct PlanningPhase {
  std::string_view name;
  double seconds = 0;
};

// The results of `ntpsim plan`, ready to print. Pure functions: the same plan gives the same bytes.

[[nodiscard]] std::string plan_text(const ModelPlan& plan);
[[nodiscard]] std::string plan_text(const JobPlan& plan, std::span<const StateChange> state,
                                    const scenario::LoadedScenario& loaded);

/// `phases` are left out when there are none.
[[nodiscard]] std::string plan_json(const ModelPlan& plan, std::span<const PlanningPhase> phases);
[[nodiscard]] std::string plan_json(const JobPlan& plan, std::span<const StateChange> state,
                                    const scenario::LoadedScenario& loaded,
                                    std::span<const PlanningPhase> phases);

/// `hosts` are left out when there are none.
[[nodiscard]] std::string plan_megatron(const plan::RankPlacement& placement, const Hosts* hosts);
/// The host of every rank of `plan_megatron`, a line each.
[[nodiscard]] std::string plan_hostfile(const plan::RankPlacement& placement, const Hosts& hosts);
/// The GPU of every rank within its host, a line each.
[[nodiscard]] std::string plan_devices(const plan::RankPlacement& placement, const Hosts& hosts);

/// The placement of a job without a cluster: a domain of its own for each TP group, whose last GPUs failed.
/// One group of each reduced degree and a whole one. REQUIRES: degrees as in `plan_tensors`.
[[nodiscard]] plan::RankPlacement placement_of(const TensorPlan& tensors);

}  // namespace ntpsim::analysis
