#include "ntpsim/analysis/tensor_plan.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/plan/head_cut.h"
#include "ntpsim/plan/transfer_schedule.h"

namespace ntpsim::analysis {
namespace {

using models::TpTensor;

struct CountedTensor {
  TpTensor tensor;
  std::int64_t layers = 0;
};

bool same(const TpTensor& a, const TpTensor& b) {
  return a.name == b.name && a.units == b.units;
}

// The tensors of the model in the order of the forward pass, those of equal layers counted.
std::vector<CountedTensor> count_tensors(const models::TransformerSpec& model,
                                         const models::TrainingSpec& training) {
  std::vector<CountedTensor> counted;
  const auto add = [&counted](const TpTensor& tensor, std::int64_t layers) {
    const auto found =
        std::ranges::find_if(counted, [&](const CountedTensor& other) { return same(other.tensor, tensor); });
    if (found == counted.end()) {
      counted.push_back({tensor, layers});
    } else {
      found->layers += layers;
    }
  };
  add(models::embedding_tensor(model), 1);
  for (const bool moe : {false, true}) {
    const std::int64_t layers = moe ? model.moe_layers() : model.num_layers - model.moe_layers();
    if (layers == 0) continue;
    for (const TpTensor& tensor : models::layer_tensors(model, training, {.moe = moe})) add(tensor, layers);
  }
  if (model.untie_embeddings_and_output_weights) add(models::output_tensor(model), 1);
  return counted;
}

std::int64_t rounds_of(std::span<const plan::Transfer> transfers, int ranks) {
  std::vector<plan::Message> messages;
  messages.reserve(transfers.size());
  for (const plan::Transfer& transfer : transfers) {
    messages.push_back({transfer.from, transfer.to, transfer.units.size()});
  }
  const auto traffic = plan::Traffic::from_messages(ranks, std::move(messages));
  invariant(traffic.has_value(), "a reshard is traffic that can be scheduled");
  return plan::color_rounds(*traffic).size();
}

// Groups that the busiest rank must send, being a holder but not the home, or receive, being the home.
std::int64_t bound_of_copies(const plan::GroupCopies& copies, const PlannedCut& cut) {
  std::vector<std::int64_t> homes(static_cast<std::size_t>(copies.degree()));
  std::int64_t bound = 0;
  for (std::int64_t group = 0; group < cut.units; ++group) {
    ++homes[static_cast<std::size_t>(cut.plan.sync().owner_of(group * cut.heads_per_group))];
  }
  for (int rank = 0; rank < copies.degree(); ++rank) {
    bound = std::max(bound, copies.count_of(rank) - homes[static_cast<std::size_t>(rank)]);
  }
  return std::max(bound, cut.moved.total > 0 ? std::int64_t{1} : 0);
}

// The links of the longest chain: its transfers follow one another.
std::int64_t longest_chain(std::span<const plan::Transfer> gathered) {
  std::int64_t longest = 0;
  for (std::size_t begin = 0; begin < gathered.size();) {
    std::size_t end = begin;
    while (end < gathered.size() && gathered[end].units == gathered[begin].units) ++end;
    longest = std::max(longest, static_cast<std::int64_t>(end - begin));
    begin = end;
  }
  return longest;
}

void plan_copies(PlannedCut& cut) {
  const plan::GroupCopies copies(cut.plan.compute(), cut.heads_per_group);
  cut.chains = plan::gather_group_copies(copies, cut.plan.sync(), cut.heads_per_group);
  std::int64_t held = 0;
  for (int rank = 0; rank < copies.degree(); ++rank) {
    held += copies.count_of(rank);
    cut.max_units_per_rank = std::max(cut.max_units_per_rank, copies.count_of(rank));
    cut.held.emplace_back(copies.groups_of(rank).begin(), copies.groups_of(rank).end());
  }
  cut.load = static_cast<double>(cut.max_units_per_rank * copies.degree()) / static_cast<double>(held);
  cut.moves = std::ssize(cut.chains);
  cut.rounds = longest_chain(cut.chains);
  cut.moved = plan::traffic_of(cut.chains, copies.degree());
  cut.bound = bound_of_copies(copies, cut);
}

PlannedCut plan_cut(const TpTensor& tensor, int full_degree, int degree, int sync_degree) {
  const std::int64_t planned = tensor.is_copied() ? tensor.units * tensor.heads_per_group : tensor.units;
  PlannedCut cut = {.unit = std::string(tensor.unit),
                    .units = tensor.units,
                    .heads_per_group = tensor.heads_per_group,
                    .plan = plan::SyncPlan(planned, full_degree, degree, sync_degree),
                    .chains = {},
                    .held = {},
                    .moved = {}};
  if (tensor.is_copied()) {
    plan_copies(cut);
    return cut;
  }
  const plan::ReshardPlan& pre_sync = cut.plan.pre_sync();
  cut.max_units_per_rank = cut.plan.compute().max_units();
  cut.load = cut.plan.compute().load();
  cut.moves = std::ssize(pre_sync.transfers());
  cut.rounds = rounds_of(pre_sync.transfers(), pre_sync.ranks());
  cut.moved = {pre_sync.max_sent(), pre_sync.max_received(), pre_sync.total()};
  cut.bound = cut.plan.lower_bound();
  return cut;
}

/// Plans each cut once.
class CutPlanner {
 public:
  explicit CutPlanner(TensorPlan& plan) : plan_(&plan) {}

