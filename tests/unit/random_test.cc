#include "ntpsim/core/random.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"

namespace ntpsim {
namespace {

using Words = std::array<std::uint64_t, 4>;
constexpr std::uint64_t kAllOnes = std::numeric_limits<std::uint64_t>::max();

// Philox4x64-10 as section 3 of the paper has it, to check the library's stream against.
Words philox(Words counter, std::array<std::uint64_t, 2> key) {
  __extension__ using Wide = unsigned __int128;
  for (int round = 0; round < 10; ++round) {
    const Wide a = static_cast<Wide>(0xD2E7470EE14C6C93U) * counter[0];
    const Wide b = static_cast<Wide>(0xCA5A826395121157U) * counter[2];
    counter = {static_cast<std::uint64_t>(b >> 64U) ^ counter[1] ^ key[0], static_cast<std::uint64_t>(b),
               static_cast<std::uint64_t>(a >> 64U) ^ counter[3] ^ key[1], static_cast<std::uint64_t>(a)};
    key[0] += 0x9E3779B97F4A7C15U;
    key[1] += 0xBB67AE8584CAA73BU;
  }
  return counter;
}

TEST_CASE("the reference Philox of this test gives the known answers of Random123") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        Words{0x16554d9eca36314cU, 0xdb20fe9d672d0fdcU, 0xd7e772cee186176bU, 0x7e68b68aec7ba23bU});
  CHECK(philox({kAllOnes, kAllOnes, kAllOnes, kAllOnes}, {kAllOnes, kAllOnes}) ==
        Words{0x87b092c3013fe90bU, 0x438c3c67be8d0224U, 0x9cc7d7c69cd777b6U, 0xa09caebf594f0ba0U});
}

TEST_CASE("a block is Philox of the key and counter that the header promises") {
  for (const std::uint64_t index : {0U, 1U, 77U}) {
    for (const std::uint64_t unit : {0U, 5U, 1'000'000U}) {
      const RandomStream stream(42, 3, "failures/hardware", unit);
      CHECK(stream.block(index) == philox({index, unit, stable_hash("failures/hardware"), 0}, {42, 3}));
      CHECK(stream.block(index, unit + 1) ==
            philox({index, unit + 1, stable_hash("failures/hardware"), 0}, {42, 3}));
    }
  }
}

TEST_CASE("the hash of names is FNV-1a") {
  CHECK(stable_hash("") == 0xcbf29ce484222325U);
  CHECK(stable_hash("a") == 0xaf63dc4c8601ec8cU);
  CHECK(stable_hash("foobar") == 0x85944171f73967e8U);
}

TEST_CASE("the sequence is the blocks one after the other") {
  RandomStream stream(7, 0, "repair", 12);
  for (std::uint64_t index = 0; index < 5; ++index) {
    const RandomStream::Block block = stream.block(index);
    for (const std::uint64_t word : block) CHECK(stream.next() == word);
  }
}

TEST_CASE("looking at blocks does not move the sequence") {
  RandomStream looked_at(1, 1, "x");
  RandomStream left_alone(1, 1, "x");
  for (std::uint64_t i = 0; i < 20; ++i) {
    (void)looked_at.block(i * 3);
    CHECK(looked_at.next() == left_alone.next());
  }
}

TEST_CASE("streams do not depend on the order in which they are drawn") {
  RandomStream a(9, 0, "a");
  RandomStream b(9, 0, "b");
  std::vector<std::uint64_t> interleaved;
  for (int i = 0; i < 8; ++i) {
    interleaved.push_back(a.next());
    (void)b.next();
  }
  RandomStream alone(9, 0, "a");
  for (const std::uint64_t word : interleaved) CHECK(alone.next() == word);
}

TEST_CASE("seed, replication, name and unit each make another stream") {
  std::set<std::uint64_t> firsts;
  std::size_t streams = 0;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    for (const std::uint64_t replication : {0U, 1U, 2U}) {
      for (const char* const name : {"", "a", "b", "failures/hardware", "failures/hardwarf"}) {
        for (const std::uint64_t unit : {0U, 1U, 2U}) {
          firsts.insert(RandomStream(seed, replication, name, unit).next());
          ++streams;
        }
      }
    }
  }
  CHECK(firsts.size() == streams);
}

TEST_CASE("a uniform is strictly between 0 and 1 for every word") {
  CHECK(RandomStream::to_uniform(0) > 0);
  CHECK(RandomStream::to_uniform(kAllOnes) < 1);
  CHECK(RandomStream::to_uniform(0) + RandomStream::to_uniform(kAllOnes) == 1);
  CHECK(RandomStream::to_uniform(1ULL << 63U) == doctest::Approx(0.5).epsilon(1e-15));
  CHECK(RandomStream::to_uniform(1ULL << 12U) > RandomStream::to_uniform(0));
}

TEST_CASE("an index is below n for every word, and takes all values") {
  for (const std::uint64_t n : {1ULL, 2ULL, 3ULL, 1000ULL, 1ULL << 63U, ~0ULL}) {
    CHECK(RandomStream::to_index(0, n) == 0);
    CHECK(RandomStream::to_index(kAllOnes, n) == n - 1);
  }
  CHECK(RandomStream::to_index(1ULL << 63U, 10) == 5);
  CHECK(testing::aborts([] { (void)RandomStream::to_index(1, 0); }));
}

TEST_CASE("uniforms are uniform and neighbours independent") {
  constexpr int kDraws = 200'000;
  constexpr std::size_t kBins = 100;
  RandomStream stream(2026, 0, "statistics");
  std::array<int, kBins> counts{};
  double sum = 0;
  double sum_of_products = 0;
  double last = 0.5;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.next_uniform();
    counts.at(static_cast<std::size_t>(u * kBins))++;
    sum += u;
    sum_of_products += (u - 0.5) * (last - 0.5);
    last = u;
  }
  double chi_squared = 0;
  constexpr double kExpected = static_cast<double>(kDraws) / kBins;
  for (const int count : counts) chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
  // 99 degrees of freedom: mean 99, deviation 14; five deviations either way.
  CHECK(chi_squared > 99 - 5 * 14.07);
  CHECK(chi_squared < 99 + 5 * 14.07);
  CHECK(std::abs(sum / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
  CHECK(std::abs(sum_of_products / kDraws) < 5.0 / 12 / std::sqrt(kDraws));
}

TEST_CASE("indices of neighbouring units are independent") {
  constexpr std::uint64_t kSides = 6;
  std::array<std::array<int, kSides>, kSides> counts{};
  constexpr int kUnits = 36'000;
  for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
    const std::uint64_t here = RandomStream(5, 0, "dice", unit).next_index(kSides);
    const std::uint64_t there = RandomStream(5, 0, "dice", unit + 1).next_index(kSides);
    counts.at(here).at(there)++;
  }
  double chi_squared = 0;
  for (const auto& row : counts) {
    for (const int count : row) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000;
  }
  CHECK(chi_squared < 35 + 5 * 8.37);
}

}  // namespace
}  // namespace ntpsim
