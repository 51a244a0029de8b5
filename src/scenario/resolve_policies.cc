#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ntpsim/sim/policy_table.h"

#include "resolve.h"

namespace ntpsim::scenario {
namespace {

using sim::PolicyInfo;

constexpr const char* kTp = "/training/tensor_model_parallel_size";
constexpr const char* kEp = "/training/expert_model_parallel_size";
constexpr const char* kEtp = "/training/expert_tensor_parallel_size";

struct Chosen {
  PolicyDoc doc;
  std::string pointer;  // empty for one that only the command line names
};

std::string pointer_of(std::size_t index) {
  return child_pointer("/policies", index);
}

// The scenario's policies with this label, or with this name; else the policy itself, as it comes.
std::vector<Chosen> chosen_by(const std::string& name, const std::vector<PolicyDoc>& docs) {
  std::vector<Chosen> by_label;
  std::vector<Chosen> by_name;
  for (std::size_t i = 0; i < docs.size(); ++i) {
    if (docs[i].label.value_or(docs[i].name) == name) by_label.push_back({docs[i], pointer_of(i)});
    if (docs[i].name == name) by_name.push_back({docs[i], pointer_of(i)});
  }
  if (!by_label.empty()) return by_label;
  if (!by_name.empty()) return by_name;
  PolicyDoc plain;
  plain.name = name;
  return {{plain, ""}};
}

// What --policies may name.
std::vector<std::string_view> known_names(const std::vector<PolicyDoc>& docs) {
  std::vector<std::string_view> names = names_in(sim::policy_table());
  for (const PolicyDoc& doc : docs) {
    if (doc.label) names.push_back(*doc.label);
  }
  return names;
}

std::vector<Chosen> choose(const std::vector<PolicyDoc>& docs, const std::vector<std::string>& names,
                           Reader& reader) {
  std::vector<Chosen> chosen;
  for (std::size_t i = 0; names.empty() && i < docs.size(); ++i) chosen.push_back({docs[i], pointer_of(i)});
  for (const std::string& name : names) {
    for (Chosen& each : chosen_by(name, docs)) {
      if (each.pointer.empty() && sim::find_policy(name) == nullptr) {
        reader.option_error(
            fmt::format("unknown policy {}{}", in_quotes(name), suggestion(name, known_names(docs))));
      } else {
        chosen.push_back(std::move(each));
      }
    }
  }
  if (chosen.size() > kMaxPolicies) {
    reader.option_error(fmt::format("found {} policies, expected at most {}", chosen.size(), kMaxPolicies));
    chosen.resize(kMaxPolicies);
  }
  return chosen;
}

// An error about a policy, wherever it was chosen.
void report(const Chosen& chosen, std::string_view key, std::string message, Reader& reader) {
  if (chosen.pointer.empty()) {
    reader.option_error(fmt::format("policy {}: {}", chosen.doc.name, message));
  } else {
    reader.error(key.empty() ? chosen.pointer : child_pointer(chosen.pointer, key), std::move(message));
  }
}

// From TP - 1 down to 7/8 of TP, which is as far as losing a few GPUs of a domain goes.
std::vector<int> default_degrees(int tp) {
  const int lowest = std::max(std::min(tp - 1, (7 * tp + 7) / 8), tp - static_cast<int>(kMaxReducedDegrees));
  std::vector<int> degrees;
  for (int degree = tp - 1; degree >= lowest; --degree) degrees.push_back(degree);
  return degrees;
}

std::vector<int> given_degrees(const std::vector<std::int64_t>& given, const Chosen& chosen, std::int64_t tp,
                               Reader& reader) {
  std::vector<int> degrees;
  for (const std::int64_t degree : given) {
    if (degree >= tp) {
      report(chosen, "reduced_degrees",
             fmt::format("found {}, expected degrees from 1 to {}, below tensor_model_parallel_size", degree,
                         tp - 1),
             reader);
    }
    degrees.push_back(static_cast<int>(degree));
  }
  std::ranges::sort(degrees, std::greater<>());
  if (const auto twin = std::ranges::adjacent_find(degrees); twin != degrees.end()) {
    report(chosen, "reduced_degrees", fmt::format("{} occurs twice", *twin), reader);
  }
  return degrees;
}

std::vector<int> reduced_degrees(const Chosen& chosen, const models::TrainingSpec& training, Reader& reader) {
  if (reader.good({kEp}) && training.expert_model_parallel_size > 1) {
    report(chosen, "",
           fmt::format("{} does not support expert_model_parallel_size above 1; found {}", chosen.doc.name,
                       training.expert_model_parallel_size),
           reader);
  }
  if (!reader.good({kTp})) return {};
  const std::int64_t tp = training.tensor_model_parallel_size;
  if (const std::int64_t etp = training.expert_tensor_parallel_size;
      reader.good({kEtp}) && etp > 1 && etp != tp) {
    report(chosen, "",
           fmt::format("{} supports experts that are whole, or cut over the whole TP group: expected an "
                       "expert_tensor_parallel_size of 1 or {}; found {}",
                       chosen.doc.name, tp, etp),
           reader);
  }
  if (tp < 2) {
    report(chosen, "",
           fmt::format("{} needs tensor_model_parallel_size of at least 2; found {}", chosen.doc.name, tp),
           reader);
    return {};
  }
  if (chosen.doc.reduced_degrees) return given_degrees(*chosen.doc.reduced_degrees, chosen, tp, reader);
  return default_degrees(static_cast<int>(tp));
}

sim::PolicySpec resolve_policy(const Chosen& chosen, const models::TrainingSpec& training, Reader& reader) {
  sim::PolicySpec policy;
  policy.name = chosen.doc.name;
  policy.label = chosen.doc.label.value_or(chosen.doc.name);
  policy.spare_domains = chosen.doc.spare_domains;
  const PolicyInfo* info = sim::find_policy(policy.name);
  if (info != nullptr && info->reduces_tp) {
    policy.reduced_degrees = reduced_degrees(chosen, training, reader);
  } else if (info != nullptr && chosen.doc.reduced_degrees) {
    reader.warning(child_pointer(chosen.pointer, "reduced_degrees"),
                   policy.name + " does not read it, so it has no effect");
  }
  return policy;
}

bool has_spares_in_domains(const sim::ClusterSpec& cluster, const models::TrainingSpec& training) {
  const std::int64_t used = training.gpus_per_replica() * training.data_parallel_size;
  return used < cluster.gpus;
}

void warn_without_spares(const Chosen& chosen, const sim::PolicySpec& policy, const sim::ClusterSpec& cluster,
                         const models::TrainingSpec& training, Reader& reader) {
  const PolicyInfo* info = sim::find_policy(policy.name);
  if (info == nullptr || !info->lives_on_spares || policy.spare_domains > 0) return;
  if (has_spares_in_domains(cluster, training)) return;
  reader.warning(
      chosen.pointer,
      policy.name + " has no spares, so every loss shrinks or pauses the job; give it spare_domains");
}

}  // namespace

std::vector<sim::PolicySpec> resolve_policies(const ScenarioDoc& doc, const LoadOptions& options,
                                              const sim::ClusterSpec& cluster,
                                              const models::TrainingSpec& training, Reader& reader) {
  std::vector<sim::PolicySpec> policies;
  std::set<std::string> labels;
  for (const Chosen& chosen : choose(doc.policies, options.policies, reader)) {
    sim::PolicySpec policy = resolve_policy(chosen, training, reader);
    if (!policy.name.empty() && !labels.insert(policy.label).second) {
      report(chosen, "label",
             fmt::format("the label {} is taken by another policy; give each a label of its own",
                         in_quotes(policy.label)),
             reader);
    }
    warn_without_spares(chosen, policy, cluster, training, reader);
    policies.push_back(std::move(policy));
  }
  return policies;
}

}  // namespace ntpsim::scenario
