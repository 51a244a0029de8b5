#include "ntpsim/plan/rank_placement.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"
#include "ntpsim/plan/replica_assignment.h"

#include "draw.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::plan::ActiveGpu;
using ntpsim::plan::DomainPartition;
using ntpsim::plan::FailedDomain;
using ntpsim::plan::FailedGpus;
using ntpsim::plan::GroupRun;
using ntpsim::plan::IdleGpu;
using ntpsim::plan::IdleReason;
using ntpsim::plan::JobShape;
using ntpsim::plan::MegatronParity;
using ntpsim::plan::PlacedGroup;
using ntpsim::plan::PlacedReplica;
using ntpsim::plan::RankGroups;
using ntpsim::plan::RankPlace;
using ntpsim::plan::RankPlacement;
using ntpsim::plan::ReplicaAssignment;
using ntpsim::plan::ReplicaRun;
using ntpsim::testing::draw;
using Gpu = std::pair<std::int64_t, int>;  // domain, slot

struct Instance {
  FailedGpus failed;
  DomainPartition partition;
  JobShape shape;

  [[nodiscard]] RankPlacement place() const { return {failed, partition, shape}; }
};

// Clusters with few and with many failures.
Instance random_instance(RandomStream& random, int most_domains) {
  const int tp = draw(random, 1, 6);
  const int domain_size = draw(random, tp, 3 * tp + 1);
  std::vector<int> reduced;
  for (int degree = tp - 1; degree >= 1; --degree) {
    if (draw(random, 0, 2) > 0) reduced.push_back(degree);
  }
  const int domains = draw(random, 1, most_domains);
  const int one_in = draw(random, 1, 20);
  std::vector<FailedDomain> failed;
  for (int domain = 0; domain < domains; ++domain) {
    FailedDomain entry{domain, {}};
    for (int slot = 0; slot < domain_size; ++slot) {
      if (draw(random, 0, one_in) == 0) entry.slots.push_back(slot);
    }
    failed.push_back(std::move(entry));
  }
  const JobShape shape{
      .tp = tp, .cp = draw(random, 1, 3), .pp = draw(random, 1, 3), .dp = draw(random, 1, 12)};
  return {{domains, domain_size, std::move(failed)}, {domain_size, tp, reduced}, shape};
}

// The degrees of all groups by descending degree, from the healthy counts alone.
std::vector<int> packed_degrees(const Instance& instance) {
  std::vector<int> degrees;
  for (std::int64_t domain = 0; domain < instance.failed.domains(); ++domain) {
    for (const GroupRun& run : instance.partition.groups(instance.failed.healthy(domain))) {
      degrees.insert(degrees.end(), static_cast<std::size_t>(run.count), run.degree);
    }
  }
  std::ranges::sort(degrees, std::greater<>());
  return degrees;
}

TEST_CASE("every GPU is a rank, idle or failed, exactly once") {
  RandomStream random(1, 0, "test/rank_placement");
  for (int round = 0; round < 1500; ++round) {
    const Instance instance = random_instance(random, 12);
    RankPlacement placement = instance.place();
    if (round % 3 == 0) placement = at_parity(std::move(placement));
    std::set<Gpu> seen;
    std::vector<int> idle_in(static_cast<std::size_t>(instance.failed.domains()), 0);
    for (const RankPlace& rank : placement.ranks()) REQUIRE(seen.emplace(rank.domain, rank.slot).second);
    for (const IdleGpu& gpu : placement.idle()) {
      REQUIRE(seen.emplace(gpu.domain, gpu.slot).second);
      ++idle_in.at(static_cast<std::size_t>(gpu.domain));
    }
    for (const FailedDomain& entry : instance.failed.failed()) {
      for (const int slot : entry.slots) REQUIRE(seen.emplace(entry.domain, slot).second);
    }
    const auto gpus = static_cast<std::size_t>(instance.failed.domains() * instance.failed.domain_size());
    REQUIRE(seen.size() == gpus);
    REQUIRE(seen.begin()->first >= 0);
    REQUIRE(seen.rbegin()->first < instance.failed.domains());
    const auto untouched = placement.untouched_domains();
    for (std::int64_t domain = 0; domain < instance.failed.domains(); ++domain) {
      const bool all_idle = idle_in[static_cast<std::size_t>(domain)] == instance.failed.domain_size();
      REQUIRE(std::ranges::binary_search(untouched, domain) == all_idle);
    }
  }
}

