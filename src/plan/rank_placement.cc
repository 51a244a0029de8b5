#include "ntpsim/plan/rank_placement.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <ranges>
#include <string>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/plan/replica_assignment.h"

#include "errors.h"

namespace ntpsim::plan {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// The groups of one domain, slot by slot.
class DomainCut {
 public:
  DomainCut(std::int64_t domain, std::span<const int> failed, const DomainPartition& partition)
      : domain_(domain),
        tp_(partition.tp_degree()),
        free_(at(partition.domain_size()), true),
        blocks_(at(partition.groups_when_healthy())) {
    std::vector<int> failures(blocks_.size(), 0);
    const int spares_begin = partition.groups_when_healthy() * tp_;
    for (const int slot : failed) {
      free_[at(slot)] = false;
      if (slot < spares_begin) ++failures[at(slot / tp_)];
    }
    int whole = 0;
    for (const GroupRun& run : partition.groups(partition.domain_size() - static_cast<int>(failed.size()))) {
      if (run.degree == tp_) whole = run.count;
      degrees_.insert(degrees_.end(), at(run.count), run.degree);
    }
    // A GPU moves for each failure in a whole block, at most one for each in a reduced block and none in a
    // block that is given up, so they take the blocks in this order.
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::ranges::stable_sort(blocks_, {}, [&failures](int block) { return failures[at(block)]; });
    std::sort(blocks_.begin(), blocks_.begin() + whole);
    list_donors(spares_begin, partition.domain_size());
  }

  // The whole groups by block, then the reduced ones by descending degree.
  std::vector<PlacedGroup> groups() {
    std::vector<PlacedGroup> groups;
    groups.reserve(degrees_.size());
    for (std::size_t i = 0; i < degrees_.size(); ++i) groups.push_back(take(blocks_[i], degrees_[i]));
    return groups;
  }

 private:
  void list_donors(int spares_begin, int domain_size) {
    donate(spares_begin, domain_size);
    for (std::size_t i = degrees_.size(); i < blocks_.size(); ++i) {
      donate(blocks_[i] * tp_, (blocks_[i] + 1) * tp_);
    }
    for (std::size_t i = 0; i < degrees_.size(); ++i) donate_surplus(blocks_[i], degrees_[i]);
  }

  void donate(int begin, int end) {
    for (int slot = begin; slot < end; ++slot) {
      if (free_[at(slot)]) donors_.push_back(slot);
    }
  }

  // What a group does not need of its block, from the end.
  void donate_surplus(int block, int degree) {
    const auto own = free_.begin() + static_cast<std::ptrdiff_t>(block) * tp_;
    auto surplus = std::count(own, own + tp_, true) - degree;
    for (int slot = (block + 1) * tp_ - 1; surplus > 0; --slot) {
      if (!free_[at(slot)]) continue;
      donors_.push_back(slot);
      --surplus;
    }
  }

  int next_donor() {
    invariant(next_donor_ < donors_.size(), "a domain has the GPUs of its groups");
    const int slot = donors_[next_donor_++];
    free_[at(slot)] = false;
    return slot;
  }

  PlacedGroup take(int block, int degree) {
    PlacedGroup group{.domain = domain_, .block = block, .degree = degree, .active = {}, .non_active = {}};
    group.active.reserve(at(degree));
    const auto own = free_.begin() + static_cast<std::ptrdiff_t>(block) * tp_;
    const int missing = degree - static_cast<int>(std::count(own, own + tp_, true));
    int filled = 0;
    for (int local = 0; local < tp_; ++local) {
      const int slot = block * tp_ + local;
      const bool enough = static_cast<int>(group.active.size()) == degree;
      if (!enough && free_[at(slot)]) {
        group.active.push_back({local, slot});
      } else if (!enough && filled < missing) {
        ++filled;
        group.active.push_back({local, next_donor()});
      } else {
        group.non_active.push_back(local);
      }
    }
    return group;
  }

