#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/plan_results.h"

#include "json_head.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PlannedTensor& planned, const TensorPlan& plan) {
  const PlannedCut& cut = plan.cuts[planned.cut];
  const std::int64_t bytes = planned.unit_bytes;
  return {{"name", planned.tensor.name},
          {"layers", planned.layers},
          {"layout", planned.cut},
          {"unit", cut.unit},
          {"units", cut.units},
          {"unit_bytes", bytes},
          {"degree", cut.plan.compute().degree()},
          {"sync_degree", plan.sync_degree},
          {"copied", cut.heads_per_group > 0},
          {"max_units_per_rank", cut.max_units_per_rank},
          {"load", cut.load},
          {"moves", cut.moves},
          {"send_bytes_max", cut.moved.max_sent * bytes},
          {"recv_bytes_max", cut.moved.max_received * bytes},
          {"total_bytes", cut.moved.total * bytes},
          {"lower_bound_bytes", cut.bound * bytes},
          {"gap", gap_of(cut.moved.bottleneck(), cut.bound)},
          {"rounds", cut.rounds}};
}

Json json_of(const DegreeSummary& sum) {
  return {{"degree", sum.degree},
          {"load", sum.load},
          {"moves", sum.moves},
          {"send_bytes_max", sum.sent_bytes_max},
          {"recv_bytes_max", sum.received_bytes_max},
          {"total_bytes", sum.total_bytes},
          {"objective_bytes", sum.bottleneck_bytes},
          {"lower_bound_bytes", sum.lower_bound_bytes},
          {"gap", gap_of(sum.bottleneck_bytes, sum.lower_bound_bytes)}};
}

Json json_of(std::span<const plan::UnitRange> ranges) {
  Json list = Json::array();
  for (const plan::UnitRange& range : ranges) list.push_back({range.begin, range.end});
  return list;
}

Json json_of(std::span<const plan::Transfer> transfers) {
  Json list = Json::array();
  for (const plan::Transfer& transfer : transfers) {
    list.push_back({{"from", transfer.from},
                    {"to", transfer.to},
                    {"units", {transfer.units.begin, transfer.units.end}}});
  }
  return list;
}

Json ranges_by_rank(const plan::ShardLayout& layout) {
  Json ranks = Json::array();
  for (int rank = 0; rank < layout.degree(); ++rank) ranks.push_back(json_of(layout.ranges_of(rank)));
  return ranks;
}

// Half-open ranges of units by rank, and the transfers between them.
Json layout_of(const PlannedCut& cut) {
  Json json = {{"unit", cut.unit}, {"units", cut.units}, {"degree", cut.plan.compute().degree()}};
  if (cut.heads_per_group == 0) {
    json["compute"] = ranges_by_rank(cut.plan.compute());
    json["sync"] = ranges_by_rank(cut.plan.sync());
    json["pre_sync"] = json_of(cut.plan.pre_sync().transfers());
    return json;
  }
  json["copies"] = Json::array();
  for (const auto& ranges : cut.held) json["copies"].push_back(json_of(ranges));
  json["chains"] = json_of(cut.chains);
  return json;
}

void add_tensors(Json& json, const TensorPlan& plan) {
  json["tensors"] = Json::array();
  for (const PlannedTensor& planned : plan.tensors) json["tensors"].push_back(json_of(planned, plan));
  json["layouts"] = Json::array();
  for (const PlannedCut& cut : plan.cuts) json["layouts"].push_back(layout_of(cut));
  Json degrees = Json::array();
  for (const DegreeSummary& sum : plan.summary) degrees.push_back(json_of(sum));
  json["summary"] = {{"tensor_model_parallel_size", plan.full_degree},
                     {"degrees", plan.degrees},
                     {"sync_degree", plan.sync_degree},
                     {"by_degree", std::move(degrees)}};
}

void add_phases(Json& json, std::span<const PlanningPhase> phases) {
  if (phases.empty()) return;
  for (const PlanningPhase& phase : phases) json["planning_s"][std::string(phase.name)] = phase.seconds;
}

