#include "ntpsim/analysis/state_change.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/tensor_parallel.h"
#include "ntpsim/plan/head_cut.h"
#include "ntpsim/plan/state_moves.h"
#include "ntpsim/plan/sync_plan.h"

namespace ntpsim::analysis {
namespace {

using models::TpTensor;
using plan::OwnedRange;
using plan::PlacedGroup;
using plan::Placement;
using plan::RankPlacement;
using plan::ShardLayout;

struct StageTensor {
  TpTensor tensor;
  std::int64_t layers = 0;  ///< of the stage that have it
};

// Only then do all TP groups of a stage hold the same experts.
bool experts_in_tp_group(const models::TrainingSpec& training) {
  return training.expert_model_parallel_size * training.expert_tensor_parallel_size ==
         training.tensor_model_parallel_size;
}

std::vector<StageTensor> tensors_of_stage(const models::TransformerSpec& model,
                                          const models::TrainingSpec& training, int stage) {
  const auto stages = static_cast<int>(training.pipeline_model_parallel_size);
  models::TrainingSpec cut = training;
  if (!experts_in_tp_group(training)) {
    cut.expert_model_parallel_size = 1;  // whole on every rank, so none of TP's tensors
    cut.expert_tensor_parallel_size = 1;
  }
  std::vector<StageTensor> tensors;
  for (const bool moe : {false, true}) {
    const std::int64_t all = moe ? model.moe_layers() : model.num_layers - model.moe_layers();
    const std::int64_t layers = all / stages + (stage < all % stages ? 1 : 0);
    if (layers == 0) continue;
    for (const TpTensor& tensor : models::layer_tensors(model, cut, {.moe = moe})) {
      tensors.push_back({tensor, layers});
    }
  }
  if (stage == 0) tensors.push_back({models::embedding_tensor(model), 1});
  if (stage == stages - 1 && (model.untie_embeddings_and_output_weights || stages > 1)) {
    tensors.push_back({models::output_tensor(model), 1});
  }
  return tensors;
}

/// The TP groups of one stage of a placement.
class StageGroups {
 public:
  StageGroups(const RankPlacement& placement, int stage) : domain_size_(placement.failed().domain_size()) {
    for (std::int64_t dp = 0; dp < std::ssize(placement.replicas()); ++dp) {
      for (int cp = 0; cp < placement.shape().cp; ++cp) groups_.push_back(&placement.group(dp, cp, stage));
    }
    sync_degree_ = (*std::ranges::min_element(groups_, {}, &PlacedGroup::degree))->degree;
  }

  /// Orders the groups so that those which were in `old` keep their place: who holds which piece of the
  /// optimizer state is free to choose, and what stays need not move.
  void keep_places_of(const StageGroups& old) {
    std::map<std::pair<std::int64_t, int>, std::size_t> places;  // by domain and block
    for (std::size_t i = 0; i < old.groups_.size(); ++i) places[key_of(*old.groups_[i])] = i;
    std::vector<const PlacedGroup*> ordered(groups_.size());
    std::vector<const PlacedGroup*> others;
    for (const PlacedGroup* const group : groups_) {
      const auto place = places.find(key_of(*group));
      const bool keeps = place != places.end() && place->second < ordered.size();
      (keeps ? ordered[place->second] : others.emplace_back()) = group;
    }
    auto other = others.begin();
    for (const PlacedGroup*& place : ordered) {
      if (place == nullptr) place = *other++;
    }
    groups_ = std::move(ordered);
  }

  /// Do the same GPUs hold the same state?
  [[nodiscard]] bool same_as(const StageGroups& other) const {
    return std::ranges::equal(groups_, other.groups_, [](const PlacedGroup* a, const PlacedGroup* b) {
      return a->domain == b->domain && a->active == b->active;
    });
  }

  [[nodiscard]] int sync_degree() const { return sync_degree_; }
  [[nodiscard]] const std::vector<const PlacedGroup*>& groups() const { return groups_; }
  /// GPUs of a group by position.
  [[nodiscard]] std::vector<int> gpus(const PlacedGroup& group) const {
    std::vector<int> gpus;
    for (const plan::ActiveGpu& gpu : group.active) {
      gpus.push_back(static_cast<int>(group.domain) * domain_size_ + gpu.slot);
    }
    return gpus;
  }

 private:
  static std::pair<std::int64_t, int> key_of(const PlacedGroup& group) { return {group.domain, group.block}; }

