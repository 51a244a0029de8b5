#include "ntpsim/plan/state_moves.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"
#include "messages.h"

namespace ntpsim::plan {
namespace {

using testing::messages;

using RankLists = std::vector<std::vector<int>>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Placement placement(std::int64_t size, std::vector<OwnedRange> ranges) {
  return Placement::from_ranges(size, std::move(ranges)).value();
}

std::vector<OwnedRange> copied(std::span<const OwnedRange> ranges) {
  return {ranges.begin(), ranges.end()};
}

// ---- scenarios ----

TEST_CASE("going down: what a failed rank held comes from the other replica, the rest from neighbours") {
  // Two replicas of TP 4 over 12 units, three a rank. Rank 3 fails, so replica 0 goes to TP 3, four a rank.
  const Placement healthy = replicated(ShardLayout(12, 4), RankLists{{0, 1, 2, 3}, {4, 5, 6, 7}}).value();
  const Placement have = healthy.without(std::vector{3});
  const Placement want = replicated(std::vector<ReplicaShards>{{ShardLayout(12, 3), {0, 1, 2}},
                                                               {ShardLayout(12, 4), {4, 5, 6, 7}}})
                             .value();
  const MovePlan plan = plan_moves(have, want);
  CHECK(plan.transfers == std::vector<Transfer>{{1, 0, {3, 4}}, {2, 1, {6, 8}}, {7, 2, {9, 12}}});
  CHECK(plan.kept ==
        std::vector<OwnedRange>{
            {{0, 3}, 0}, {{4, 6}, 1}, {{8, 9}, 2}, {{0, 3}, 4}, {{3, 6}, 5}, {{6, 9}, 6}, {{9, 12}, 7}});
  CHECK(plan.across_domains == MoveTraffic{6, 3, 3, 3});
  CHECK(plan.within_domains == MoveTraffic{});
  CHECK(plan.lost.empty());
  CHECK(plan.checkpoint_reads.empty());
}

TEST_CASE("healing back: the repaired rank gets its shard from the copies, the others only drop units") {
  const Placement have = replicated(std::vector<ReplicaShards>{{ShardLayout(12, 3), {0, 1, 2}},
                                                               {ShardLayout(12, 4), {4, 5, 6, 7}}})
                             .value();
  const Placement want = replicated(ShardLayout(12, 4), RankLists{{0, 1, 2, 3}, {4, 5, 6, 7}}).value();
  const MovePlan plan = plan_moves(have, want);
  // Rank 1 has [4, 8) and lacks unit 3, rank 2 has [8, 12) and lacks [6, 8), rank 3 has nothing.
  CHECK(plan.transfers == std::vector<Transfer>{{0, 1, {3, 4}}, {1, 2, {6, 8}}, {2, 3, {9, 12}}});
  CHECK(plan.across_domains == MoveTraffic{6, 3, 3, 3});
  CHECK(plan.lost.empty());
}

TEST_CASE("a single replica that lost a rank has lost a range, unless there is a checkpoint") {
  const Placement have =
      replicated(ShardLayout(128, 16), RankLists{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}})
          .value()
          .without(std::vector{15});
  const Placement want = replicated(ShardLayout(128, 8), RankLists{{0, 1, 2, 3, 4, 5, 6, 7}}).value();
  const MovePlan without = plan_moves(have, want);
  CHECK(without.lost == std::vector<WantedRange>{{{120, 128}, {7}}});
  CHECK(without.checkpoint_reads.empty());
  CHECK(describe_lost(without.lost, "units") == "units [120, 128) have no surviving copy");