  std::int64_t domain_;
  int tp_;
  std::vector<bool> free_;    // by slot: healthy, and not given away
  std::vector<int> degrees_;  // of the groups, descending
  std::vector<int> blocks_;   // those of the groups, in their order, then those given up
  std::vector<int> donors_;   // slots that fill the gaps of groups, in the order of use
  std::size_t next_donor_ = 0;
};

// Healthy GPUs -> the most of them that make the same groups.
std::vector<int> most_of_same_groups(const DomainPartition& partition) {
  std::vector<int> most(at(partition.domain_size()) + 1, partition.domain_size());
  for (int healthy = partition.domain_size() - 1; healthy >= 0; --healthy) {
    const bool same = std::ranges::equal(partition.groups(healthy), partition.groups(healthy + 1));
    most[at(healthy)] = same ? most[at(healthy) + 1] : healthy;
  }
  return most;
}

// All TP groups of the cluster in packing order.
std::vector<PlacedGroup> packed_groups(const FailedGpus& failed, const DomainPartition& partition) {
  ReplicaAssignment assignment(partition, failed.domains(), 1);
  const std::vector<int> most = most_of_same_groups(partition);
  for (const FailedDomain& entry : failed.failed()) {
    assignment.set_healthy(entry.domain, most[at(failed.healthy(entry.domain))]);
  }
  std::vector<std::vector<PlacedGroup>> by_degree(at(partition.tp_degree()) + 1);
  std::size_t count = 0;
  for (std::int64_t position = 0; position < failed.domains(); ++position) {
    const std::int64_t domain = assignment.domain_at(position);
    for (PlacedGroup& group : DomainCut(domain, failed.slots(domain), partition).groups()) {
      by_degree[at(group.degree)].push_back(std::move(group));
      ++count;
    }
  }
  std::vector<PlacedGroup> packed;
  packed.reserve(count);
  for (auto& groups : std::views::reverse(by_degree)) {
    std::ranges::move(groups, std::back_inserter(packed));
  }
  return packed;
}

// Gives the group the active local slots of `model`, which has no more GPUs; the GPUs it no longer uses are
// added to `idled`. Those that can keep their local slot do.
void follow(PlacedGroup& group, const PlacedGroup& model, std::vector<IdleGpu>& idled) {
  if (group.non_active == model.non_active) return;
  std::vector<ActiveGpu> moving;
  std::vector<ActiveGpu> active;
  active.reserve(model.active.size());
  const auto runs = [](const PlacedGroup& of, int local) {
    return !std::ranges::binary_search(of.non_active, local);
  };
  for (const ActiveGpu& gpu : group.active) {
    if (!runs(model, gpu.local)) moving.push_back(gpu);
  }
  auto own = group.active.begin();
  auto mover = moving.begin();
  for (const ActiveGpu& place : model.active) {
    while (own != group.active.end() && own->local < place.local) ++own;
    const bool stays = own != group.active.end() && own->local == place.local;
    active.push_back(stays ? *own : ActiveGpu{place.local, (mover++)->slot});
  }
  for (; mover != moving.end(); ++mover) {
    idled.push_back({group.domain, mover->slot, IdleReason::kUnequalSlices});
  }
  group.active = std::move(active);
  group.non_active = model.non_active;
  group.degree = model.degree;
}

// Idles the highest active local slots; the GPUs are added to `idled`.
void shrink(PlacedGroup& group, int degree, std::vector<IdleGpu>& idled) {
  for (; group.degree > degree; --group.degree) {
    const ActiveGpu gpu = group.active.back();
    group.active.pop_back();
    group.non_active.push_back(gpu.local);
    idled.push_back({group.domain, gpu.slot, IdleReason::kUnequalSlices});
  }
  std::ranges::sort(group.non_active);
}

// The next groups in packing order as one replica, its stages made equal.
PlacedReplica make_replica(std::span<PlacedGroup> groups, int cp, std::vector<IdleGpu>& idled) {
  for (std::size_t begin = 0; begin < groups.size(); begin += at(cp)) {
    const auto stage = groups.subspan(begin, at(cp));
    for (PlacedGroup& group : stage.first(at(cp) - 1)) follow(group, stage.back(), idled);
  }
  PlacedReplica replica;
  replica.degree = groups.back().degree;
  replica.groups.assign(std::make_move_iterator(groups.begin()), std::make_move_iterator(groups.end()));
  return replica;
}

Diagnostics errors_of(const FailedGpus& failed, const DomainPartition& partition, const JobShape& shape) {
  Diagnostics errors;
  check_cluster(errors, failed.domains(), failed.domain_size());
  const auto check_same = [&errors](std::string_view name, int found, int expected) {
    if (found == expected) return true;
    add_error(errors, std::string(name) + ": found " + std::to_string(found) + ", expected " +
                          std::to_string(expected) + " as in the partition");
    return false;
  };
  check_same("domain_size", failed.domain_size(), partition.domain_size());
  check_same("shape.tp", shape.tp, partition.tp_degree());
  const bool known = !errors.has_errors();
  const bool slices = check_range(errors, "shape.cp", shape.cp, 1);
  const bool stages = check_range(errors, "shape.pp", shape.pp, 1);
  check_range(errors, "shape.dp", shape.dp, 1);
  if (!known || !slices || !stages) return errors;
  const std::int64_t groups = failed.domains() * partition.groups_when_healthy();
  check_range(errors, "shape.cp * shape.pp", std::int64_t{shape.cp} * shape.pp, 1, groups, kGroupsOfCluster);
  return errors;
}

// For each sync position, the ranks that stand there in these TP groups.
void add_by_position(RankGroups& groups, std::span<const PlacedGroup* const> peers) {
  const std::size_t begin = groups.size();
  for (const PlacedGroup* peer : peers) {
    const std::size_t positions = peer->active.size();
    if (groups.size() < begin + positions) groups.resize(begin + positions);
    for (std::size_t k = 0; k < positions; ++k) {
      groups[begin + k].push_back(peer->first_rank + static_cast<std::int64_t>(k));
    }
  }
}

}  // namespace

