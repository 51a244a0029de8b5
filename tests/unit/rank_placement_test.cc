#include "ntpsim/plan/rank_placement.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"
#include "messages.h"

namespace {

using ntpsim::plan::ActiveGpu;
using ntpsim::plan::at_parity;
using ntpsim::plan::DomainPartition;
using ntpsim::plan::FailedDomain;
using ntpsim::plan::FailedGpus;
using ntpsim::plan::IdleGpu;
using ntpsim::plan::IdleReason;
using ntpsim::plan::JobShape;
using ntpsim::plan::megatron_parity;
using ntpsim::plan::MegatronParity;
using ntpsim::plan::NonActiveRanks;
using ntpsim::plan::PlacedGroup;
using ntpsim::plan::RankGroups;
using ntpsim::plan::RankPlace;
using ntpsim::plan::RankPlacement;
using ntpsim::testing::messages;
using Active = std::vector<ActiveGpu>;
using Domains = std::vector<std::int64_t>;
using Idle = std::vector<IdleGpu>;
using Slots = std::vector<int>;

struct Cluster {
  std::int64_t domains = 1;
  int domain_size = 1;
  std::vector<FailedDomain> failed;
};

RankPlacement place(const Cluster& cluster, const Slots& reduced, const JobShape& shape) {
  return {FailedGpus(cluster.domains, cluster.domain_size, cluster.failed),
          DomainPartition(cluster.domain_size, shape.tp, reduced), shape};
}

Slots slots(const PlacedGroup& group) {
  Slots slots;
  for (const ActiveGpu& gpu : group.active) slots.push_back(gpu.slot);
  return slots;
}

Domains domains_of_replicas(const RankPlacement& placement) {
  Domains domains;
  for (const auto& replica : placement.replicas()) {
    for (const PlacedGroup& group : replica.groups) domains.push_back(group.domain);
  }
  return domains;
}

Domains untouched(const RankPlacement& placement) {
  return {placement.untouched_domains().begin(), placement.untouched_domains().end()};
}

Idle idle(const RankPlacement& placement) {
  return {placement.idle().begin(), placement.idle().end()};
}

TEST_CASE("a healthy job fills the grid in Megatron's order: TP fastest, then CP, DP, PP") {
  const RankPlacement placement =
      place({.domains = 2, .domain_size = 4, .failed = {}}, {}, {.tp = 2, .cp = 1, .pp = 2, .dp = 2});
  REQUIRE(placement.ranks().size() == 8);
  CHECK(placement.ranks()[1] ==
        RankPlace{.domain = 0, .slot = 1, .dp = 0, .cp = 0, .pp = 0, .local = 1, .grid_rank = 1});
  CHECK(placement.ranks()[2] ==
        RankPlace{.domain = 1, .slot = 0, .dp = 1, .cp = 0, .pp = 0, .local = 0, .grid_rank = 2});
  CHECK(placement.ranks()[4] ==
        RankPlace{.domain = 0, .slot = 2, .dp = 0, .cp = 0, .pp = 1, .local = 0, .grid_rank = 4});
  CHECK(placement.tp_groups() == RankGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(placement.dp_groups() == RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(placement.pp_groups() == RankGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(placement.cp_groups() == RankGroups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  CHECK(placement.idle().empty());
  CHECK(megatron_parity(placement) == MegatronParity{.tp_base = 2, .non_active_ranks_per_dp = {}});
}

TEST_CASE("Megatron's packed example: TP 2 beside TP 4") {
  const RankPlacement placement = place({.domains = 2, .domain_size = 4, .failed = {{1, {0, 2}}}}, {2},
                                        {.tp = 4, .cp = 1, .pp = 1, .dp = 2});
  CHECK(placement.tp_groups() == RankGroups{{0, 1}, {2, 3, 4, 5}});
  CHECK(placement.dp_groups() == RankGroups{{0, 2}, {1, 3}, {4}, {5}});
  CHECK(placement.replicas()[0].degree == 2);
  CHECK(placement.replicas()[1].degree == 4);
  CHECK(placement.group(0, 0, 0).active == Active{{1, 1}, {3, 3}});
  CHECK(placement.group(0, 0, 0).non_active == Slots{0, 2});
  CHECK(placement.group(1, 0, 0).first_rank == 2);
  CHECK(placement.ranks()[1].grid_rank == 3);
  CHECK(placement.ranks()[2].grid_rank == 4);
}

TEST_CASE("Megatron's topology example: TP 8 and CP 2 over active sizes 4 and 8") {
  const RankPlacement placement =
      place({.domains = 4, .domain_size = 8, .failed = {{0, {4, 5, 6, 7}}, {1, {4, 5, 6, 7}}}}, {4},
            {.tp = 8, .cp = 2, .pp = 1, .dp = 2});
  CHECK(placement.tp_groups() ==
        RankGroups{
            {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}, {16, 17, 18, 19, 20, 21, 22, 23}});
  CHECK(placement.cp_groups() == RankGroups{{0, 4},
                                            {1, 5},
                                            {2, 6},
                                            {3, 7},
                                            {8, 16},
                                            {9, 17},
                                            {10, 18},
                                            {11, 19},
                                            {12, 20},
                                            {13, 21},
                                            {14, 22},
                                            {15, 23}});
  CHECK(placement.dp_groups() == RankGroups{{0, 8},
                                            {1, 9},
                                            {2, 10},
                                            {3, 11},
                                            {12},
                                            {13},
                                            {14},
                                            {15},
                                            {4, 16},
                                            {5, 17},
                                            {6, 18},
                                            {7, 19},
                                            {20},
                                            {21},
                                            {22},
                                            {23}});
}

TEST_CASE("an in-domain spare takes the local slot of a failed GPU") {
  // Blocks 0-3 and 4-7, spares 8 and 9.
  const RankPlacement placement = place({.domains = 1, .domain_size = 10, .failed = {{0, {1}}}}, {},
                                        {.tp = 4, .cp = 1, .pp = 1, .dp = 2});
  CHECK(placement.group(0, 0, 0).active == Active{{0, 0}, {1, 8}, {2, 2}, {3, 3}});
  CHECK(slots(placement.group(1, 0, 0)) == Slots{4, 5, 6, 7});
  CHECK(idle(placement) == Idle{{0, 9, IdleReason::kSpare}});
}

TEST_CASE("the block hurt most is reduced; what spares are left go there") {
  const RankPlacement placement = place({.domains = 1, .domain_size = 10, .failed = {{0, {1, 5, 6}}}}, {3},
                                        {.tp = 4, .cp = 1, .pp = 1, .dp = 2});
  const PlacedGroup& reduced = placement.group(0, 0, 0);
  CHECK(reduced.block == 1);
  CHECK(reduced.degree == 3);
  CHECK(reduced.active == Active{{0, 4}, {1, 9}, {3, 7}});
  CHECK(reduced.non_active == Slots{2});
  CHECK(slots(placement.group(1, 0, 0)) == Slots{0, 8, 2, 3});
}

TEST_CASE("without spares the reduced block gives its last GPUs to the whole ones") {
  const RankPlacement placement = place({.domains = 1, .domain_size = 8, .failed = {{0, {0, 5, 6}}}}, {1},
                                        {.tp = 4, .cp = 1, .pp = 1, .dp = 2});
  CHECK(placement.group(0, 0, 0).active == Active{{0, 4}});
  CHECK(placement.group(0, 0, 0).non_active == Slots{1, 2, 3});
  CHECK(slots(placement.group(1, 0, 0)) == Slots{7, 1, 2, 3});
}

TEST_CASE("reduced blocks that share a loss give only what they have to spare") {
  // 14 of 16 are healthy, both failures in block 0: groups of 7 and 7, so block 1 gives its last GPU.
  const RankPlacement placement = place({.domains = 1, .domain_size = 16, .failed = {{0, {2, 3}}}}, {7, 6},
                                        {.tp = 8, .cp = 1, .pp = 1, .dp = 2});
  CHECK(placement.group(0, 0, 0).block == 1);
  CHECK(slots(placement.group(0, 0, 0)) == Slots{8, 9, 10, 11, 12, 13, 14});
  CHECK(placement.group(0, 0, 0).non_active == Slots{7});
  CHECK(placement.group(1, 0, 0).block == 0);
  CHECK(slots(placement.group(1, 0, 0)) == Slots{0, 1, 15, 4, 5, 6, 7});
  CHECK(placement.group(1, 0, 0).non_active == Slots{3});
  CHECK(placement.idle().empty());
}

TEST_CASE("a block that is given up fills the others first, and the rest of it idles") {
  // 7 healthy GPUs: one whole group, none of 3; block 0 keeps its place, blocks 1 and 2 give.
  const RankPlacement placement = place({.domains = 1, .domain_size = 12, .failed = {{0, {0, 4, 5, 6, 8}}}},
                                        {}, {.tp = 4, .cp = 1, .pp = 1, .dp = 3});
  REQUIRE(placement.replicas().size() == 1);
  CHECK(slots(placement.group(0, 0, 0)) == Slots{9, 1, 2, 3});
  CHECK(idle(placement) ==
        Idle{{0, 7, IdleReason::kSpare}, {0, 10, IdleReason::kSpare}, {0, 11, IdleReason::kSpare}});
}

TEST_CASE("more healthy GPUs than the degree: the highest idle") {
  const RankPlacement placement = place({.domains = 1, .domain_size = 8, .failed = {{0, {2}}}}, {6},
                                        {.tp = 8, .cp = 1, .pp = 1, .dp = 1});
  CHECK(slots(placement.group(0, 0, 0)) == Slots{0, 1, 3, 4, 5, 6});
  CHECK(placement.group(0, 0, 0).non_active == Slots{2, 7});
  CHECK(idle(placement) == Idle{{0, 7, IdleReason::kSpare}});
}

TEST_CASE("a spare domain takes the place of a hurt one, and nobody else moves") {
  const JobShape shape{.tp = 4, .cp = 1, .pp = 2, .dp = 2};
  const RankPlacement before = place({.domains = 6, .domain_size = 4, .failed = {}}, {}, shape);
  CHECK(domains_of_replicas(before) == Domains{0, 1, 2, 3});
  CHECK(untouched(before) == Domains{4, 5});
  const RankPlacement after = place({.domains = 6, .domain_size = 4, .failed = {{1, {3}}}}, {}, shape);
  CHECK(domains_of_replicas(after) == Domains{0, 5, 2, 3});
  CHECK(untouched(after) == Domains{4});
  CHECK(after.idle().size() == 7);
}

TEST_CASE("a domain that lost a GPU no group needs keeps its place") {
  const JobShape shape{.tp = 4, .cp = 1, .pp = 1, .dp = 2};
  const RankPlacement placement = place({.domains = 3, .domain_size = 6, .failed = {{0, {0, 5}}}}, {}, shape);
  CHECK(domains_of_replicas(placement) == Domains{0, 1});
  CHECK(slots(placement.group(0, 0, 0)) == Slots{4, 1, 2, 3});
  CHECK(untouched(placement) == Domains{2});
  CHECK(idle(placement).front() == IdleGpu{1, 4, IdleReason::kSpare});
  CHECK(idle(placement).back() == IdleGpu{2, 5, IdleReason::kSpare});
  CHECK(idle(placement)[2] == IdleGpu{2, 0, IdleReason::kLeftoverGroup});
}

TEST_CASE("reduced replicas come first, the lowest degree foremost, whole ones in packing order") {
  const RankPlacement placement =
      place({.domains = 5, .domain_size = 8, .failed = {{0, {0}}, {2, {0, 1, 2}}, {3, {4, 6}}}}, {7, 6, 5},
            {.tp = 8, .cp = 1, .pp = 1, .dp = 5});
  Slots degrees;
  for (const auto& replica : placement.replicas()) degrees.push_back(replica.degree);
  CHECK(degrees == Slots{5, 6, 7, 8, 8});
  CHECK(domains_of_replicas(placement) == Domains{2, 3, 0, 4, 1});
  // With fewer replicas wanted the worst stay out.
  const RankPlacement three =
      place({.domains = 5, .domain_size = 8, .failed = {{0, {0}}, {2, {0, 1, 2}}, {3, {4, 6}}}}, {7, 6, 5},
            {.tp = 8, .cp = 1, .pp = 1, .dp = 3});
  CHECK(domains_of_replicas(three) == Domains{0, 4, 1});
  CHECK(untouched(three).empty());
}

TEST_CASE("stages of one replica may differ in degree") {
  const RankPlacement placement = place({.domains = 2, .domain_size = 8, .failed = {{0, {1, 6}}}}, {6},
                                        {.tp = 8, .cp = 1, .pp = 2, .dp = 1});
  CHECK(placement.replicas()[0].degree == 6);
  CHECK(placement.group(0, 0, 0).degree == 8);
  CHECK(placement.group(0, 0, 1).degree == 6);
  CHECK(placement.pp_groups() == RankGroups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6}, {7}});
  // Megatron needs a key for the whole stage too.
  const MegatronParity parity = megatron_parity(placement);
  CHECK(parity.tp_spares == 2);
  CHECK(parity.num_reduced_tp_dp_ranks == 1);
  CHECK(parity.non_active_ranks_per_dp == std::vector<NonActiveRanks>{{0, 0, 0, {6, 7}}, {0, 0, 1, {1, 6}}});
  CHECK(parity.idled_gpus == 2);
}

TEST_CASE("a whole slice idles the local slots that its hurt twin lost") {
  const RankPlacement placement = place({.domains = 4, .domain_size = 4, .failed = {{2, {1}}}}, {3},
                                        {.tp = 4, .cp = 2, .pp = 2, .dp = 1});
  // Packing order 0, 1, 3, 2: the stages are {0, 1} and {3, 2}.
  CHECK(domains_of_replicas(placement) == Domains{0, 1, 3, 2});
  CHECK(placement.group(0, 1, 0).degree == 4);
  CHECK(placement.group(0, 0, 1).active == Active{{0, 0}, {2, 2}, {3, 3}});
  CHECK(placement.group(0, 1, 1).active == placement.group(0, 0, 1).active);
  CHECK(idle(placement) == Idle{{3, 1, IdleReason::kUnequalSlices}});
}

TEST_CASE("slices hurt in different slots agree on local slots by a trade in one domain") {
  const RankPlacement placement = place({.domains = 2, .domain_size = 4, .failed = {{0, {3}}, {1, {0, 1}}}},
                                        {3, 2}, {.tp = 4, .cp = 2, .pp = 1, .dp = 1});
  // Domain 1 decides: local slots 0 and 1 do not run. Domain 0 keeps GPU 2 and moves GPU 0 to local slot 3.
  CHECK(placement.group(0, 0, 0).domain == 0);
  CHECK(placement.group(0, 0, 0).active == Active{{2, 2}, {3, 0}});
  CHECK(placement.group(0, 1, 0).active == Active{{2, 2}, {3, 3}});
  CHECK(placement.group(0, 0, 0).non_active == Slots{0, 1});
  CHECK(idle(placement) == Idle{{0, 1, IdleReason::kUnequalSlices}});
}

TEST_CASE("Megatron's parity example: hurt groups are padded from their highest active slots") {
  const RankPlacement placement = place({.domains = 3, .domain_size = 8, .failed = {{0, {2, 5}}, {1, {1}}}},
                                        {7, 6}, {.tp = 8, .cp = 1, .pp = 1, .dp = 3});
  const MegatronParity parity = megatron_parity(placement);
  CHECK(parity.tp_base == 8);
  CHECK(parity.tp_spares == 2);
  CHECK(parity.num_reduced_tp_dp_ranks == 2);
  CHECK(parity.non_active_ranks_per_dp == std::vector<NonActiveRanks>{{0, 0, 0, {2, 5}}, {1, 0, 0, {1, 7}}});
  CHECK(parity.idled_gpus == 1);
  const RankPlacement run = at_parity(placement);
  CHECK(slots(run.group(1, 0, 0)) == Slots{0, 2, 3, 4, 5, 6});
  CHECK(run.group(2, 0, 0).first_rank == 12);
  CHECK(run.ranks().size() == 20);
  CHECK(run.dp_groups().front() == std::vector<std::int64_t>{0, 6, 12});
  CHECK(idle(run) == Idle{{1, 7, IdleReason::kUnequalSlices}});
}

TEST_CASE("a cluster without a replica") {
  const RankPlacement placement =
      place({.domains = 2, .domain_size = 4, .failed = {{0, {0}}}}, {}, {.tp = 4, .cp = 1, .pp = 2, .dp = 1});
  CHECK(placement.replicas().empty());
  CHECK(placement.ranks().empty());
  CHECK(placement.dp_groups().empty());
  CHECK(placement.pp_groups().empty());
  CHECK(placement.idle().size() == 7);
  CHECK(untouched(placement) == Domains{1});
  CHECK(megatron_parity(placement) == MegatronParity{.tp_base = 4, .non_active_ranks_per_dp = {}});
}

TEST_CASE("contracts") {
  using ntpsim::testing::aborts;
  const FailedGpus failed(2, 8);
  const DomainPartition partition(8, 4);
  CHECK(aborts([&] { (void)RankPlacement(failed, partition, {.tp = 8, .cp = 1, .pp = 1, .dp = 1}); }));
  CHECK(aborts([&] { (void)RankPlacement(failed, partition, {.tp = 4, .cp = 0, .pp = 1, .dp = 1}); }));
  CHECK(aborts([&] { (void)RankPlacement(failed, partition, {.tp = 4, .cp = 1, .pp = 0, .dp = 1}); }));
  CHECK(aborts([&] { (void)RankPlacement(failed, partition, {.tp = 4, .cp = 1, .pp = 1, .dp = 0}); }));
  CHECK(aborts([&] { (void)RankPlacement(failed, {16, 4}, {.tp = 4, .cp = 1, .pp = 1, .dp = 1}); }));
  const RankPlacement placement(failed, partition, {.tp = 4, .cp = 1, .pp = 1, .dp = 2});
  CHECK(aborts([&] { (void)placement.group(2, 0, 0); }));
  CHECK(aborts([&] { (void)placement.group(0, 1, 0); }));
  CHECK(aborts([&] { (void)placement.group(0, 0, -1); }));
}

TEST_CASE("arguments that may be wrong") {
  using Texts = std::vector<std::string>;
  const DomainPartition partition(8, 4);
  const JobShape shape{.tp = 4, .cp = 1, .pp = 2, .dp = 2};
  CHECK(RankPlacement::make(FailedGpus(2, 8), partition, shape).value() ==
        RankPlacement(FailedGpus(2, 8), partition, shape));
  CHECK(messages(RankPlacement::make(FailedGpus(2, 16), partition, {.tp = 8, .cp = 0, .pp = 1, .dp = 0})) ==
        Texts{"domain_size: found 16, expected 8 as in the partition",
              "shape.tp: found 8, expected 4 as in the partition", "shape.cp: found 0, expected at least 1",
              "shape.dp: found 0, expected at least 1"});
  CHECK(messages(RankPlacement::make(FailedGpus(2, 8), partition, {.tp = 4, .cp = 3, .pp = 2, .dp = 1})) ==
        Texts{"shape.cp * shape.pp: found 6, expected 1 to 4, the TP groups of the healthy cluster"});
}

}  // namespace