  const MovePlan with = plan_moves(have, want, {.checkpoint_available = true, .domain_of = {}});
  CHECK(with.lost.empty());
  CHECK(with.checkpoint_reads == without.lost);
  CHECK(with.transfers == without.transfers);
  CHECK(with.kept == without.kept);
  CHECK(describe_lost(with.lost, "units").empty());
}

TEST_CASE("a distributed optimizer loses the piece of a failed rank; the others cut what is left anew") {
  // TP 1, DP 4 over 24 elements: six a rank. Rank 1 fails; DP 3 has eight a rank.
  const ShardLayout whole(24, 1);
  const Placement have =
      distributed_optimizer(whole, RankLists{{0}, {1}, {2}, {3}}).value().without(std::vector{1});
  const Placement want = distributed_optimizer(whole, RankLists{{0}, {2}, {3}}).value();
  const MovePlan plan = plan_moves(have, want);
  CHECK(plan.lost == std::vector<WantedRange>{{{6, 8}, {0}}, {{8, 12}, {2}}});
  CHECK(describe_lost(plan.lost, "elements") == "elements [6, 12) have no surviving copy");
  CHECK(plan.transfers == std::vector<Transfer>{{2, 3, {16, 18}}});
  CHECK(plan.kept == std::vector<OwnedRange>{{{0, 6}, 0}, {{12, 16}, 2}, {{18, 24}, 3}});

  const MovePlan with = plan_moves(have, want, {.checkpoint_available = true, .domain_of = {}});
  CHECK(with.checkpoint_reads == plan.lost);
  CHECK(with.lost.empty());
}

TEST_CASE("a source in the same domain comes before any other") {
  // Replicas of TP 2 in domains of two ranks; 4 and 5 are the repaired replica's place, in the domain of 3.
  const ShardLayout halves(8, 2);
  const Placement have = replicated(halves, RankLists{{0, 1}, {2, 3}}).value();
  const Placement want = replicated(halves, RankLists{{0, 1}, {2, 3}, {4, 5}}).value();
  const std::vector<int> domain_of = {0, 0, 1, 2, 2, 2};
  const MovePlan plan = plan_moves(have, want, {.checkpoint_available = false, .domain_of = domain_of});
  CHECK(plan.transfers == std::vector<Transfer>{{0, 4, {0, 4}}, {3, 5, {4, 8}}});
  CHECK(plan.within_domains == MoveTraffic{4, 4, 4, 4});
  CHECK(plan.across_domains == MoveTraffic{4, 4, 4, 4});
  // Without domains, rank 1 serves as well as rank 3.
  const MovePlan blind = plan_moves(have, want);
  CHECK(blind.transfers == std::vector<Transfer>{{0, 4, {0, 4}}, {1, 5, {4, 8}}});
}

// ---- choosing among copies ----

TEST_CASE("many copies of one range are shared out among its holders") {
  // Ranks 0 and 1 hold it; six ranks want it, two units each.
  std::vector<OwnedRange> wanted;
  for (int rank = 2; rank < 8; ++rank) wanted.push_back({{0, 2}, rank});
  const MovePlan plan = plan_moves(placement(2, {{{0, 2}, 0}, {{0, 2}, 1}}), placement(2, std::move(wanted)));
  CHECK(plan.across_domains == MoveTraffic{12, 6, 2, 6});
  CHECK(plan.transfers.size() == 6);
}

TEST_CASE("a range is split between holders when its copies cannot be shared out whole") {
  std::vector<OwnedRange> wanted;
  for (int rank = 2; rank < 5; ++rank) wanted.push_back({{0, 2}, rank});
  const MovePlan plan = plan_moves(placement(2, {{{0, 2}, 0}, {{0, 2}, 1}}), placement(2, std::move(wanted)));
  CHECK(plan.across_domains == MoveTraffic{6, 3, 2, 3});
  CHECK(plan.transfers.size() == 4);
}

TEST_CASE("a greedy choice is put right: the holder that others need hands its load on") {
  // Unit pairs A = [0, 2) on ranks 0, 1; B = [2, 4) on 1, 2; C = [4, 6) on 2, 3. A is wanted four times, B
  // and C twice: 16 units over four ranks, 4 each only if rank 1 sends A and rank 2 sends B.
  const Placement have = placement(6, {{{0, 2}, 0}, {{0, 4}, 1}, {{2, 6}, 2}, {{4, 6}, 3}});
  const Placement want = placement(6, {{{0, 2}, 10},
                                       {{0, 2}, 11},
                                       {{0, 2}, 12},
                                       {{0, 2}, 13},
                                       {{2, 4}, 14},
                                       {{2, 4}, 15},
                                       {{4, 6}, 16},
                                       {{4, 6}, 17}});
  CHECK(plan_moves(have, want).across_domains == MoveTraffic{16, 4, 2, 4});
}

TEST_CASE("a range with one holder sets the bound for all its copies") {
  const Placement have = placement(10, {{{0, 10}, 0}, {{0, 9}, 1}, {{0, 9}, 2}});
  std::vector<OwnedRange> wanted;
  for (int rank = 3; rank < 8; ++rank) wanted.push_back({{9, 10}, rank});
  const MovePlan plan = plan_moves(have, placement(10, std::move(wanted)));
  CHECK(plan.across_domains == MoveTraffic{5, 5, 1, 5});
}

TEST_CASE("a rank that receives a range is no source for it") {
  const MovePlan plan =
      plan_moves(placement(4, {{{0, 4}, 0}}), placement(4, {{{0, 4}, 1}, {{0, 4}, 2}, {{0, 4}, 3}}));
  for (const Transfer& transfer : plan.transfers) CHECK(transfer.from == 0);
  CHECK(plan.across_domains == MoveTraffic{12, 12, 4, 12});
}

TEST_CASE("while the receiver is the bottleneck, one large transfer is better than many even ones") {
  RankLists ranks;
  for (int rank = 0; rank < 100; ++rank) ranks.push_back({rank});
  const Placement have = replicated(ShardLayout(1000, 1), ranks).value();
  const MovePlan plan = plan_moves(have, placement(1000, {{{0, 1000}, 100}}));
  CHECK(plan.transfers == std::vector<Transfer>{{0, 100, {0, 1000}}});
  CHECK(plan.across_domains.bottleneck() == plan.across_domains.lower_bound);
}

TEST_CASE("a rank stays with its source while that has what comes next") {
  const Placement have = placement(8, {{{0, 4}, 1}, {{0, 4}, 2}, {{5, 8}, 1}, {{5, 8}, 2}});
  CHECK(plan_moves(have, placement(8, {{{2, 4}, 10}, {{0, 4}, 11}})).transfers ==
        std::vector<Transfer>{{2, 10, {2, 4}}, {1, 11, {0, 4}}});
  // After a gap it takes the least loaded one.
  CHECK(plan_moves(have, placement(8, {{{0, 2}, 10}, {{6, 8}, 10}})).transfers ==
        std::vector<Transfer>{{1, 10, {0, 2}}, {2, 10, {6, 8}}});
}

TEST_CASE("the two networks are balanced apart") {
  // Ranks 0 and 4 hold all. Rank 1 gets its copy in its domain; 2 and 3 have no holder in theirs.
  const std::vector<int> domain_of = {0, 0, 1, 1, 0};
  const Placement have = placement(6, {{{0, 6}, 0}, {{0, 6}, 4}});
  const Placement want = placement(6, {{{0, 6}, 1}, {{0, 6}, 2}, {{0, 6}, 3}});
  const MovePlan plan = plan_moves(have, want, {.checkpoint_available = false, .domain_of = domain_of});
  CHECK(plan.within_domains == MoveTraffic{6, 6, 6, 6});
  CHECK(plan.across_domains == MoveTraffic{12, 6, 6, 6});
}

// ---- placements ----

TEST_CASE("a placement is the same in whatever order and cut its ranges come") {
  const Placement a = placement(10, {{{4, 6}, 2}, {{0, 3}, 0}, {{3, 5}, 0}, {{0, 10}, 1}});
  CHECK(copied(a.ranges()) == std::vector<OwnedRange>{{{0, 5}, 0}, {{0, 10}, 1}, {{4, 6}, 2}});
  CHECK(a == placement(10, {{{0, 10}, 1}, {{4, 6}, 2}, {{0, 5}, 0}}));
  CHECK(a != placement(11, {{{0, 10}, 1}, {{4, 6}, 2}, {{0, 5}, 0}}));
  CHECK(copied(a.ranges_of(1)) == std::vector<OwnedRange>{{{0, 10}, 1}});
  CHECK(a.ranges_of(3).empty());
  CHECK(a.ranges_of(-1).empty());
  CHECK(a.without(std::vector{7, 1, 1, 0}) == placement(10, {{{4, 6}, 2}}));
  CHECK(a.without({}) == a);
}

TEST_CASE("an error names every range that is wrong") {
  const auto bad = Placement::from_ranges(
      10, {{{0, 4}, 0}, {{3, 5}, 0}, {{3, 3}, 1}, {{-1, 2}, 1}, {{5, 11}, 1}, {{0, 1}, -2}, {{3, 5}, 2}});
  CHECK(messages(bad) ==
        std::vector<std::string>{"[0, 1) of rank -2: expected a rank of at least 0",
                                 "[3, 5) of rank 0: overlaps [0, 4) of the same rank",
                                 "[-1, 2) of rank 1: expected a range that is not empty, within [0, 10)",
                                 "[3, 3) of rank 1: expected a range that is not empty, within [0, 10)",
                                 "[5, 11) of rank 1: expected a range that is not empty, within [0, 10)"});
  CHECK(messages(Placement::from_ranges(10, {{{0, 9}, 0}, {{1, 2}, 0}, {{3, 4}, 0}})) ==
        std::vector<std::string>{"[1, 2) of rank 0: overlaps [0, 9) of the same rank",
                                 "[3, 4) of rank 0: overlaps [0, 9) of the same rank"});
  CHECK(messages(Placement::from_ranges(-1, {})) ==
        std::vector<std::string>{"placement: found size -1, expected none or more"});
  CHECK(
      messages(Placement::from_ranges(kMost, {{{0, kMost}, 0}, {{0, 1}, 1}})) ==
      std::vector<std::string>{"placement: ranges of more than 9223372036854775807 indices in all, expected "
                               "fewer"});
  CHECK(
      messages(Placement::from_ranges(1, {{{std::numeric_limits<std::int64_t>::min(), kMost}, 0}})).size() ==
      1);
}

TEST_CASE("units become elements, in replicas of different layouts") {
  const Placement both =
      replicated(std::vector<ReplicaShards>{{ShardLayout(5, 2), {7, 3}}, {ShardLayout(5, 1), {0}}}, 10)
          .value();
  CHECK(both == placement(50, {{{0, 30}, 7}, {{30, 50}, 3}, {{0, 50}, 0}}));
  CHECK(replicated(ShardLayout(5, 2), RankLists{{7, 3}}, 10).value() == both.without(std::vector{0}));
  CHECK(replicated(ShardLayout(5, 2), RankLists{}, 10).value() == placement(50, {}));
}

TEST_CASE("replicas that do not fit together are errors") {
  CHECK(messages(replicated(
            std::vector<ReplicaShards>{{ShardLayout(5, 2), {0, 1, 2}}, {ShardLayout(6, 1), {3}}}, 0)) ==
        std::vector<std::string>{"found 0 elements a unit, expected at least 1",
                                 "rank list 0: found 3 ranks, expected one for each of 2",
                                 "replica 1: found 6 units, expected 5 as in the first replica"});
  CHECK(messages(replicated(std::vector<ReplicaShards>{})) ==
        std::vector<std::string>{"found no replica, expected at least one"});
  CHECK(messages(replicated(ShardLayout(5, 2), RankLists{{0}, {1, 2}})) ==
        std::vector<std::string>{"rank list 0: found 1 ranks, expected one for each of 2"});
  CHECK(messages(replicated(ShardLayout(4, 2), RankLists{{0, 1}, {0, 2}})) ==
        std::vector<std::string>{"[0, 2) of rank 0: overlaps [0, 2) of the same rank"});
  CHECK(messages(replicated(ShardLayout(4, 2), RankLists{}, kMost / 3)) ==
        std::vector<std::string>{"4 units of 3074457345618258602 elements: expected at most "
                                 "9223372036854775807 elements"});
  CHECK(messages(distributed_optimizer(ShardLayout(4, 2), RankLists{{0, 1}, {2}}, -1)) ==
        std::vector<std::string>{"found -1 elements a unit, expected at least 1",
                                 "rank list 1: found 1 ranks, expected one for each of 2"});
}

TEST_CASE("the distributed optimizer cuts the local shard of each position, not the tensor") {
  // Position 0 stores units 0, 1 and then 5; position 1 stores 2, 3, 4. Of 9 elements each, DP 2 has 5 and 4.
  const ShardLayout sync = ShardLayout::from_ranges(6, 2, {{{0, 2}, 0}, {{2, 5}, 1}, {{5, 6}, 0}}).value();
  const Placement cut = distributed_optimizer(sync, RankLists{{0, 1}, {2, 3}}, 3).value();
  CHECK(cut == placement(18, {{{0, 5}, 0}, {{5, 6}, 2}, {{15, 18}, 2}, {{6, 11}, 1}, {{11, 15}, 3}}));
  CHECK(distributed_optimizer(sync, RankLists{}, 3).value() == placement(18, {}));
  // More ranks than elements leave the last ones without any.
  CHECK(distributed_optimizer(ShardLayout(1, 1), RankLists{{4}, {5}}).value() == placement(1, {{{0, 1}, 4}}));
}

// ---- edges ----

TEST_CASE("nothing wanted, nothing held, nothing there") {
  CHECK(plan_moves(placement(0, {}), placement(0, {})) == MovePlan{});
  CHECK(plan_moves(placement(5, {{{0, 5}, 0}}), placement(5, {})) == MovePlan{});
  const MovePlan plan = plan_moves(placement(5, {}), placement(5, {{{1, 2}, 1}, {{2, 3}, 0}, {{2, 3}, 1}}));
  CHECK(plan.lost == std::vector<WantedRange>{{{1, 2}, {1}}, {{2, 3}, {0, 1}}});
  CHECK(plan.transfers.empty());
  const Placement same = placement(5, {{{0, 2}, 0}, {{0, 5}, 1}});
  CHECK(plan_moves(same, same).kept == copied(same.ranges()));
  CHECK(plan_moves(same, same).transfers.empty());
}

TEST_CASE("the largest sizes and ranks are exact") {
  constexpr int kLastRank = std::numeric_limits<int>::max();
  const Placement have = placement(kMost, {{{0, kMost}, kLastRank}});
  const Placement want = placement(kMost, {{{0, kMost / 2}, 0}, {{kMost / 2, kMost}, 1}});
  const MovePlan plan = plan_moves(have, want);
  CHECK(plan.transfers ==
        std::vector<Transfer>{{kLastRank, 0, {0, kMost / 2}}, {kLastRank, 1, {kMost / 2, kMost}}});
  CHECK(plan.across_domains == MoveTraffic{kMost, kMost, kMost / 2 + 1, kMost});
}

TEST_CASE("lost ranges in words") {
  std::vector<WantedRange> lost = {{{0, 2}, {0}}, {{2, 3}, {1}}, {{5, 6}, {1}}};
  CHECK(describe_lost(lost, "units") == "units [0, 3) and [5, 6) have no surviving copy");
  lost.push_back({{8, 9}, {4}});
  CHECK(describe_lost(lost, "rows") == "rows [0, 3), [5, 6) and [8, 9) have no surviving copy");
  for (std::int64_t i = 10; i < 30; i += 2) lost.push_back({{i, i + 1}, {0}});
  CHECK(
      describe_lost(lost, "rows") ==
      "rows [0, 3), [5, 6), [8, 9), [10, 11), [12, 13), [14, 15), [16, 17), [18, 19) and 5 more ranges have "
      "no surviving copy");
}

TEST_CASE("placements of different tensors and ranks without a domain break an invariant") {
  const Placement four = placement(4, {{{0, 4}, 2}});
  const std::vector<int> two_domains = {0, 1};
  CHECK(testing::aborts([&] { (void)plan_moves(four, placement(5, {})); }));
  const MoveOptions options{.checkpoint_available = false, .domain_of = two_domains};
  CHECK(testing::aborts([&] { (void)plan_moves(four, placement(4, {}), options); }));
  CHECK(testing::aborts([&] { (void)plan_moves(placement(4, {}), four, options); }));
}

TEST_CASE("moves of arguments that may be wrong") {
  const Placement four = placement(4, {{{0, 4}, 3}});
  CHECK(MovePlan::make(four, four).value() == plan_moves(four, four));
  const std::vector<int> domain_of = {0, 0};
  const MoveOptions options{.checkpoint_available = false, .domain_of = domain_of};
  CHECK(
      messages(MovePlan::make(four, placement(5, {}), options)) ==
      std::vector<std::string>{"want: found a placement of 5 indices, expected 4 as in the one to move from",
                               "domain_of: found domains of 2 ranks, expected one of rank 3 too"});
}

}  // namespace
}  // namespace ntpsim::plan
