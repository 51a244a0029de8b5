#include "ntpsim/plan/shard_layout.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"
#include "messages.h"

namespace ntpsim::plan {
namespace {

using testing::messages;

std::vector<std::int64_t> sizes(const ShardLayout& layout) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(layout.degree()));
  for (int rank = 0; rank < layout.degree(); ++rank) result.push_back(layout.units_of(rank));
  return result;
}

UnitRange only_range(const ShardLayout& layout, int rank) {
  REQUIRE(layout.ranges_of(rank).size() == 1);
  return layout.ranges_of(rank).front();
}

TEST_CASE("128 heads over 30 ranks: eight ranks hold five, the others four") {
  const ShardLayout layout(128, 30);
  CHECK(layout.units() == 128);
  CHECK(layout.degree() == 30);
  for (int rank = 0; rank < 30; ++rank) {
    CAPTURE(rank);
    CHECK(layout.units_of(rank) == (rank < 8 ? 5 : 4));
  }
  CHECK(only_range(layout, 7) == UnitRange{35, 40});
  CHECK(only_range(layout, 8) == UnitRange{40, 44});
  CHECK(only_range(layout, 29) == UnitRange{124, 128});
  CHECK(layout.owner_of(39) == 7);
  CHECK(layout.owner_of(40) == 8);
  CHECK(layout.max_units() == 5);
  CHECK(layout.load() == doctest::Approx(5.0 * 30 / 128));
}

TEST_CASE("8 KV groups over 7 ranks: one rank holds two") {
  CHECK(sizes(ShardLayout(8, 7)) == std::vector<std::int64_t>{2, 1, 1, 1, 1, 1, 1});
  CHECK(ShardLayout(8, 7).load() == doctest::Approx(14.0 / 8));
}

TEST_CASE("more ranks than units leave the last ranks empty") {
  const ShardLayout layout(3, 5);
  CHECK(sizes(layout) == std::vector<std::int64_t>{1, 1, 1, 0, 0});
  CHECK(layout.ranges_of(4).empty());
  CHECK(layout.max_units() == 1);
  CHECK(layout.load() == doctest::Approx(5.0 / 3));
}

TEST_CASE("an even cut and an empty tensor have no imbalance") {
  CHECK(ShardLayout(128, 32).load() == 1);
  CHECK(ShardLayout(0, 4).load() == 1);
  CHECK(ShardLayout(0, 4).max_units() == 0);
  CHECK(ShardLayout(0, 4).units_of(3) == 0);
}

TEST_CASE("every unit has one owner, ranks are contiguous and balanced") {
  for (std::int64_t units = 0; units <= 130; ++units) {
    for (int degree = 1; degree <= 40; ++degree) {
      CAPTURE(units);
      CAPTURE(degree);
      const ShardLayout layout(units, degree);
      const std::int64_t fullest = units / degree + (units % degree != 0 ? 1 : 0);
      std::int64_t next = 0;
      bool good = layout.max_units() == fullest;
      for (int rank = 0; rank < degree; ++rank) {
        if (layout.ranges_of(rank).empty()) {
          good = good && units / degree == 0;
          continue;
        }
        const UnitRange range = only_range(layout, rank);
        good = good && range.begin == next && range.size() <= fullest && range.size() >= units / degree;
        for (std::int64_t unit = range.begin; unit < range.end; ++unit)
          good = good && layout.owner_of(unit) == rank;
        next = range.end;
      }
      CHECK(good);
      CHECK(next == units);
    }
  }
}

TEST_CASE("sizes past 32 bits are exact") {
  constexpr std::int64_t kUnits = 3'000'000'000'001;
  const ShardLayout layout(kUnits, 72);
  CHECK(only_range(layout, 71).end == kUnits);
  CHECK(layout.owner_of(kUnits - 1) == 71);
  CHECK(layout.max_units() == 41'666'666'667);
}

TEST_CASE("a layout outside its domain breaks an invariant") {
  CHECK(testing::aborts([] { (void)ShardLayout(-1, 1); }));
  CHECK(testing::aborts([] { (void)ShardLayout(1, 0); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).ranges_of(2); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).units_of(-1); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).owner_of(4); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).owner_of(-1); }));
  CHECK(testing::aborts([] { (void)max_units(4, 0); }));
}

