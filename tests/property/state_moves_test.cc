#include "ntpsim/plan/state_moves.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

#include "draw.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::plan::distributed_optimizer;
using ntpsim::plan::MovePlan;
using ntpsim::plan::MoveTraffic;
using ntpsim::plan::OwnedRange;
using ntpsim::plan::Placement;
using ntpsim::plan::plan_moves;
using ntpsim::plan::ReplicaShards;
using ntpsim::plan::replicated;
using ntpsim::plan::ShardLayout;
using ntpsim::plan::Transfer;
using ntpsim::plan::UnitRange;
using ntpsim::plan::WantedRange;
using ntpsim::testing::draw;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// Which index is held (or wanted) by which rank: matrix[rank][index].
using Matrix = std::vector<std::vector<bool>>;

Placement placement_of(const Matrix& matrix, int size) {
  std::vector<OwnedRange> ranges;
  for (int rank = 0; rank < static_cast<int>(matrix.size()); ++rank) {
    for (int i = 0; i < size; ++i) {
      if (matrix[at(rank)][at(i)]) ranges.push_back({{i, i + 1}, rank});
    }
  }
  return Placement::from_ranges(size, ranges).value();
}

Matrix matrix_of(const Placement& placement, int ranks) {
  Matrix matrix(at(ranks), std::vector<bool>(at(placement.size()), false));
  for (const OwnedRange& range : placement.ranges()) {
    for (std::int64_t i = range.units.begin; i < range.units.end; ++i) matrix[at(range.rank)][at(i)] = true;
  }
  return matrix;
}

// Every rank in turn holds stretches of the indices; it holds about one in `sparsity` of them.
Matrix random_matrix(RandomStream& random, int ranks, int size, int sparsity) {
  Matrix matrix(at(ranks), std::vector<bool>(at(size), false));
  for (auto& row : matrix) {
    for (int i = 0; i < size;) {
      const int end = std::min(size, i + draw(random, 1, std::max(1, size / 3)));
      const bool holds = draw(random, 1, sparsity) == 1;
      for (; i < end; ++i) row[at(i)] = holds;
    }
  }
  return matrix;
}

struct Instance {
  int ranks = 1;
  int size = 0;
  Matrix have;
  Matrix want;
  std::vector<int> domain_of;  // empty in half of the instances
  bool checkpoint = false;

  [[nodiscard]] MovePlan plan() const {
    return plan_moves(placement_of(have, size), placement_of(want, size),
                      {.checkpoint_available = checkpoint, .domain_of = domain_of});
  }
  [[nodiscard]] bool same_domain(int a, int b) const {
    return a == b || (!domain_of.empty() && domain_of[at(a)] == domain_of[at(b)]);
  }
  [[nodiscard]] std::vector<int> holders(int index) const {
    std::vector<int> found;
    for (int rank = 0; rank < ranks; ++rank) {
      if (have[at(rank)][at(index)]) found.push_back(rank);
    }
    return found;
  }
};

Instance random_instance(RandomStream& random) {
  Instance instance;
  instance.ranks = draw(random, 1, 9);
  instance.size = draw(random, 0, 24);
  instance.have = random_matrix(random, instance.ranks, instance.size, draw(random, 1, 5));
  instance.want = random_matrix(random, instance.ranks, instance.size, draw(random, 1, 3));
  instance.checkpoint = draw(random, 0, 1) == 1;
  if (draw(random, 0, 1) == 1) {
    const int domains = draw(random, 1, 4);
    for (int rank = 0; rank < instance.ranks; ++rank) {
      instance.domain_of.push_back(draw(random, 1, domains));
    }
  }
  return instance;
}

// What each rank's new buffer gets, written index by index from the old buffers.
class Buffers {
 public:
  explicit Buffers(const Instance& instance)
      : instance_(instance), writes_(at(instance.ranks), std::vector<int>(at(instance.size), 0)) {}

  void apply(const MovePlan& plan) {
    for (const OwnedRange& kept : plan.kept) copy(kept.rank, kept.rank, kept.units);
    for (const Transfer& transfer : plan.transfers) {
      REQUIRE(transfer.from != transfer.to);
      copy(transfer.from, transfer.to, transfer.units);
    }
    for (const auto* unheld : {&plan.checkpoint_reads, &plan.lost}) {
      for (const WantedRange& range : *unheld) write_unheld(range);
    }
  }