RankPlacement::RankPlacement(FailedGpus failed, const DomainPartition& partition, const JobShape& shape)
    : failed_(std::move(failed)), shape_(shape) {
  invariant(shape.cp >= 1 && shape.pp >= 1 && shape.dp >= 1, "every degree of a job is at least 1");
  invariant(shape.tp == partition.tp_degree(), "the domains are cut into the TP groups of the job");
  invariant(failed_.domain_size() == partition.domain_size(), "failed GPUs and partition agree on domains");
  std::vector<PlacedGroup> packed = packed_groups(failed_, partition);
  const std::int64_t per_replica = static_cast<std::int64_t>(shape.cp) * shape.pp;
  const std::int64_t count = std::min(shape.dp, static_cast<std::int64_t>(packed.size()) / per_replica);
  const std::span groups(packed);
  std::vector<IdleGpu> unequal;
  replicas_.reserve(at(count));
  for (std::int64_t replica = 0; replica < count; ++replica) {
    const auto own = groups.subspan(at(replica * per_replica), at(per_replica));
    replicas_.push_back(make_replica(own, shape.cp, unequal));
  }
  std::ranges::stable_sort(replicas_, {}, &PlacedReplica::degree);
  number_ranks();
  list_idle(groups.subspan(at(count * per_replica)), unequal);
}

Result<RankPlacement> RankPlacement::make(FailedGpus failed, const DomainPartition& partition,
                                          const JobShape& shape) {
  Diagnostics errors = errors_of(failed, partition, shape);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return RankPlacement(std::move(failed), partition, shape);
}

void RankPlacement::number_ranks() {
  std::size_t world = 0;
  for (const PlacedReplica& replica : replicas_) {
    for (const PlacedGroup& group : replica.groups) world += group.active.size();
  }
  ranks_.clear();
  ranks_.reserve(world);
  std::int64_t block = 0;  // in the full grid
  for (int pp = 0; pp < shape_.pp; ++pp) {
    for (std::size_t dp = 0; dp < replicas_.size(); ++dp) {
      for (int cp = 0; cp < shape_.cp; ++cp, ++block) {
        PlacedGroup& group = replicas_[dp].groups[at(pp) * at(shape_.cp) + at(cp)];
        group.first_rank = static_cast<std::int64_t>(ranks_.size());
        for (const ActiveGpu& gpu : group.active) {
          ranks_.push_back({.domain = group.domain,
                            .slot = gpu.slot,
                            .dp = static_cast<std::int64_t>(dp),
                            .cp = cp,
                            .pp = pp,
                            .local = gpu.local,
                            .grid_rank = block * shape_.tp + gpu.local});
        }
      }
    }
  }
}

void RankPlacement::list_idle(std::span<const PlacedGroup> leftover, std::span<const IdleGpu> unequal) {
  const std::size_t size = at(failed_.domain_size());
  std::vector<IdleReason> reasons(at(failed_.domains()) * size, IdleReason::kSpare);
  std::vector<bool> idle(reasons.size(), true);
  const auto index = [size](std::int64_t domain, int slot) { return at(domain) * size + at(slot); };
  for (const PlacedGroup& group : leftover) {
    for (const ActiveGpu& gpu : group.active) {
      reasons[index(group.domain, gpu.slot)] = IdleReason::kLeftoverGroup;
    }
  }
  for (const IdleGpu& gpu : unequal) reasons[index(gpu.domain, gpu.slot)] = gpu.reason;
  for (const RankPlace& rank : ranks_) idle[index(rank.domain, rank.slot)] = false;
  for (const FailedDomain& entry : failed_.failed()) {
    for (const int slot : entry.slots) idle[index(entry.domain, slot)] = false;
  }
  idle_.reserve(reasons.size() - ranks_.size() - at(failed_.count()));
  for (std::int64_t domain = 0; domain < failed_.domains(); ++domain) {
    const std::size_t before = idle_.size();
    for (int slot = 0; slot < failed_.domain_size(); ++slot) {
      const std::size_t i = index(domain, slot);
      if (idle[i]) idle_.push_back({domain, slot, reasons[i]});
    }
    if (idle_.size() - before == size) untouched_domains_.push_back(domain);
  }
}