  std::size_t cut_for(const TpTensor& tensor, int degree) {
    const auto found = std::ranges::find_if(plan_->cuts, [&](const PlannedCut& cut) {
      return cut.units == tensor.units && cut.unit == tensor.unit && cut.plan.compute().degree() == degree &&
             cut.heads_per_group == tensor.heads_per_group;
    });
    const auto index = static_cast<std::size_t>(found - plan_->cuts.begin());
    if (found == plan_->cuts.end()) {
      plan_->cuts.push_back(plan_cut(tensor, plan_->full_degree, degree, plan_->sync_degree));
    }
    return index;
  }

 private:
  TensorPlan* plan_;
};

DegreeSummary summary_of(const TensorPlan& plan, int degree) {
  DegreeSummary sum;
  sum.degree = degree;
  double fullest = 0;
  double mean = 0;
  for (const PlannedTensor& planned : plan.tensors) {
    const PlannedCut& cut = plan.cuts[planned.cut];
    if (cut.plan.compute().degree() != degree) continue;
    const std::int64_t bytes = planned.unit_bytes * planned.layers;
    fullest += static_cast<double>(cut.max_units_per_rank * bytes);
    mean += static_cast<double>(cut.units * bytes) / degree;
    sum.moves += cut.moves * planned.layers;
    sum.sent_bytes_max += cut.moved.max_sent * bytes;
    sum.received_bytes_max += cut.moved.max_received * bytes;
    sum.total_bytes += cut.moved.total * bytes;
    sum.bottleneck_bytes += cut.moved.bottleneck() * bytes;
    sum.lower_bound_bytes += cut.bound * bytes;
  }
  sum.load = fullest / mean;
  return sum;
}

}  // namespace

double gap_of(std::int64_t bottleneck, std::int64_t bound) {
  return bound == 0 ? 0 : static_cast<double>(bottleneck - bound) / static_cast<double>(bound);
}

TensorPlan plan_tensors(const models::TransformerSpec& model, const models::TrainingSpec& training,
                        std::span<const int> degrees) {
  TensorPlan plan;
  plan.full_degree = static_cast<int>(training.tensor_model_parallel_size);
  plan.sync_degree = plan::sync_degree_of(degrees);
  plan.degrees.assign(degrees.begin(), degrees.end());
  plan.degrees.push_back(plan.full_degree);
  std::ranges::sort(plan.degrees, std::greater<>());
  const auto repeated = std::ranges::unique(plan.degrees);
  plan.degrees.erase(repeated.begin(), repeated.end());
  invariant(plan.sync_degree >= 1 && plan.degrees.front() == plan.full_degree, "degrees within the TP size");

  const std::vector<CountedTensor> counted = count_tensors(model, training);
  CutPlanner planner(plan);
  for (const int degree : plan.degrees) {
    for (const CountedTensor& each : counted) {
      const std::size_t cut = planner.cut_for(each.tensor, degree);
      plan.tensors.push_back(
          {.tensor = each.tensor,
           .layers = each.layers,
           .cut = cut,
           .unit_bytes = static_cast<std::int64_t>(each.tensor.elements_per_unit) * kGradientBytes});
    }
    plan.summary.push_back(summary_of(plan, degree));
  }
  return plan;
}

}  // namespace ntpsim::analysis