  [[nodiscard]] bool written_once_where_wanted() const {
    for (int rank = 0; rank < instance_.ranks; ++rank) {
      for (int i = 0; i < instance_.size; ++i) {
        if (writes_[at(rank)][at(i)] != (instance_.want[at(rank)][at(i)] ? 1 : 0)) return false;
      }
    }
    return true;
  }

 private:
  void copy(int from, int to, const UnitRange& units) {
    for (std::int64_t i = units.begin; i < units.end; ++i) {
      REQUIRE(instance_.have[at(from)][at(i)]);
      ++writes_[at(to)][at(i)];
    }
  }

  void write_unheld(const WantedRange& range) {
    for (std::int64_t i = range.units.begin; i < range.units.end; ++i) {
      REQUIRE(instance_.holders(static_cast<int>(i)).empty());
      for (const int rank : range.ranks) ++writes_[at(rank)][at(i)];
    }
  }

  const Instance& instance_;
  std::vector<std::vector<int>> writes_;
};

TEST_CASE("applying a plan writes every wanted index once, from a rank that has it, or names it") {
  RandomStream random(1, 0, "test/state_moves");
  for (int round = 0; round < 2000; ++round) {
    const Instance instance = random_instance(random);
    const MovePlan plan = instance.plan();
    Buffers buffers(instance);
    buffers.apply(plan);
    REQUIRE(buffers.written_once_where_wanted());
    REQUIRE((instance.checkpoint ? plan.lost : plan.checkpoint_reads).empty());
    for (const OwnedRange& kept : plan.kept) {
      for (std::int64_t i = kept.units.begin; i < kept.units.end; ++i) {
        REQUIRE(instance.have[at(kept.rank)][at(i)]);
      }
    }
    for (int rank = 0; rank < instance.ranks; ++rank) {
      std::int64_t stays = 0;
      for (int i = 0; i < instance.size; ++i) {
        if (instance.have[at(rank)][at(i)] && instance.want[at(rank)][at(i)]) ++stays;
      }
      for (const OwnedRange& kept : plan.kept) stays -= kept.rank == rank ? kept.units.size() : 0;
      REQUIRE(stays == 0);
    }
  }
}

// What a plan moves over one network, from its transfers alone.
MoveTraffic counted(const Instance& instance, const MovePlan& plan, bool within) {
  std::map<int, std::int64_t> sent;
  std::map<int, std::int64_t> received;
  MoveTraffic traffic;
  for (const Transfer& transfer : plan.transfers) {
    if (instance.same_domain(transfer.from, transfer.to) != within) continue;
    traffic.total += transfer.units.size();
    traffic.max_sent = std::max(traffic.max_sent, sent[transfer.from] += transfer.units.size());
    traffic.max_received = std::max(traffic.max_received, received[transfer.to] += transfer.units.size());
  }
  return traffic;
}

// The least bottleneck of one network. The ranks of a set must send whatever has no other holder, so some
// rank of the set sends at least the mean of it; by the theorem of maximum flow and minimum cut, the largest
// such mean can be reached.
std::int64_t least_bottleneck(const Instance& instance, bool within) {
  std::map<unsigned, std::int64_t> demand;  // by the set of possible sources
  std::int64_t least = 0;
  for (int rank = 0; rank < instance.ranks; ++rank) {
    std::int64_t received = 0;
    for (int i = 0; i < instance.size; ++i) {
      if (!instance.want[at(rank)][at(i)] || instance.have[at(rank)][at(i)]) continue;
      unsigned near = 0;
      unsigned all = 0;
      for (const int holder : instance.holders(i)) {
        all |= 1U << static_cast<unsigned>(holder);
        if (instance.same_domain(holder, rank)) near |= 1U << static_cast<unsigned>(holder);
      }
      if (all == 0 || (near != 0) != within) continue;
      ++received;
      ++demand[within ? near : all];
    }
    least = std::max(least, received);
  }
  for (unsigned set = 1; set < (1U << static_cast<unsigned>(instance.ranks)); ++set) {
    std::int64_t forced = 0;
    for (const auto& [sources, amount] : demand) {
      if ((sources & ~set) == 0) forced += amount;
    }
    const std::int64_t ranks = std::popcount(set);
    least = std::max(least, (forced + ranks - 1) / ranks);
  }
  return least;
}

