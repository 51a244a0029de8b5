#include "ntpsim/analysis/plan_results.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/core/invariant.h"

#include "json_head.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::int64_t machine_of(const plan::RankPlace& rank, const plan::RankPlacement& placement,
                        const Hosts& hosts) {
  return (rank.domain * placement.failed().domain_size() + rank.slot) / hosts.gpus_each;
}

std::string host_of(const plan::RankPlace& rank, const plan::RankPlacement& placement, const Hosts& hosts) {
  const std::int64_t machine = machine_of(rank, placement, hosts);
  return hosts.names.empty() ? fmt::format("node{:05}", machine) : hosts.names.at(at(machine));
}

Json non_active_of(const plan::MegatronParity& parity) {
  Json map = Json::object();
  for (const plan::NonActiveRanks& ranks : parity.non_active_ranks_per_dp) {
    map[fmt::format("{},{},{}", ranks.dp, ranks.cp, ranks.pp)] = ranks.local;
  }
  return map;
}

// One line a key: lists of ranks would take a line for each rank otherwise.
std::string lines_of(const Json& object) {
  std::string text = "{\n";
  for (const auto& [key, value] : object.items()) {
    if (text.size() > 2) text += ",\n";
    text += fmt::format("  {}: {}", Json(key).dump(), value.dump());
  }
  return text + "\n}\n";
}

}  // namespace

std::optional<PlanFormat> find_plan_format(std::string_view name) {
  if (name == "text") return PlanFormat::kText;
  if (name == "json") return PlanFormat::kJson;
  if (name == "megatron") return PlanFormat::kMegatron;
  if (name == "hostfile") return PlanFormat::kHostfile;
  if (name == "devices") return PlanFormat::kDevices;
  return std::nullopt;
}

plan::RankPlacement placement_of(const TensorPlan& tensors) {
  const std::vector<int>& degrees = tensors.degrees;
  const int tp = tensors.full_degree;
  std::vector<plan::FailedDomain> failed;
  for (std::size_t domain = 1; domain < degrees.size(); ++domain) {
    std::vector<int> slots(at(tp - degrees[domain]));
    std::iota(slots.begin(), slots.end(), degrees[domain]);
    failed.push_back({static_cast<std::int64_t>(domain), std::move(slots)});
  }
  const plan::DomainPartition partition(tp, tp, std::span(degrees).subspan(1));
  const std::int64_t domains = std::ssize(degrees);
  return {plan::FailedGpus(domains, tp, std::move(failed)),
          partition,
          {.tp = tp, .cp = 1, .pp = 1, .dp = domains}};
}

std::string plan_megatron(const plan::RankPlacement& placement, const Hosts* hosts) {
  const plan::MegatronParity parity = plan::megatron_parity(placement);
  const plan::RankPlacement run = plan::at_parity(placement);
  Json json = {{"tp_base", parity.tp_base},
               {"tp_spares", parity.tp_spares},
               {"num_reduced_tp_dp_ranks", parity.num_reduced_tp_dp_ranks},
               {"non_active_ranks_per_dp", non_active_of(parity)}};
  Json sizes = Json::array();
  for (const plan::PlacedReplica& replica : run.replicas()) sizes.push_back(replica.degree);
  json["tp_domain_sizes"] = std::move(sizes);
  json["context_parallel_size"] = run.shape().cp;
  json["pipeline_model_parallel_size"] = run.shape().pp;
  json["world_size"] = run.ranks().size();
  json["tensor_model_parallel_groups"] = run.tp_groups();
  json["context_parallel_groups"] = run.cp_groups();
  json["data_parallel_groups"] = run.dp_groups();
  json["pipeline_model_parallel_groups"] = run.pp_groups();
  json["grid_ranks"] = Json::array();
  for (const plan::RankPlace& rank : run.ranks()) json["grid_ranks"].push_back(rank.grid_rank);
  if (hosts != nullptr) {
    json["hostfile"] = Json::array();
    json["cuda_visible_devices"] = Json::array();
    for (const plan::RankPlace& rank : run.ranks()) {
      json["hostfile"].push_back(host_of(rank, run, *hosts));
      json["cuda_visible_devices"].push_back(rank.slot % hosts->gpus_each);
    }
  }
  return lines_of(json);
}

std::string plan_devices(const plan::RankPlacement& placement, const Hosts& hosts) {
  const plan::RankPlacement run = plan::at_parity(placement);
  std::string text;
  for (const plan::RankPlace& rank : run.ranks()) text += fmt::format("{}\n", rank.slot % hosts.gpus_each);
  return text;
}

std::string plan_hostfile(const plan::RankPlacement& placement, const Hosts& hosts) {
  const plan::RankPlacement run = plan::at_parity(placement);
  std::string text;
  for (const plan::RankPlace& rank : run.ranks()) text += host_of(rank, run, hosts) + "\n";
  return text;
}

}  // namespace ntpsim::analysis
