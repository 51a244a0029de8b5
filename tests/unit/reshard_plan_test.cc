#include "ntpsim/plan/reshard_plan.h"

#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"

namespace ntpsim::plan {
namespace {

std::vector<Transfer> transfers(const ReshardPlan& plan) {
  return {plan.transfers().begin(), plan.transfers().end()};
}

TEST_CASE("from 4 to 3 ranks, both contiguous: units move down, and the last rank gives up all") {
  const ReshardPlan plan(ShardLayout(12, 4), ShardLayout(12, 3));
  CHECK(transfers(plan) == std::vector<Transfer>{{1, 0, {3, 4}}, {2, 1, {6, 8}}, {3, 2, {9, 12}}});
  CHECK(plan.ranks() == 4);
  CHECK(plan.sent(0) == 0);
  CHECK(plan.sent(3) == 3);
  CHECK(plan.received(2) == 3);
  CHECK(plan.received(3) == 0);
  CHECK(plan.max_sent() == 3);
  CHECK(plan.max_received() == 3);
  CHECK(plan.bottleneck() == 3);
  CHECK(plan.total() == 6);
}

TEST_CASE("what one rank sends to another in a row is one transfer, whatever the borders of its ranges") {
  const auto from = ShardLayout::from_ranges(6, 2, {{{0, 3}, 0}, {{3, 6}, 1}}).value();
  const auto to = ShardLayout::from_ranges(6, 3, {{{0, 2}, 2}, {{2, 5}, 1}, {{5, 6}, 0}}).value();
  CHECK(transfers(ReshardPlan(from, to)) ==
        std::vector<Transfer>{{0, 2, {0, 2}}, {0, 1, {2, 3}}, {1, 0, {5, 6}}});
}

TEST_CASE("the way back exchanges senders and receivers") {
  const ReshardPlan there(ShardLayout(12, 4), ShardLayout(12, 3));
  CHECK(there.reversed() == ReshardPlan(ShardLayout(12, 3), ShardLayout(12, 4)));
  CHECK(there.reversed().reversed() == there);
}

TEST_CASE("equal layouts and empty tensors move nothing") {
  CHECK(ReshardPlan(ShardLayout(12, 4), ShardLayout(12, 4)).transfers().empty());
  CHECK(ReshardPlan(ShardLayout(0, 4), ShardLayout(0, 3)).total() == 0);
}

TEST_CASE("layouts of different tensors, and ranks outside the plan, break an invariant") {
  CHECK(testing::aborts([] { (void)ReshardPlan(ShardLayout(12, 4), ShardLayout(11, 4)); }));
  CHECK(testing::aborts([] { (void)ReshardPlan(ShardLayout(12, 4), ShardLayout(12, 3)).sent(4); }));
  CHECK(testing::aborts([] { (void)ReshardPlan(ShardLayout(12, 4), ShardLayout(12, 3)).received(-1); }));
}

}  // namespace
}  // namespace ntpsim::plan