Json json_of(const plan::PlacedGroup& group, int pp, int cp) {
  Json slots = Json::array();
  for (const plan::ActiveGpu& gpu : group.active) slots.push_back(gpu.slot);
  return {{"pp", pp},
          {"cp", cp},
          {"domain", group.domain},
          {"degree", group.degree},
          {"first_rank", group.first_rank},
          {"slots", std::move(slots)},
          {"non_active_local_slots", group.non_active}};
}

Json json_of(const plan::PlacedReplica& replica, std::size_t dp, const plan::JobShape& shape) {
  Json groups = Json::array();
  int index = 0;
  for (const plan::PlacedGroup& group : replica.groups) {
    groups.push_back(json_of(group, index / shape.cp, index % shape.cp));
    ++index;
  }
  return {{"dp", dp}, {"degree", replica.degree}, {"groups", std::move(groups)}};
}

std::string_view name_of(plan::IdleReason reason) {
  switch (reason) {
    case plan::IdleReason::kSpare:
      return "spare";
    case plan::IdleReason::kLeftoverGroup:
      return "leftover_group";
    case plan::IdleReason::kUnequalSlices:
      break;
  }
  return "unequal_slices";
}

Json json_of(const StateTraffic& traffic) {
  return {{"total_bytes", traffic.total_bytes},
          {"bottleneck_bytes", traffic.bottleneck_bytes},
          {"lower_bound_bytes", traffic.lower_bound_bytes}};
}

Json json_of(const StateChange& change) {
  return {{"what", change.what},
          {"within_domains", json_of(change.within_domains)},
          {"across_domains", json_of(change.across_domains)},
          {"without_copy_bytes", change.without_copy_bytes},
          {"without_copy", change.without_copy}};
}

Json json_of(const JobPlan& plan) {
  const plan::RankPlacement& placement = plan.placement;
  Json replicas = Json::array();
  for (std::size_t dp = 0; dp < placement.replicas().size(); ++dp) {
    replicas.push_back(json_of(placement.replicas()[dp], dp, placement.shape()));
  }
  Json failed = Json::array();
  for (const plan::FailedDomain& domain : placement.failed().failed()) {
    failed.push_back({{"domain", domain.domain}, {"slots", domain.slots}});
  }
  Json idle = Json::array();
  for (const plan::IdleGpu& gpu : placement.idle()) {
    idle.push_back({{"domain", gpu.domain}, {"slot", gpu.slot}, {"reason", name_of(gpu.reason)}});
  }
  return {{"policy", plan.policy},
          {"domains", placement.failed().domains()},
          {"spare_domains", placement.failed().domains() - plan.cluster_domains},
          {"replicas_wanted", plan.replicas_wanted},
          {"replicas_left_out", plan.replicas_left_out},
          {"global_batch_size", plan.global_batch_size},
          {"sequences", plan.sequences},
          {"world_size", placement.ranks().size()},
          {"gpus_idled_by_parity", plan::megatron_parity(placement).idled_gpus},
          {"failed", std::move(failed)},
          {"idle", std::move(idle)},
          {"untouched_domains", placement.untouched_domains()},
          {"replicas", std::move(replicas)}};
}

}  // namespace

std::string plan_json(const ModelPlan& plan, std::span<const PlanningPhase> phases) {
  Json json = json_head();
  json["model"] = plan.model;
  add_tensors(json, plan.tensors);
  json["summary"]["gpus_idled_by_parity"] = plan::megatron_parity(placement_of(plan.tensors)).idled_gpus;
  add_phases(json, phases);
  return json.dump(2) + "\n";
}

std::string plan_json(const JobPlan& plan, std::span<const StateChange> state,
                      const scenario::LoadedScenario& loaded, std::span<const PlanningPhase> phases) {
  Json json = json_head(loaded);
  add_tensors(json, plan.tensors);
  json["placement"] = json_of(plan);
  json["state_change"] = Json::array();
  for (const StateChange& change : state) json["state_change"].push_back(json_of(change));
  add_phases(json, phases);
  return json.dump(2) + "\n";
}

}  // namespace ntpsim::analysis