OwnedRange owned(std::int64_t begin, std::int64_t end, int rank) {
  return {{begin, end}, rank};
}

TEST_CASE("a layout from ranges: any order in, unit order out, neighbours of one rank merged") {
  const auto layout = ShardLayout::from_ranges(
      10, 3, {owned(6, 8, 0), owned(0, 2, 0), owned(2, 4, 0), owned(8, 10, 2), owned(4, 6, 2)});
  REQUIRE(layout.has_value());
  const std::vector<OwnedRange> ranges(layout->ranges().begin(), layout->ranges().end());
  CHECK(ranges == std::vector{owned(0, 4, 0), owned(4, 6, 2), owned(6, 8, 0), owned(8, 10, 2)});
  const std::vector<UnitRange> first(layout->ranges_of(0).begin(), layout->ranges_of(0).end());
  CHECK(first == std::vector<UnitRange>{{0, 4}, {6, 8}});
  CHECK(layout->ranges_of(1).empty());
  CHECK(layout->units_of(0) == 6);
  CHECK(layout->owner_of(7) == 0);
  CHECK(layout->offset_of(7) == 5);
  CHECK(layout->offset_of(8) == 2);
  CHECK(layout->max_units() == 6);
  CHECK(layout->load() == doctest::Approx(6 * 3 / 10.0));
}

TEST_CASE("a layout from ranges equals the balanced one that it spells out") {
  CHECK(ShardLayout::from_ranges(5, 2, {owned(0, 3, 0), owned(3, 5, 1)}).value() == ShardLayout(5, 2));
  CHECK(ShardLayout::from_ranges(0, 2, {}).value() == ShardLayout(0, 2));
}

std::vector<std::string> errors(std::int64_t units, int degree, std::vector<OwnedRange> ranges) {
  return messages(ShardLayout::from_ranges(units, degree, std::move(ranges)));
}

TEST_CASE("what is wrong with ranges is said, all of it") {
  CHECK(errors(10, 2, {owned(0, 4, 0), owned(3, 6, 1), owned(7, 7, 0), owned(8, 12, 5)}) ==
        std::vector<std::string>{
            "units [3, 6) of rank 1: overlaps a range before it",
            "units [7, 7) of rank 0: expected a range that is not empty, within [0, 10)",
            "units [8, 12) of rank 5: expected a rank from 0 to 1",
            "units [8, 12) of rank 5: expected a range that is not empty, within [0, 10)",
            "units [6, 10) have no owner",
        });
  CHECK(errors(10, 2, {owned(0, 4, 0), owned(5, 10, 1)}) ==
        std::vector<std::string>{"units [4, 5) have no owner"});
  CHECK(errors(3, 1, {}) == std::vector<std::string>{"units [0, 3) have no owner"});
  CHECK(errors(-1, 0, {}) == std::vector<std::string>{"units: found -1, expected 0 to 4611686018427387904",
                                                      "degree: found 0, expected 1 to 1048576"});
}

TEST_CASE("ranges of any numbers are looked at without overflow") {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(errors(4, 1, {owned(kLeast, kMost, 0)}).size() == 2);
  CHECK(errors(4, 1, {owned(kMost, kLeast, 0)}).size() == 2);
}

TEST_CASE("arguments that may be wrong") {
  CHECK(ShardLayout::make(128, 30).value() == ShardLayout(128, 30));
  CHECK(messages(ShardLayout::make(-1, 2'000'000)) ==
        std::vector<std::string>{"units: found -1, expected 0 to 4611686018427387904",
                                 "degree: found 2000000, expected 1 to 1048576"});
}

}  // namespace
}  // namespace ntpsim::plan
