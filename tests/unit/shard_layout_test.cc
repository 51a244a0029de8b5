#include "ntpsim/plan/shard_layout.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"

namespace ntpsim::plan {
namespace {

std::vector<std::int64_t> sizes(const ShardLayout& layout) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(layout.degree()));
  for (int rank = 0; rank < layout.degree(); ++rank) result.push_back(layout.owned_by(rank).size());
  return result;
}

TEST_CASE("128 heads over 30 ranks: eight ranks hold five, the others four") {
  const ShardLayout layout(128, 30);
  CHECK(layout.units() == 128);
  CHECK(layout.degree() == 30);
  for (int rank = 0; rank < 30; ++rank) {
    CAPTURE(rank);
    CHECK(layout.owned_by(rank).size() == (rank < 8 ? 5 : 4));
  }
  CHECK(layout.owned_by(7) == UnitRange{35, 40});
  CHECK(layout.owned_by(8) == UnitRange{40, 44});
  CHECK(layout.owned_by(29) == UnitRange{124, 128});
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
  CHECK(layout.owned_by(4) == UnitRange{3, 3});
  CHECK(layout.max_units() == 1);
  CHECK(layout.load() == doctest::Approx(5.0 / 3));
}

TEST_CASE("an even cut and an empty tensor have no imbalance") {
  CHECK(ShardLayout(128, 32).load() == 1);
  CHECK(ShardLayout(0, 4).load() == 1);
  CHECK(ShardLayout(0, 4).max_units() == 0);
  CHECK(ShardLayout(0, 4).owned_by(3).size() == 0);
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
        const UnitRange range = layout.owned_by(rank);
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
  CHECK(layout.owned_by(71).end == kUnits);
  CHECK(layout.owner_of(kUnits - 1) == 71);
  CHECK(layout.max_units() == 41'666'666'667);
}

TEST_CASE("a layout outside its domain breaks an invariant") {
  CHECK(testing::aborts([] { (void)ShardLayout(-1, 1); }));
  CHECK(testing::aborts([] { (void)ShardLayout(1, 0); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).owned_by(2); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).owned_by(-1); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).owner_of(4); }));
  CHECK(testing::aborts([] { (void)ShardLayout(4, 2).owner_of(-1); }));
}

TEST_CASE("a job of one degree reshards nothing") {
  for (const int degree : {1, 7, 32}) {
    const ReshardVolume volume = reshard_volume(128, degree, degree);
    CHECK(volume.max_sent_by_extra == 0);
    CHECK(volume.max_received_by_core == 0);
  }
}

TEST_CASE("an extra rank sends its whole shard, spread over the core ranks") {
  const ReshardVolume two_extra = reshard_volume(128, 32, 30);
  CHECK(two_extra.max_sent_by_extra == 4);
  CHECK(two_extra.max_received_by_core == 1);  // 8 units over 30 core ranks
  const ReshardVolume half = reshard_volume(128, 32, 16);
  CHECK(half.max_sent_by_extra == 4);
  CHECK(half.max_received_by_core == 4);  // 64 units over 16 core ranks
  const ReshardVolume one_left = reshard_volume(128, 32, 1);
  CHECK(one_left.max_received_by_core == 124);
}

TEST_CASE("reshard volumes cover what the extra ranks hold and stay within one shard each") {
  for (const std::int64_t units : {0, 1, 8, 100, 128, 53248}) {
    for (int compute = 1; compute <= 40; ++compute) {
      for (int sync = 1; sync < compute; ++sync) {
        CAPTURE(units);
        CAPTURE(compute);
        CAPTURE(sync);
        const ReshardVolume volume = reshard_volume(units, compute, sync);
        const std::int64_t extra_at_least = (units / compute) * (compute - sync);
        CHECK(volume.max_sent_by_extra == ShardLayout(units, compute).max_units());
        CHECK(volume.max_received_by_core * sync >= extra_at_least);
        CHECK((volume.max_received_by_core - 1) * sync < volume.max_sent_by_extra * (compute - sync) + 1);
      }
    }
  }
}

TEST_CASE("a reshard outside its domain breaks an invariant") {
  CHECK(testing::aborts([] { (void)reshard_volume(8, 4, 5); }));
  CHECK(testing::aborts([] { (void)reshard_volume(8, 4, 0); }));
}

}  // namespace
}  // namespace ntpsim::plan