TEST_CASE("groups have the slots they say, and the slices of a stage are alike") {
  RandomStream random(2, 0, "test/rank_placement");
  for (int round = 0; round < 1500; ++round) {
    const Instance instance = random_instance(random, 12);
    RankPlacement placement = instance.place();
    if (round % 3 == 0) placement = at_parity(std::move(placement));
    const auto degrees = instance.partition.degrees();
    std::set<std::pair<std::int64_t, int>> blocks;
    int last_degree = 0;
    for (const PlacedReplica& replica : placement.replicas()) {
      REQUIRE(replica.groups.size() == static_cast<std::size_t>(instance.shape.cp * instance.shape.pp));
      REQUIRE(replica.degree >= last_degree);
      last_degree = replica.degree;
      REQUIRE(replica.degree == std::ranges::min_element(replica.groups, {}, &PlacedGroup::degree)->degree);
      for (std::size_t i = 0; i < replica.groups.size(); ++i) {
        const PlacedGroup& group = replica.groups[i];
        REQUIRE(std::ranges::find(degrees, group.degree) != degrees.end());
        REQUIRE(group.block < instance.partition.groups_when_healthy());
        REQUIRE(blocks.emplace(group.domain, group.block).second);
        REQUIRE(static_cast<int>(group.active.size()) == group.degree);
        REQUIRE(std::ranges::is_sorted(group.active, {}, &ActiveGpu::local));
        std::vector<int> locals = group.non_active;
        for (const ActiveGpu& gpu : group.active) locals.push_back(gpu.local);
        std::ranges::sort(locals);
        std::vector<int> all(static_cast<std::size_t>(instance.shape.tp));
        std::iota(all.begin(), all.end(), 0);
        REQUIRE(locals == all);
        const PlacedGroup& first_slice = replica.groups[i - i % static_cast<std::size_t>(instance.shape.cp)];
        REQUIRE(group.non_active == first_slice.non_active);
      }
    }
  }
}

TEST_CASE("replicas run at the degrees of ReplicaAssignment") {
  RandomStream random(3, 0, "test/rank_placement");
  for (int round = 0; round < 1000; ++round) {
    const Instance instance = random_instance(random, 20);
    ReplicaAssignment assignment(instance.partition, instance.failed.domains(),
                                 static_cast<std::int64_t>(instance.shape.cp) * instance.shape.pp);
    for (std::int64_t domain = 0; domain < instance.failed.domains(); ++domain) {
      assignment.set_healthy(domain, instance.failed.healthy(domain));
    }
    std::vector<ReplicaRun> runs;
    const RankPlacement placement = instance.place();
    const auto replicas = placement.replicas();
    for (const PlacedReplica& replica : std::views::reverse(replicas)) {
      if (runs.empty() || runs.back().degree != replica.degree) runs.push_back({replica.degree, 0});
      ++runs.back().replicas;
    }
    REQUIRE(runs == assignment.replicas(instance.shape.dp));
  }
}