  int domain_size_;
  int sync_degree_ = 0;
  std::vector<const PlacedGroup*> groups_;
};

/// Which GPU holds what of a tensor of one stage.
class StageHolders {
 public:
  StageHolders(const StageGroups& groups, const TpTensor& tensor, int full_degree)
      : groups_(&groups), tensor_(tensor), full_degree_(full_degree) {}

  /// Weights: every group its own copy, in its compute layout. In units.
  [[nodiscard]] Placement weights() const {
    std::vector<OwnedRange> held;
    std::map<int, std::vector<OwnedRange>> by_degree;
    for (const PlacedGroup* const group : groups_->groups()) {
      const auto [found, is_new] = by_degree.try_emplace(group->degree);
      if (is_new) found->second = computed_on(group->degree);
      const std::vector<int> gpus = groups_->gpus(*group);
      for (const OwnedRange& range : found->second) {
        held.push_back({range.units, gpus[static_cast<std::size_t>(range.rank)]});
      }
    }
    auto placement = Placement::from_ranges(tensor_.units, std::move(held));
    invariant(placement.has_value(), "layouts make a placement");
    return *std::move(placement);
  }

  /// State of the distributed optimizer: each core rank's sync shard cut over the groups. In elements.
  [[nodiscard]] Placement distributed_optimizer() const {
    std::vector<std::vector<int>> ranks;
    for (const PlacedGroup* const group : groups_->groups()) {
      ranks.push_back(groups_->gpus(*group));
      ranks.back().resize(static_cast<std::size_t>(groups_->sync_degree()));
    }
    auto placement = plan::distributed_optimizer(sync_layout(), ranks,
                                                 static_cast<std::int64_t>(tensor_.elements_per_unit));
    invariant(placement.has_value(), "a sync layout makes a placement");
    return *std::move(placement);
  }

 private:
  [[nodiscard]] std::int64_t planned_units() const {
    return tensor_.is_copied() ? tensor_.units * tensor_.heads_per_group : tensor_.units;
  }

  /// What the ranks of a group of this degree compute on; of copied KV groups, several hold the same.
  [[nodiscard]] std::vector<OwnedRange> computed_on(int degree) const {
    const plan::SyncPlan plan(planned_units(), full_degree_, degree, groups_->sync_degree());
    if (!tensor_.is_copied()) return {plan.compute().ranges().begin(), plan.compute().ranges().end()};
    const plan::GroupCopies copies(plan.compute(), tensor_.heads_per_group);
    std::vector<OwnedRange> held;
    for (int rank = 0; rank < degree; ++rank) {
      for (const plan::UnitRange& range : copies.groups_of(rank)) held.push_back({range, rank});
    }
    return held;
  }

  [[nodiscard]] ShardLayout sync_layout() const {
    ShardLayout heads = plan::sync_layout(planned_units(), full_degree_, groups_->sync_degree());
    if (!tensor_.is_copied()) return heads;
    std::vector<OwnedRange> homes;
    for (std::int64_t group = 0; group < tensor_.units; ++group) {
      homes.push_back({{group, group + 1}, heads.owner_of(group * tensor_.heads_per_group)});
    }
    auto layout = ShardLayout::from_ranges(tensor_.units, heads.degree(), std::move(homes));
    invariant(layout.has_value(), "every KV group has a home");
    return *std::move(layout);
  }

  const StageGroups* groups_;
  TpTensor tensor_;
  int full_degree_;
};

std::vector<int> failed_gpus(const plan::FailedGpus& failed) {
  std::vector<int> gpus;
  for (const plan::FailedDomain& domain : failed.failed()) {
    for (const int slot : domain.slots) {
      gpus.push_back(static_cast<int>(domain.domain) * failed.domain_size() + slot);
    }
  }
  return gpus;
}

std::vector<int> domains_of_gpus(const plan::FailedGpus& failed) {
  std::vector<int> domains;
  for (int domain = 0; domain < failed.domains(); ++domain) {
    domains.insert(domains.end(), static_cast<std::size_t>(failed.domain_size()), domain);
  }
  return domains;
}

/// Bytes by GPU on one network, tensor after tensor.
class NetworkLoad {
 public:
  explicit NetworkLoad(std::size_t gpus) : sent_(gpus), received_(gpus) {}