const PlacedGroup& RankPlacement::group(std::int64_t dp, int cp, int pp) const {
  invariant(dp >= 0 && at(dp) < replicas_.size(), "a replica of the job");
  invariant(cp >= 0 && cp < shape_.cp && pp >= 0 && pp < shape_.pp, "a slice and a stage of the job");
  return replicas_[at(dp)].groups[at(pp) * at(shape_.cp) + at(cp)];
}

RankGroups RankPlacement::tp_groups() const {
  RankGroups groups;
  for (int pp = 0; pp < shape_.pp; ++pp) {
    for (std::int64_t dp = 0; dp < std::ssize(replicas_); ++dp) {
      for (int cp = 0; cp < shape_.cp; ++cp) {
        const PlacedGroup& placed = group(dp, cp, pp);
        groups.emplace_back(placed.active.size());
        std::iota(groups.back().begin(), groups.back().end(), placed.first_rank);
      }
    }
  }
  return groups;
}

RankGroups RankPlacement::cp_groups() const {
  RankGroups groups;
  for (int pp = 0; pp < shape_.pp; ++pp) {
    for (std::int64_t dp = 0; dp < std::ssize(replicas_); ++dp) {
      std::vector<const PlacedGroup*> slices;
      for (int cp = 0; cp < shape_.cp; ++cp) slices.push_back(&group(dp, cp, pp));
      add_by_position(groups, slices);
    }
  }
  return groups;
}

RankGroups RankPlacement::dp_groups() const {
  RankGroups groups;
  for (int pp = 0; pp < shape_.pp; ++pp) {
    for (int cp = 0; cp < shape_.cp; ++cp) {
      std::vector<const PlacedGroup*> twins;
      for (std::int64_t dp = 0; dp < std::ssize(replicas_); ++dp) twins.push_back(&group(dp, cp, pp));
      add_by_position(groups, twins);
    }
  }
  return groups;
}

RankGroups RankPlacement::pp_groups() const {
  RankGroups groups;
  for (std::int64_t dp = 0; dp < std::ssize(replicas_); ++dp) {
    for (int cp = 0; cp < shape_.cp; ++cp) {
      std::vector<const PlacedGroup*> stages;
      for (int pp = 0; pp < shape_.pp; ++pp) stages.push_back(&group(dp, cp, pp));
      add_by_position(groups, stages);
    }
  }
  return groups;
}

RankPlacement at_parity(RankPlacement placement) {
  if (placement.replicas_.empty()) return placement;
  const int lowest = placement.replicas_.front().degree;
  for (PlacedReplica& replica : placement.replicas_) {
    if (replica.degree == placement.shape_.tp) break;  // reduced replicas come first
    replica.degree = lowest;
    for (PlacedGroup& group : replica.groups) shrink(group, lowest, placement.idle_);
  }
  std::ranges::sort(placement.idle_, {}, [](const IdleGpu& gpu) { return std::pair(gpu.domain, gpu.slot); });
  placement.number_ranks();
  return placement;
}

MegatronParity megatron_parity(const RankPlacement& placement) {
  const RankPlacement run = at_parity(placement);
  const JobShape& shape = run.shape();
  MegatronParity parity{.tp_base = shape.tp, .non_active_ranks_per_dp = {}};
  parity.idled_gpus = std::ssize(placement.ranks()) - std::ssize(run.ranks());
  for (std::int64_t dp = 0; dp < std::ssize(run.replicas()); ++dp) {
    const int degree = run.replicas()[at(dp)].degree;
    if (degree == shape.tp) break;
    parity.tp_spares = shape.tp - degree;
    ++parity.num_reduced_tp_dp_ranks;
    for (int cp = 0; cp < shape.cp; ++cp) {
      for (int pp = 0; pp < shape.pp; ++pp) {
        parity.non_active_ranks_per_dp.push_back({dp, cp, pp, run.group(dp, cp, pp).non_active});
      }
    }
  }
  return parity;
}

}  // namespace ntpsim::plan