// The fewest GPUs that idle when these groups are put into stages of `cp` slices, by trying every way: the
// first group goes with any cp - 1 others.
int fewest_idle(const std::vector<int>& degrees, std::size_t cp) {
  if (degrees.empty()) return 0;
  int best = std::numeric_limits<int>::max();
  std::vector<int> chosen(degrees.size() - 1, 0);
  std::fill(chosen.end() - static_cast<std::ptrdiff_t>(cp - 1), chosen.end(), 1);
  do {
    std::vector<int> stage = {degrees.front()};
    std::vector<int> rest;
    for (std::size_t i = 1; i < degrees.size(); ++i)
      (chosen[i - 1] == 1 ? stage : rest).push_back(degrees[i]);
    const int idle = std::accumulate(stage.begin(), stage.end(), 0) -
                     static_cast<int>(cp) * *std::ranges::min_element(stage);
    best = std::min(best, idle + fewest_idle(rest, cp));
  } while (std::ranges::next_permutation(chosen).found);
  return best;
}

TEST_CASE("no other grouping of a replica's groups into stages idles fewer GPUs") {
  RandomStream random(4, 0, "test/rank_placement");
  for (int round = 0; round < 500; ++round) {
    const Instance instance = random_instance(random, 8);
    const RankPlacement placement = instance.place();
    const std::vector<int> degrees = packed_degrees(instance);
    const std::ptrdiff_t per_replica = static_cast<std::ptrdiff_t>(instance.shape.cp) * instance.shape.pp;
    int expected = 0;
    auto first = degrees.begin();
    for (std::size_t i = 0; i < placement.replicas().size(); ++i, first += per_replica) {
      expected += fewest_idle({first, first + per_replica}, static_cast<std::size_t>(instance.shape.cp));
    }
    REQUIRE(std::ranges::count(placement.idle(), IdleReason::kUnequalSlices, &IdleGpu::reason) == expected);
  }
}

TEST_CASE("leftover groups idle whole, and in-domain spares are what no group has") {
  RandomStream random(5, 0, "test/rank_placement");
  for (int round = 0; round < 500; ++round) {
    const Instance instance = random_instance(random, 12);
    const RankPlacement placement = instance.place();
    const std::vector<int> degrees = packed_degrees(instance);
    const auto used =
        static_cast<std::ptrdiff_t>(placement.replicas().size()) * instance.shape.cp * instance.shape.pp;
    const auto idle = [&placement](IdleReason reason) {
      return std::ranges::count(placement.idle(), reason, &IdleGpu::reason);
    };
    REQUIRE(idle(IdleReason::kLeftoverGroup) == std::accumulate(degrees.begin() + used, degrees.end(), 0));
    const std::int64_t healthy =
        instance.failed.domains() * instance.failed.domain_size() - instance.failed.count();
    REQUIRE(idle(IdleReason::kSpare) == healthy - std::accumulate(degrees.begin(), degrees.end(), 0));
  }
}

// The fewest GPUs outside their own block, over all choices of the blocks that stay whole and the one that is
// reduced.
int fewest_moves(const Instance& instance, std::int64_t domain) {
  const int tp = instance.shape.tp;
  const int blocks = instance.partition.groups_when_healthy();
  std::vector<int> healthy(static_cast<std::size_t>(blocks), tp);
  for (const int slot : instance.failed.slots(domain)) {
    if (slot < blocks * tp) --healthy[static_cast<std::size_t>(slot / tp)];
  }
  std::vector<int> degrees;
  for (const GroupRun& run : instance.partition.groups(instance.failed.healthy(domain))) {
    degrees.insert(degrees.end(), static_cast<std::size_t>(run.count), run.degree);
  }
  int best = std::numeric_limits<int>::max();
  std::ranges::sort(healthy);
  do {
    int moves = 0;
    for (std::size_t i = 0; i < degrees.size(); ++i) moves += std::max(0, degrees[i] - healthy[i]);
    best = std::min(best, moves);
  } while (std::ranges::next_permutation(healthy).found);
  return best;
}

