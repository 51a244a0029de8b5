#include "ntpsim/plan/head_cut.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/plan/sync_plan.h"

#include "aborts.h"
#include "messages.h"

namespace ntpsim::plan {
namespace {

using testing::messages;

std::vector<UnitRange> groups_of(const GroupCopies& copies, int rank) {
  return {copies.groups_of(rank).begin(), copies.groups_of(rank).end()};
}

TEST_CASE("up to as many ranks as KV groups, a group and its query heads stay together") {
  const HeadCut cut(128, 8, 8);
  CHECK_FALSE(cut.copies_groups);
  CHECK(cut.units() == 8);
  CHECK(cut.heads_per_unit() == 16);
}

TEST_CASE("with more ranks than KV groups query heads are cut one by one and groups are copied") {
  const HeadCut cut(128, 8, 32);
  CHECK(cut.copies_groups);
  CHECK(cut.units() == 128);
  CHECK(cut.heads_per_unit() == 1);
  CHECK(cut.heads_per_group() == 16);
}

TEST_CASE("without grouped-query attention every head brings its own keys and values") {
  const HeadCut cut(128, 128, 144);
  CHECK_FALSE(cut.copies_groups);
  CHECK(cut.units() == 128);
}

TEST_CASE("in a whole group of 32 every rank needs one KV group of 8, four ranks the same") {
  const GroupCopies copies(ShardLayout(128, 32), 16);
  for (int rank = 0; rank < 32; ++rank) {
    CHECK(groups_of(copies, rank) == std::vector<UnitRange>{{rank / 4, rank / 4 + 1}});
  }
}

TEST_CASE("core ranks that take over heads need the KV groups of these too") {
  const ShardLayout sync = sync_layout(128, 32, 30);
  const GroupCopies copies(sync, 16);
  CHECK(groups_of(copies, 0) == std::vector<UnitRange>{{0, 1}, {7, 8}});  // heads 0 to 3, and 120
  CHECK(copies.count_of(0) == 2);
  CHECK(groups_of(copies, 8) == std::vector<UnitRange>{{2, 3}});
}

TEST_CASE("every head finds its KV group on its rank") {
  for (const int sync_degree : {31, 30, 29, 28, 17, 9, 5, 1}) {
    const ShardLayout sync = sync_layout(128, 32, sync_degree);
    const GroupCopies copies(sync, 16);
    bool found = true;
    for (std::int64_t head = 0; head < 128; ++head) {
      bool here = false;
      for (const UnitRange& range : copies.groups_of(sync.owner_of(head))) {
        here = here || (range.begin <= head / 16 && head / 16 < range.end);
      }
      found = found && here;
    }
    CHECK(found);
  }
}

TEST_CASE("gradients of copies pass from rank to rank to the one that syncs the group's first head") {
  const ShardLayout sync = sync_layout(8, 4, 3);  // heads {0 1 6}, {2 3 7}, {4 5}
  const std::vector<Transfer> whole = gather_group_copies(GroupCopies(ShardLayout(8, 4), 4), sync, 4);
  CHECK(whole == std::vector<Transfer>{{1, 0, {0, 1}}, {3, 2, {1, 2}}});
  const std::vector<Transfer> reduced = gather_group_copies(GroupCopies(sync, 4), sync, 4);
  CHECK(reduced == std::vector<Transfer>{{1, 0, {0, 1}}, {0, 1, {1, 2}}, {1, 2, {1, 2}}});
}

TEST_CASE("along a chain every copy is added once, whatever the degrees") {
  for (const int sync_degree : {31, 30, 28, 17, 9, 2}) {
    const ShardLayout sync = sync_layout(128, 32, sync_degree);
    const GroupCopies copies(ShardLayout(128, 32), 16);
    std::vector<std::vector<int>> sum(8, std::vector<int>(32, 0));  // [group][rank]
    for (int rank = 0; rank < 32; ++rank) {
      for (const UnitRange& range : copies.groups_of(rank)) {
        for (std::int64_t group = range.begin; group < range.end; ++group) {
          sum[static_cast<std::size_t>(group)][static_cast<std::size_t>(rank)] = 1;
        }
      }
    }
    for (const Transfer& transfer : gather_group_copies(copies, sync, 16)) {
      auto& of_group = sum[static_cast<std::size_t>(transfer.units.begin)];
      of_group[static_cast<std::size_t>(transfer.to)] += of_group[static_cast<std::size_t>(transfer.from)];
    }
    for (std::size_t group = 0; group < sum.size(); ++group) {
      CHECK(sum[group][static_cast<std::size_t>(sync.owner_of(static_cast<std::int64_t>(group) * 16))] == 4);
    }
  }
}

TEST_CASE("groups that do not divide the heads break an invariant") {
  CHECK(testing::aborts([] { (void)HeadCut(10, 4, 2); }));
  CHECK(testing::aborts([] { (void)HeadCut(10, 0, 2); }));
  CHECK(testing::aborts([] { (void)GroupCopies(ShardLayout(10, 2), 4); }));
}

TEST_CASE("arguments that may be wrong") {
  CHECK(HeadCut::make(128, 8, 32).value().copies_groups);
  CHECK(messages(HeadCut::make(10, 4, 0)) ==
        std::vector<std::string>{"groups: found 4, expected a divisor of the 10 heads",
                                 "full_degree: found 0, expected 1 to 1048576"});
  CHECK(messages(HeadCut::make(8, 16, 8)) ==
        std::vector<std::string>{"groups: found 16, expected 1 to 8, the heads"});
  CHECK(messages(HeadCut::make(-8, 4, 8)) ==
        std::vector<std::string>{"heads: found -8, expected 1 to 1048576"});
}

}  // namespace
}  // namespace ntpsim::plan
