#include "resolve.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ntpsim/models/memory.h"
#include "ntpsim/sim/policy_table.h"

namespace ntpsim::scenario {
namespace {

// ---- cluster

// What an inline cluster leaves out, compared with a catalog system.
void report_missing_of_inline(const ClusterDoc& doc, Reader& reader) {
  const auto require = [&](const char* key, bool present) {
    const std::string pointer = child_pointer("/cluster", key);
    if (present || !reader.good({pointer})) return;
    reader.error(pointer, "missing; a cluster without \"system\" needs it");
  };
  require("gpu", doc.gpu.has_value());
  require("domain_size", doc.domain_size.has_value());
  require("nvlink_bandwidth", doc.nvlink_bandwidth.has_value());
  require("nic_bandwidth", doc.nic_bandwidth.has_value());
}

models::SystemSpec base_system(const ClusterDoc& doc) {
  if (doc.system) return *models::find_system(*doc.system);
  models::SystemSpec system;
  system.name = "inline system";
  system.domain_size = 1;
  system.gpus_per_tray = static_cast<int>(doc.domain_size.value_or(1));
  system.nvlink_latency = Time::from_ns(1'000);
  system.nic_latency = Time::from_ns(10'000);
  return system;
}

void check_cluster(const sim::ClusterSpec& cluster, Reader& reader) {
  if (!reader.good({"/cluster/system", "/cluster/domain_size"})) return;
  const std::int64_t domain = cluster.system.domain_size;
  if (reader.good({"/cluster/gpus"}) && cluster.gpus % domain != 0) {
    reader.error("/cluster/gpus",
                 fmt::format("found {} GPUs, expected a multiple of domain_size {}{}", cluster.gpus, domain,
                             nearest_multiples(cluster.gpus, domain, kMaxGpus)));
  }
  if (reader.good({"/cluster/gpus_per_tray"}) && domain % cluster.system.gpus_per_tray != 0) {
    reader.error("/cluster/gpus_per_tray", fmt::format("found {}, expected a divisor of domain_size {}",
                                                       cluster.system.gpus_per_tray, domain));
  }
}

sim::ClusterSpec resolve_cluster(const ClusterDoc& doc, Reader& reader) {
  if (!doc.system && reader.good({"/cluster/system"})) report_missing_of_inline(doc, reader);
  sim::ClusterSpec cluster{base_system(doc), doc.gpus};
  models::SystemSpec& system = cluster.system;
  system.name = doc.name.value_or(system.name);
  system.source = doc.source.value_or(system.source);
  system.gpu = doc.gpu.value_or(system.gpu);
  system.domain_size = static_cast<int>(doc.domain_size.value_or(system.domain_size));
  system.gpus_per_tray = static_cast<int>(doc.gpus_per_tray.value_or(system.gpus_per_tray));
  system.nvlink_bandwidth = doc.nvlink_bandwidth.value_or(system.nvlink_bandwidth);
  system.nic_bandwidth = doc.nic_bandwidth.value_or(system.nic_bandwidth);
  system.nvlink_latency = doc.nvlink_latency.value_or(system.nvlink_latency);
  system.nic_latency = doc.nic_latency.value_or(system.nic_latency);
  check_cluster(cluster, reader);
  return cluster;
}

// ---- job

sim::JobSpec resolve_job(const ScenarioDoc& doc, const sim::ClusterSpec& cluster, Reader& reader) {
  sim::JobSpec job;
  job.model = doc.model;
  job.training = resolve_training(doc.training, cluster, doc.model, reader);
  job.checkpoint = doc.checkpoint;
  job.recovery = doc.recovery;
  job.minibatch = doc.minibatch;
  job.boost_limit = doc.power.boost_limit.value_or(default_boost_limit(cluster.system.gpu));
  return job;
}

void check_precision(const sim::ClusterSpec& cluster, models::Precision precision, Reader& reader) {
  if (!reader.good({"/cluster/system", "/cluster/gpu", "/training/precision"})) return;
  const models::GpuSpec& gpu = cluster.system.gpu;
  if (gpu.peak(precision)) return;
  std::string usable;
  for (const models::Precision each : models::all_precisions()) {
    if (gpu.peak(each)) usable += fmt::format("{}{}", usable.empty() ? "" : ", ", to_string(each));
  }
  reader.error("/training/precision",
               fmt::format("{} GPUs have no {}; they have {}", gpu.name, to_string(precision), usable));
}

void check_boost(const Scenario& scenario, Reader& reader) {
  if (!reader.good({"/cluster/system", "/cluster/gpu", "/power/boost_limit"})) return;
  const auto boosts = [](const sim::PolicySpec& policy) {
    const sim::PolicyInfo* info = sim::find_policy(policy.name);
    return info != nullptr && info->boosts;
  };
  const auto boosting = std::ranges::find_if(scenario.policies, boosts);
  if (boosting == scenario.policies.end()) return;
  const models::GpuSpec& gpu = scenario.cluster.system.gpu;
  if (gpu.power_curve.empty()) {
    reader.error("/cluster/gpu",
                 fmt::format("{} has no power curve, which {} needs: give an inline gpu with a "
                             "power_curve, or leave {} out",
                             gpu.name, boosting->name, boosting->name));
  } else if (scenario.job.boost_limit > gpu.power_curve.max_power()) {
    reader.error("/power/boost_limit",
                 fmt::format("found {}, expected at most {}, where the power curve of {} ends",
                             scenario.job.boost_limit, gpu.power_curve.max_power(), gpu.name));
  }
}

// A job that exceeds the GPU's memory is refused with the breakdown.
void check_memory(const Scenario& scenario, Reader& reader) {
  if (!reader.good({"/cluster", "/model", "/training"})) return;
  const models::TrainingSpec& training = scenario.job.training;
  const models::GpuSpec& gpu = scenario.cluster.system.gpu;
  int degree = static_cast<int>(training.tensor_model_parallel_size);
  std::string where = fmt::format("TP {}", degree);
  for (const sim::PolicySpec& policy : scenario.policies) {
    if (policy.reduced_degrees.empty() || policy.reduced_degrees.back() >= degree) continue;
    degree = policy.reduced_degrees.back();
    where = fmt::format("the reduced TP degree {} of {}", degree, policy.label);
  }
  const models::MemoryBreakdown memory = models::memory_per_gpu(scenario.job.model, training, degree);
  if (memory.total() <= gpu.memory) return;
  const auto gb = [](Bytes bytes) { return bytes.value() / 1e9; };
  reader.error(
      "/training",
      fmt::format(
          "does not fit: at {} a GPU needs {:.1f} GB (weights {:.1f}, gradients {:.1f}, optimizer "
          "{:.1f}, activations {:.1f}, working {:.1f}, buffers {:.1f}), a {} has {:.1f} GB; raise "
          "tensor, pipeline, context or expert parallel sizes, lower micro_batch_size or recompute more",
          where, gb(memory.total()), gb(memory.weights), gb(memory.gradients), gb(memory.optimizer),
          gb(memory.activations), gb(memory.working), gb(memory.buffers), gpu.name, gb(gpu.memory)));
}

// ---- back to a document

ClusterDoc to_document(const sim::ClusterSpec& cluster) {
  const models::SystemSpec& system = cluster.system;
  ClusterDoc doc;
  doc.gpus = cluster.gpus;
  doc.name = system.name;
  doc.source = system.source;
  doc.gpu = system.gpu;
  doc.domain_size = system.domain_size;
  doc.gpus_per_tray = system.gpus_per_tray;
  doc.nvlink_bandwidth = system.nvlink_bandwidth;
  doc.nic_bandwidth = system.nic_bandwidth;
  doc.nvlink_latency = system.nvlink_latency;
  doc.nic_latency = system.nic_latency;
  return doc;
}

DistributionDoc to_document(const models::Distribution& distribution) {
  return {distribution.family(), distribution.shape(), distribution.mean_s()};
}

FailureClassDoc to_document(const models::FailureClass& failure) {
  FailureClassDoc doc;
  doc.name = failure.name;
  doc.component = failure.component;
  doc.blast_radius = failure.blast_radius;
  const double mean_s = failure.lifetime.mean_s();
  const std::string as_time = format_quantity(mean_s, Dimension::kTime);
  // Centuries between failures of one unit are common in a large cluster, but past the range of a time.
  if (parse_quantity(as_time, Dimension::kTime)) {
    doc.mean_time_between_failures_s = mean_s;
  } else {
    doc.rate_per_s = 1 / mean_s;
  }
  doc.distribution = to_document(failure.lifetime);
  if (failure.repair_time) doc.repair_time = to_document(*failure.repair_time);
  return doc;
}

PolicyDoc to_document(const sim::PolicySpec& policy) {
  PolicyDoc doc;
  doc.name = policy.name;
  doc.label = policy.label;
  doc.spare_domains = policy.spare_domains;
  if (!policy.reduced_degrees.empty()) {
    doc.reduced_degrees.emplace(policy.reduced_degrees.begin(), policy.reduced_degrees.end());
  }
  return doc;
}

TrainingDoc to_document(const sim::JobSpec& job) {
  TrainingDoc doc{job.training, {}, {}, {}, {}};
  doc.given_data_parallel_size = job.training.data_parallel_size;
  if (job.model.is_moe()) doc.given_expert_tensor_parallel_size = job.training.expert_tensor_parallel_size;
  doc.given_sequence_parallel = job.training.sequence_parallel;
  doc.given_overlap_param_gather = job.training.overlap_param_gather;
  return doc;
}

}  // namespace

double default_boost_limit(const models::GpuSpec& gpu) {
  constexpr double kUsual = 1.3;
  return gpu.power_curve.empty() ? 1 : std::min(kUsual, gpu.power_curve.max_power());
}

std::string nearest_multiples(std::int64_t value, std::int64_t step, std::int64_t max) {
  const std::int64_t below = value / step * step;
  std::string text;
  for (const std::int64_t multiple : {below, below + step}) {
    if (multiple >= 1 && multiple <= max)
      text += fmt::format("{}{}", text.empty() ? ", such as " : " or ", multiple);
  }
  return text;
}

Scenario resolve(const ScenarioDoc& doc, const LoadOptions& options, Reader& reader) {
  Scenario scenario;
  scenario.name = doc.name;
  scenario.description = doc.description;
  scenario.cluster = resolve_cluster(doc.cluster, reader);
  scenario.job = resolve_job(doc, scenario.cluster, reader);
  scenario.failures = resolve_failures(doc.failures, scenario.cluster.system, reader);
  scenario.policies = resolve_policies(doc, options, scenario.cluster, scenario.job.training, reader);
  scenario.run = {doc.horizon, doc.replications, doc.seed};
  check_precision(scenario.cluster, scenario.job.training.precision, reader);
  check_boost(scenario, reader);
  check_memory(scenario, reader);
  check_work(scenario, reader);
  warn_of_idle_inputs(doc, scenario, reader);
  return scenario;
}

ScenarioDoc to_document(const Scenario& scenario) {
  ScenarioDoc doc;
  doc.name = scenario.name;
  doc.description = scenario.description;
  doc.cluster = to_document(scenario.cluster);
  doc.model = scenario.job.model;
  doc.training = to_document(scenario.job);
  doc.failures.initial_age = scenario.failures.initial_age;
  for (const auto& failure : scenario.failures.classes) doc.failures.classes.push_back(to_document(failure));
  doc.checkpoint = scenario.job.checkpoint;
  doc.recovery = scenario.job.recovery;
  doc.power.boost_limit = scenario.job.boost_limit;
  doc.minibatch = scenario.job.minibatch;
  for (const auto& policy : scenario.policies) doc.policies.push_back(to_document(policy));
  doc.horizon = scenario.run.horizon;
  doc.replications = scenario.run.replications;
  doc.seed = scenario.run.seed;
  return doc;
}

}  // namespace ntpsim::scenario