TEST_CASE("the fewest GPUs leave their block, and healthy ones in place keep their local slot") {
  RandomStream random(6, 0, "test/rank_placement");
  for (int round = 0; round < 1000; ++round) {
    Instance instance = random_instance(random, 6);
    instance.shape.cp = 1;
    instance.shape.pp = 1;
    instance.shape.dp = 1000;
    const RankPlacement placement = instance.place();
    std::vector<int> moves(static_cast<std::size_t>(instance.failed.domains()), 0);
    for (const PlacedReplica& replica : placement.replicas()) {
      const PlacedGroup& group = replica.groups[0];
      for (const ActiveGpu& gpu : group.active) {
        if (gpu.slot / instance.shape.tp != group.block) {
          ++moves[static_cast<std::size_t>(group.domain)];
        } else {
          REQUIRE(gpu.slot % instance.shape.tp == gpu.local);
        }
      }
    }
    for (std::int64_t domain = 0; domain < instance.failed.domains(); ++domain) {
      REQUIRE(moves[static_cast<std::size_t>(domain)] == fewest_moves(instance, domain));
    }
  }
}

void check_partition(const RankGroups& groups, std::size_t world) {
  std::vector<int> members(world, 0);
  for (const auto& group : groups) {
    REQUIRE_FALSE(group.empty());
    REQUIRE(std::ranges::is_sorted(group));
    for (const std::int64_t rank : group) ++members.at(static_cast<std::size_t>(rank));
  }
  REQUIRE(std::ranges::count(members, 1) == static_cast<std::ptrdiff_t>(world));
}

// Ranks that agree in what the key of their place says, as sets.
template <class Key>
std::set<std::vector<std::int64_t>> grouped(const std::vector<std::vector<int>>& keys, const Key& key) {
  std::vector<std::pair<std::vector<int>, std::int64_t>> sorted;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    sorted.emplace_back(key(keys[rank]), static_cast<std::int64_t>(rank));
  }
  std::ranges::sort(sorted);
  std::set<std::vector<std::int64_t>> groups;
  for (auto first = sorted.begin(); first != sorted.end();) {
    std::vector<std::int64_t> group;
    const std::vector<int> own = first->first;
    for (; first != sorted.end() && first->first == own; ++first) group.push_back(first->second);
    groups.insert(std::move(group));
  }
  return groups;
}

std::set<std::vector<std::int64_t>> as_set(const RankGroups& groups) {
  return {groups.begin(), groups.end()};
}

TEST_CASE("ranks are dense and in order, and meet at equal sync positions") {
  RandomStream random(7, 0, "test/rank_placement");
  for (int round = 0; round < 500; ++round) {
    const Instance instance = random_instance(random, 14);
    RankPlacement placement = instance.place();
    if (round % 3 == 0) placement = at_parity(std::move(placement));
    const auto ranks = placement.ranks();
    const auto& shape = instance.shape;
    std::vector<std::vector<int>> keys;  // pp, dp, cp, sync position: counted over the ranks
    std::int64_t last_grid_rank = -1;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const RankPlace& place = ranks[rank];
      std::vector<int> key = {place.pp, static_cast<int>(place.dp), place.cp, 0};
      if (!keys.empty() && std::equal(key.begin(), key.end() - 1, keys.back().begin())) {
        key[3] = keys.back()[3] + 1;
      }
      if (!keys.empty()) REQUIRE(keys.back() < key);
      keys.push_back(std::move(key));
      REQUIRE(place.grid_rank > last_grid_rank);
      last_grid_rank = place.grid_rank;
      const std::int64_t block = static_cast<std::int64_t>(shape.tp) * shape.cp;
      const std::int64_t stage = std::ssize(placement.replicas()) * block;
      REQUIRE(place.grid_rank / stage == place.pp);
      REQUIRE(place.grid_rank % stage / block == place.dp);
      REQUIRE(place.grid_rank % block / shape.tp == place.cp);
      REQUIRE(place.grid_rank % shape.tp == place.local);
      const PlacedGroup& group = placement.group(place.dp, place.cp, place.pp);
      const std::size_t position = rank - static_cast<std::size_t>(group.first_rank);
      REQUIRE(group.domain == place.domain);
      REQUIRE(group.active.at(position) == ActiveGpu{place.local, place.slot});
      REQUIRE(position == static_cast<std::size_t>(keys.back()[3]));
    }
    for (const RankGroups& groups :
         {placement.tp_groups(), placement.cp_groups(), placement.dp_groups(), placement.pp_groups()}) {
      check_partition(groups, ranks.size());
    }
    const auto without = [](std::size_t dimension) {
      return [dimension](std::vector<int> key) {
        key[dimension] = -1;
        return key;
      };
    };
    REQUIRE(as_set(placement.pp_groups()) == grouped(keys, without(0)));
    REQUIRE(as_set(placement.dp_groups()) == grouped(keys, without(1)));
    REQUIRE(as_set(placement.cp_groups()) == grouped(keys, without(2)));
    REQUIRE(as_set(placement.tp_groups()) == grouped(keys, without(3)));
  }
}