TEST_CASE("no choice of sources has a smaller bottleneck, and local holders come first") {
  RandomStream random(2, 0, "test/state_moves");
  int above_what_is_received = 0;
  for (int round = 0; round < 2000; ++round) {
    const Instance instance = random_instance(random);
    const MovePlan plan = instance.plan();
    for (const bool within : {true, false}) {
      const MoveTraffic& reported = within ? plan.within_domains : plan.across_domains;
      MoveTraffic expected = counted(instance, plan, within);
      expected.lower_bound = least_bottleneck(instance, within);
      REQUIRE(reported == expected);
      REQUIRE(reported.bottleneck() == expected.lower_bound);
      if (reported.max_sent > reported.max_received) ++above_what_is_received;
    }
    for (const Transfer& transfer : plan.transfers) {
      if (instance.same_domain(transfer.from, transfer.to)) continue;
      for (std::int64_t i = transfer.units.begin; i < transfer.units.end; ++i) {
        for (const int holder : instance.holders(static_cast<int>(i))) {
          REQUIRE_FALSE(instance.same_domain(holder, transfer.to));
        }
      }
    }
  }
  CHECK(above_what_is_received > 500);  // else the bound on senders was hardly tried
}

TEST_CASE("transfers and unheld ranges are in order and as long as can be") {
  RandomStream random(3, 0, "test/state_moves");
  for (int round = 0; round < 1000; ++round) {
    const MovePlan plan = random_instance(random).plan();
    for (std::size_t i = 1; i < plan.transfers.size(); ++i) {
      const Transfer& a = plan.transfers[i - 1];
      const Transfer& b = plan.transfers[i];
      REQUIRE((a.to < b.to || (a.to == b.to && a.units.end <= b.units.begin)));
      REQUIRE_FALSE((a.to == b.to && a.from == b.from && a.units.end == b.units.begin));
    }
    for (const auto* unheld : {&plan.checkpoint_reads, &plan.lost}) {
      for (std::size_t i = 0; i < unheld->size(); ++i) {
        REQUIRE_FALSE((*unheld)[i].ranks.empty());
        REQUIRE(std::ranges::is_sorted((*unheld)[i].ranks));
        if (i == 0) continue;
        const WantedRange& a = (*unheld)[i - 1];
        const WantedRange& b = (*unheld)[i];
        REQUIRE(a.units.end <= b.units.begin);
        REQUIRE_FALSE((a.units.end == b.units.begin && a.ranks == b.ranks));
      }
    }
  }
}

// Replicas of all degrees over ranks that are numbered in a row from `first`.
std::vector<ReplicaShards> random_replicas(RandomStream& random, std::int64_t units, int replicas,
                                           int degree) {
  std::vector<ReplicaShards> result;
  for (int r = 0; r < replicas; ++r) {
    ReplicaShards replica{ShardLayout(units, draw(random, 1, degree)), {}};
    const int shift = draw(random, 0, degree - 1);
    for (int i = 0; i < replica.layout.degree(); ++i) {
      replica.ranks.push_back(r * degree + (i + shift) % degree);
    }
    result.push_back(std::move(replica));
  }
  return result;
}

