#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ntpsim/sim/specs.h"

#include "fields.h"
#include "model_limits.h"

namespace ntpsim::scenario {

// No real input comes near these; they keep every product of sizes within 64 bits and every time finite.
inline constexpr std::int64_t kMaxGpus = 20'000'000;
inline constexpr std::int64_t kMaxDegree = 4096;
inline constexpr std::size_t kMaxClasses = 100;
inline constexpr std::size_t kMaxCauses = 100;
inline constexpr std::size_t kMaxPolicies = 32;
inline constexpr std::size_t kMaxReducedDegrees = 64;
inline constexpr std::int64_t kMaxSequences = 1'000'000'000;
inline constexpr std::int64_t kMaxCount = 1'000'000'000;

// What a scenario file holds, before catalog entries are looked up and defaults that depend on other values
// are filled in. Members that the file may leave out for that are optional.

struct ClusterDoc {
  std::optional<std::string> system;
  std::int64_t gpus = 0;
  std::optional<std::string> name;
  std::optional<std::string> source;
  std::optional<models::GpuSpec> gpu;
  std::optional<std::int64_t> domain_size;
  std::optional<std::int64_t> gpus_per_tray;
  std::optional<Bandwidth> nvlink_bandwidth;
  std::optional<Bandwidth> nic_bandwidth;
  std::optional<Time> nvlink_latency;
  std::optional<Time> nic_latency;
};

struct TrainingDoc : models::TrainingSpec {
  std::optional<std::int64_t> given_data_parallel_size;
  std::optional<std::int64_t> given_expert_tensor_parallel_size;
  std::optional<bool> given_sequence_parallel;
  std::optional<bool> given_overlap_param_gather;
};

struct Observed {
  std::int64_t interruptions = 1;
  double duration_s = 1;
  std::int64_t gpus = 1;
};

/// A family of distributions with its shape; the mean only where the file gives one.
struct DistributionDoc {
  models::Distribution::Family family = models::Distribution::Family::kExponential;
  double shape = 1;
  double mean_s = 1;
};

struct FailureClassDoc {
  std::string name;
  models::Scope component = models::Scope::kGpu;
  std::optional<models::Scope> blast_radius;
  // How often one unit fails: exactly one of these.
  std::optional<double> mean_time_between_failures_s;
  std::optional<double> rate_per_s;
  std::optional<double> share;
  std::optional<std::map<std::string, std::int64_t>> causes;
  DistributionDoc distribution;
  std::optional<DistributionDoc> repair_time;
};

struct FailuresDoc {
  std::optional<Observed> observed;
  sim::InitialAge initial_age = sim::InitialAge::kStationary;
  std::vector<FailureClassDoc> classes;
};

struct PowerDoc {
  std::optional<double> boost_limit;
};

struct PolicyDoc {
  std::string name;
  std::optional<std::string> label;
  std::int64_t spare_domains = 0;
  std::optional<std::vector<std::int64_t>> reduced_degrees;
};

struct ScenarioDoc {
  std::optional<std::string> schema;
  std::string name;
  std::string description;
  ClusterDoc cluster;
  models::TransformerSpec model;
  TrainingDoc training;
  FailuresDoc failures;
  sim::CheckpointSpec checkpoint;
  sim::RecoverySpec recovery;
  PowerDoc power;
  sim::Minibatch minibatch = sim::Minibatch::kElastic;
  std::vector<PolicyDoc> policies;
  Time horizon;
  std::int64_t replications = 1;
  std::uint64_t seed = 0;
};

/// The table of a whole scenario, with those of its sections inside.
[[nodiscard]] const Section<ScenarioDoc>& scenario_section();
[[nodiscard]] const Section<FailuresDoc>& failures_section();
/// A model by name, in a file of its own, or inline.
[[nodiscard]] Kind<models::TransformerSpec> model_kind();

/// The names of catalog entries.
template <class Range>
std::vector<std::string_view> names_in(const Range& entries) {
  std::vector<std::string_view> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

/// The schema of a value that can be written in several ways.
inline Json any_of(std::vector<Json> schemas) {
  return {{"anyOf", Json(std::move(schemas))}};
}

}  // namespace ntpsim::scenario