TEST_CASE("Megatron's view lists every group of the reduced replicas, padded to one degree") {
  RandomStream random(8, 0, "test/rank_placement");
  for (int round = 0; round < 1000; ++round) {
    const Instance instance = random_instance(random, 14);
    const RankPlacement placement = instance.place();
    const MegatronParity parity = megatron_parity(placement);
    const int tp = instance.shape.tp;
    int lowest = tp;
    std::int64_t reduced = 0;
    for (const RankPlace& rank : placement.ranks()) {
      lowest = std::min(lowest, placement.group(rank.dp, rank.cp, rank.pp).degree);
    }
    for (const PlacedReplica& replica : placement.replicas()) reduced += replica.degree < tp ? 1 : 0;
    REQUIRE(parity.tp_base == tp);
    REQUIRE(parity.tp_spares == tp - lowest);
    REQUIRE(parity.num_reduced_tp_dp_ranks == reduced);
    std::int64_t idled = 0;
    auto entry = parity.non_active_ranks_per_dp.begin();
    for (std::int64_t dp = 0; dp < reduced; ++dp) {
      for (int cp = 0; cp < instance.shape.cp; ++cp) {
        for (int pp = 0; pp < instance.shape.pp; ++pp, ++entry) {
          REQUIRE(entry != parity.non_active_ranks_per_dp.end());
          REQUIRE(std::tuple(entry->dp, entry->cp, entry->pp) == std::tuple(dp, cp, pp));
          REQUIRE(static_cast<int>(entry->local.size()) == parity.tp_spares);
          REQUIRE(std::ranges::is_sorted(entry->local));
          REQUIRE(std::ranges::adjacent_find(entry->local) == entry->local.end());
          const std::vector<int>& failed = placement.group(dp, cp, pp).non_active;
          REQUIRE(std::ranges::includes(entry->local, failed));
          idled += static_cast<std::int64_t>(entry->local.size() - failed.size());
          // Padding comes from the end: above the lowest padded slot nothing runs.
          std::vector<int> padding;
          std::ranges::set_difference(entry->local, failed, std::back_inserter(padding));
          if (padding.empty()) continue;
          const auto above = std::ranges::lower_bound(entry->local, padding.front());
          REQUIRE(entry->local.end() - above == tp - padding.front());
        }
      }
    }
    REQUIRE(entry == parity.non_active_ranks_per_dp.end());
    REQUIRE(parity.idled_gpus == idled);
    const RankPlacement run = at_parity(placement);
    REQUIRE(std::ssize(run.ranks()) == std::ssize(placement.ranks()) - idled);
    for (const RankPlace& rank : run.ranks()) {
      const PlacedGroup& group = run.group(rank.dp, rank.cp, rank.pp);
      REQUIRE(group.degree == (rank.dp < reduced ? lowest : tp));
      const auto& before = placement.group(rank.dp, rank.cp, rank.pp).active;
      REQUIRE(std::equal(group.active.begin(), group.active.end(), before.begin()));
    }
    REQUIRE(megatron_parity(run).non_active_ranks_per_dp == parity.non_active_ranks_per_dp);
  }
}

}  // namespace