TEST_CASE("whole jobs: the plan adds up to what is wanted and reaches its bound") {
  RandomStream random(4, 0, "test/state_moves");
  for (int round = 0; round < 12; ++round) {
    const int degree = draw(random, 2, 72);
    const int replicas = draw(random, 1, 12);
    const std::int64_t units = draw(random, 1, 100'000);
    const std::int64_t elements = draw(random, 0, 1) == 0 ? 1 : kMost / units / replicas;
    std::vector<int> failed;
    for (int i = draw(random, 0, 2 * replicas); i > 0; --i) {
      failed.push_back(draw(random, 0, replicas * degree - 1));
    }
    std::vector<int> domain_of;
    for (int rank = 0; rank < replicas * degree; ++rank) domain_of.push_back(rank / (2 * degree));
    const Placement have =
        replicated(random_replicas(random, units, replicas, degree), elements).value().without(failed);
    const Placement want = replicated(random_replicas(random, units, replicas, degree), elements).value();
    const bool near_first = draw(random, 0, 1) == 1;
    const MovePlan plan =
        plan_moves(have, want,
                   {.checkpoint_available = false,
                    .domain_of = near_first ? std::span<const int>(domain_of) : std::span<const int>()});

    std::vector<OwnedRange> written = plan.kept;
    for (const Transfer& transfer : plan.transfers) {
      written.push_back({transfer.units, transfer.to});
      const auto sources = have.ranges_of(transfer.from);
      REQUIRE(std::ranges::any_of(sources, [&transfer](const OwnedRange& held) {
        return held.units.begin <= transfer.units.begin && transfer.units.end <= held.units.end;
      }));
    }
    for (const WantedRange& lost : plan.lost) {
      for (const int rank : lost.ranks) written.push_back({lost.units, rank});
    }
    REQUIRE(Placement::from_ranges(have.size(), written) == want);  // an error if something is written twice
    for (const MoveTraffic& traffic : {plan.within_domains, plan.across_domains}) {
      REQUIRE(traffic.bottleneck() == traffic.lower_bound);
    }
  }
}

// Any unit on any rank.
ShardLayout random_layout(RandomStream& random) {
  const int units = draw(random, 0, 30);
  const int degree = draw(random, 1, 6);
  std::vector<OwnedRange> ranges;
  for (int unit = 0; unit < units; ++unit) ranges.push_back({{unit, unit + 1}, draw(random, 0, degree - 1)});
  return ShardLayout::from_ranges(units, degree, ranges).value();
}

TEST_CASE("builders agree with the definition, element by element") {
  RandomStream random(5, 0, "test/state_moves");
  for (int round = 0; round < 500; ++round) {
    const ShardLayout layout = random_layout(random);
    const int copies = draw(random, 1, 5);
    const std::int64_t elements = draw(random, 1, 7);
    std::vector<std::vector<int>> ranks(at(copies));
    for (int copy = 0; copy < copies; ++copy) {
      for (int i = 0; i < layout.degree(); ++i) ranks[at(copy)].push_back(i * copies + copy);
    }
    const int all = copies * layout.degree();
    const auto size = layout.units() * elements;
    Matrix whole(at(all), std::vector<bool>(at(size), false));
    Matrix pieces = whole;
    for (int position = 0; position < layout.degree(); ++position) {
      const std::int64_t length = layout.units_of(position) * elements;
      const std::int64_t longer = length % copies;
      const std::int64_t base = length / copies;
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t unit = i / elements;
        if (layout.owner_of(unit) != position) continue;
        for (const std::vector<int>& copy : ranks) whole[at(copy[at(position)])][at(i)] = true;
        // The first `longer` pieces have base + 1 elements.
        const std::int64_t local = layout.offset_of(unit) * elements + i % elements;
        const std::int64_t in_longer = longer * (base + 1);
        const std::int64_t piece =
            local < in_longer ? local / (base + 1) : longer + (local - in_longer) / base;
        pieces[at(ranks[at(piece)][at(position)])][at(i)] = true;
      }
    }
    REQUIRE(matrix_of(replicated(layout, ranks, elements).value(), all) == whole);
    REQUIRE(matrix_of(distributed_optimizer(layout, ranks, elements).value(), all) == pieces);
  }
}

TEST_CASE("any ranges make a placement, or errors when one is wrong") {
  RandomStream random(6, 0, "test/state_moves");
  const std::vector<std::int64_t> ends = {
      std::numeric_limits<std::int64_t>::min(), -1, 0, 1, 2, 3, 4, 5, 6, kMost};
  int good = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto any_end = [&] { return ends[at(draw(random, 0, 9))]; };
    const auto small_end = [&] { return ends[at(draw(random, 2, 8))]; };
    const bool wild = draw(random, 0, 1) == 1;
    const std::int64_t size = wild ? any_end() : 6;
    std::vector<OwnedRange> ranges;
    for (int i = draw(random, 0, 4); i > 0; --i) {
      ranges.push_back(wild ? OwnedRange{{any_end(), any_end()}, draw(random, -1, 2)}
                            : OwnedRange{{small_end(), small_end()}, draw(random, 0, 2)});
    }
    bool expected = size >= 0;
    std::uint64_t held = 0;  // below 2^64: checked against 2^63 - 1 with every range
    for (std::size_t i = 0; i < ranges.size() && expected; ++i) {
      const auto [begin, end] = ranges[i].units;
      expected = ranges[i].rank >= 0 && 0 <= begin && begin < end && end <= size;
      if (expected) held += static_cast<std::uint64_t>(end - begin);
      expected = expected && held <= static_cast<std::uint64_t>(kMost);
      for (std::size_t j = 0; j < i; ++j) {
        const bool apart = ranges[j].units.end <= begin || end <= ranges[j].units.begin;
        expected = expected && (apart || ranges[j].rank != ranges[i].rank);
      }
    }
    const auto placement = Placement::from_ranges(size, ranges);
    REQUIRE(placement.has_value() == expected);
    if (!expected) continue;
    ++good;
    for (const OwnedRange& range : ranges) {
      REQUIRE(std::ranges::any_of(placement->ranges_of(range.rank), [&range](const OwnedRange& merged) {
        return merged.units.begin <= range.units.begin && range.units.end <= merged.units.end;
      }));
    }
  }
  CHECK(good > 2000);
}

}  // namespace