  void add(const plan::Transfer& transfer, std::int64_t bytes) {
    sent_[static_cast<std::size_t>(transfer.from)] += transfer.units.size() * bytes;
    received_[static_cast<std::size_t>(transfer.to)] += transfer.units.size() * bytes;
    total_ += transfer.units.size() * bytes;
  }
  void add_bound(std::int64_t bytes) { bound_ = std::max(bound_, bytes); }

  [[nodiscard]] StateTraffic traffic() const {
    const std::int64_t received = std::ranges::max(received_);
    return {.total_bytes = total_,
            .bottleneck_bytes = std::max(received, std::ranges::max(sent_)),
            .lower_bound_bytes = std::max(received, bound_)};
  }

 private:
  std::vector<std::int64_t> sent_;
  std::vector<std::int64_t> received_;
  std::int64_t total_ = 0;
  std::int64_t bound_ = 0;
};

/// One kind of state.
class StateMoves {
 public:
  StateMoves(std::string_view what, std::span<const int> domain_of)
      : what_(what), domain_of_(domain_of), within_(domain_of.size()), across_(domain_of.size()) {}

  /// `bytes`: of one index of the placements, in all layers.
  void add(const std::string& tensor, const Placement& have, const Placement& want, std::int64_t bytes) {
    const plan::MovePlan moves =
        plan_moves(have, want, {.checkpoint_available = false, .domain_of = domain_of_});
    for (const plan::Transfer& transfer : moves.transfers) {
      const bool within = domain_of_[static_cast<std::size_t>(transfer.from)] ==
                          domain_of_[static_cast<std::size_t>(transfer.to)];
      (within ? within_ : across_).add(transfer, bytes);
    }
    within_.add_bound(moves.within_domains.lower_bound * bytes);
    across_.add_bound(moves.across_domains.lower_bound * bytes);
    for (const plan::WantedRange& range : moves.lost) {
      lost_bytes_ += range.units.size() * std::ssize(range.ranks) * bytes;
    }
    if (!moves.lost.empty()) lost_.push_back(tensor + ": " + plan::describe_lost(moves.lost, "elements"));
  }

  [[nodiscard]] StateChange change() const {
    return {.what = what_,
            .within_domains = within_.traffic(),
            .across_domains = across_.traffic(),
            .without_copy_bytes = lost_bytes_,
            .without_copy = lost_};
  }

 private:
  std::string_view what_;
  std::span<const int> domain_of_;
  NetworkLoad within_;
  NetworkLoad across_;
  std::int64_t lost_bytes_ = 0;
  std::vector<std::string> lost_;
};

}  // namespace

std::vector<StateChange> plan_state_change(const models::TransformerSpec& model,
                                           const models::TrainingSpec& training, const RankPlacement& before,
                                           const RankPlacement& after) {
  invariant(before.shape().tp == after.shape().tp && before.shape().cp == after.shape().cp &&
                before.shape().pp == after.shape().pp &&
                before.failed().domains() == after.failed().domains(),
            "both placements are of the same job");
  invariant(after.failed().domains() * after.failed().domain_size() <= kMostGpusOfStateChange,
            "the cluster is not too large");
  const std::vector<int> gone = failed_gpus(after.failed());
  const std::vector<int> domain_of = domains_of_gpus(after.failed());
  StateMoves weights("weights", domain_of);
  StateMoves optimizer("optimizer", domain_of);
  for (int stage = 0; stage < after.shape().pp; ++stage) {
    const StageGroups old_groups(before, stage);
    StageGroups new_groups(after, stage);
    new_groups.keep_places_of(old_groups);
    if (new_groups.same_as(old_groups)) continue;
    for (const auto& [tensor, layers] : tensors_of_stage(model, training, stage)) {
      const StageHolders had(old_groups, tensor, before.shape().tp);
      const StageHolders wanted(new_groups, tensor, after.shape().tp);
      const auto elements = static_cast<std::int64_t>(tensor.elements_per_unit);
      const std::string name = "stage " + std::to_string(stage) + ", " + std::string(tensor.name);
      weights.add(name, had.weights().without(gone), wanted.weights(), layers * elements * kWeightBytes);
      if (training.use_distributed_optimizer) {
        optimizer.add(name, had.distributed_optimizer().without(gone), wanted.distributed_optimizer(),
                      layers * kOptimizerBytes);
      } else {
        optimizer.add(name, had.weights().without(gone), wanted.weights(),
                      layers * elements * kOptimizerBytes);
      }
    }
  }
  return {weights.change(), optimizer.change()};
}

}  // namespace ntpsim::analysis
