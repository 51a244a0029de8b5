#include "ntpsim/plan/sync_plan.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"
#include "messages.h"

namespace ntpsim::plan {
namespace {

using testing::messages;

using Ranges = std::vector<UnitRange>;

Ranges ranges_of(const ShardLayout& layout, int rank) {
  const auto ranges = layout.ranges_of(rank);
  return {ranges.begin(), ranges.end()};
}

std::vector<Transfer> transfers(const ReshardPlan& plan) {
  return {plan.transfers().begin(), plan.transfers().end()};
}

TEST_CASE("a whole group of 4 in a job that syncs over 3: the extra rank deals its units to the core ranks") {
  const SyncPlan plan(12, 4, 4, 3);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(ranges_of(plan.compute(), rank) == Ranges{{3L * rank, 3L * rank + 3}});
  }
  CHECK(ranges_of(plan.sync(), 0) == Ranges{{0, 3}, {9, 10}});
  CHECK(ranges_of(plan.sync(), 1) == Ranges{{3, 6}, {10, 11}});
  CHECK(ranges_of(plan.sync(), 2) == Ranges{{6, 9}, {11, 12}});
  CHECK(transfers(plan.pre_sync()) ==
        std::vector<Transfer>{{3, 0, {9, 10}}, {3, 1, {10, 11}}, {3, 2, {11, 12}}});
  CHECK(transfers(plan.post_sync()) ==
        std::vector<Transfer>{{0, 3, {9, 10}}, {1, 3, {10, 11}}, {2, 3, {11, 12}}});
  CHECK(plan.objective() == 3);
  CHECK(plan.lower_bound() == 3);
}

TEST_CASE("a group of 3 in that job moves nothing and computes on the sync layout") {
  const SyncPlan plan(12, 4, 3, 3);
  CHECK(plan.compute() == plan.sync());
  CHECK(plan.sync() == SyncPlan(12, 4, 4, 3).sync());
  CHECK(plan.pre_sync().transfers().empty());
  CHECK(plan.objective() == 0);
}

TEST_CASE("a whole group computes on the same units whichever degree the job syncs at") {
  for (int sync_degree = 1; sync_degree <= 32; ++sync_degree) {
    CHECK(SyncPlan(128, 32, 32, sync_degree).compute() == ShardLayout(128, 32));
  }
}

TEST_CASE("two extra ranks of 24 units over 6 core ranks: three core ranks each") {
  const SyncPlan plan(24, 8, 8, 6);
  CHECK(plan.pre_sync().transfers().size() == 6);
  for (const int extra : {6, 7}) CHECK(plan.pre_sync().sent(extra) == 3);
  for (int core = 0; core < 6; ++core) CHECK(plan.pre_sync().received(core) == 1);
}

TEST_CASE("128 heads: 64 ranks over 62, and 32 over 30, which chunks of equal size cannot cut") {
  const SyncPlan wide(128, 64, 64, 62);
  CHECK(wide.sync().max_units() == 3);
  CHECK(wide.pre_sync().max_sent() == 2);
  CHECK(wide.pre_sync().max_received() == 1);
  const SyncPlan narrow(128, 32, 32, 30);
  CHECK(narrow.sync().max_units() == 5);
  CHECK(narrow.sync().load() == doctest::Approx(5.0 * 30 / 128));
  CHECK(narrow.pre_sync().max_sent() == 4);
}

TEST_CASE("where the fullest rank is as full as in the sync layout, extra ranks stand by and nothing moves") {
  const SyncPlan plan(128, 32, 30, 28);  // at most 5 heads a rank at either degree
  CHECK(plan.objective() == 0);
  CHECK(plan.compute().max_units() == 5);
  CHECK(plan.compute().units_of(28) == 0);
  CHECK(plan.compute().units_of(29) == 0);
}

TEST_CASE("degrees 32, 31, 30 and 28 in one job share a sync layout, and each computes at its own") {
  constexpr std::int64_t kColumns = 53248;
  const ShardLayout sync = sync_layout(kColumns, 32, 28);
  for (const int degree : {32, 31, 30, 28}) {
    CAPTURE(degree);
    const SyncPlan plan(kColumns, 32, degree, 28);
    CHECK(plan.sync() == sync);
    CHECK(plan.compute().max_units() == max_units(kColumns, degree));
    CHECK(plan.objective() == plan.lower_bound());
  }
  CHECK(sync_degree_of(std::vector{32, 31, 30, 28}) == 28);
}

TEST_CASE("traffic in closed form") {
  CHECK(sync_traffic(128, 32, 32) == SyncTraffic{});
  CHECK(sync_traffic(128, 32, 30) == SyncTraffic{.max_sent = 4, .max_received = 1, .total = 8});
  CHECK(sync_traffic(128, 32, 16) == SyncTraffic{.max_sent = 4, .max_received = 4, .total = 64});
  CHECK(sync_traffic(128, 32, 1) == SyncTraffic{.max_sent = 4, .max_received = 124, .total = 124});
  CHECK(sync_traffic(0, 4, 2) == SyncTraffic{});
}

TEST_CASE("what transfers move, by the busiest sender and receiver") {
  const std::vector<Transfer> transfers = {{0, 1, {0, 3}}, {2, 1, {3, 5}}, {0, 2, {5, 9}}};
  CHECK(traffic_of(transfers, 3) == SyncTraffic{.max_sent = 7, .max_received = 5, .total = 9});
  CHECK(traffic_of({}, 3) == SyncTraffic{});
}

TEST_CASE("fewer units than ranks leave ranks empty") {
  const SyncPlan plan(2, 8, 8, 3);
  CHECK(plan.objective() == 0);
  CHECK(plan.compute().max_units() == 1);
  CHECK(SyncPlan(0, 8, 8, 3).pre_sync().transfers().empty());
}

TEST_CASE("degrees out of order break an invariant") {
  CHECK(testing::aborts([] { (void)SyncPlan(8, 4, 4, 5); }));
  CHECK(testing::aborts([] { (void)SyncPlan(8, 4, 5, 3); }));
  CHECK(testing::aborts([] { (void)SyncPlan(8, 4, 4, 0); }));
  CHECK(testing::aborts([] { (void)SyncPlan(-1, 4, 4, 3); }));
  CHECK(testing::aborts([] { (void)sync_traffic(8, 4, 5); }));
  CHECK(testing::aborts([] { (void)sync_degree_of({}); }));
}

TEST_CASE("arguments that may be wrong") {
  CHECK(SyncPlan::make(128, 32, 31, 30).value() == SyncPlan(128, 32, 31, 30));
  CHECK(messages(SyncPlan::make(-1, 32, 33, 0)) ==
        std::vector<std::string>{"units: found -1, expected 0 to 4611686018427387904",
                                 "compute_degree: found 33, expected 1 to 32, the full_degree",
                                 "sync_degree: found 0, expected 1 to 32"});
  CHECK(messages(SyncPlan::make(128, 32, 30, 31)) ==
        std::vector<std::string>{"sync_degree: found 31, expected 1 to 30, the compute_degree"});
}

TEST_CASE("the largest tensor and degree do not overflow") {
  const SyncPlan plan = SyncPlan::make(kMaxUnits, kMaxDegree, kMaxDegree, kMaxDegree - 1).value();
  CHECK(plan.objective() == plan.lower_bound());
  CHECK(sync_traffic(std::numeric_limits<std::int64_t>::max(), 7, 6).total ==
        std::numeric_limits<std::int64_t>::max() / 7);  // 7 divides 2^63 - 1
}

}  // namespace
}  // namespace ntpsim::plan
