#include "ntpsim/plan/sync_plan.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"
#include "ntpsim/plan/transfer_schedule.h"

#include "draw.h"

namespace ntpsim::plan {
namespace {

using testing::draw;

constexpr int kJobs = 50'000;  // each has one to five degrees: over 100,000 plans

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// A job whose groups lost GPUs at random slots.
struct Job {
  std::int64_t units = 0;
  int full_degree = 1;
  std::vector<std::vector<int>> active_slots;  // of each group, ascending; the first group is whole

  [[nodiscard]] std::vector<int> degrees() const {
    std::vector<int> result;
    for (const auto& slots : active_slots) result.push_back(static_cast<int>(slots.size()));
    return result;
  }
};

// Units spread over magnitudes, so that few units per rank are as common as many.
std::int64_t random_units(RandomStream& random) {
  constexpr int kMost = 200'000;
  const int most = std::min(kMost, 1 << draw(random, 0, 18));
  return draw(random, 1, most);
}

Job random_job(RandomStream& random) {
  Job job;
  job.units = random_units(random);
  job.full_degree = draw(random, 1, 144);
  const int groups = draw(random, 1, 5);
  for (int group = 0; group < groups; ++group) {
    const int lost = group == 0 ? 0 : draw(random, 0, std::min(job.full_degree - 1, draw(random, 1, 144)));
    std::vector<int> slots(static_cast<std::size_t>(job.full_degree));
    std::iota(slots.begin(), slots.end(), 0);
    for (int i = 0; i < lost; ++i)
      slots.erase(slots.begin() + draw(random, 0, static_cast<int>(slots.size()) - 1));
    job.active_slots.push_back(slots);
  }
  return job;
}

// Every unit in one range only, ranges in order, ranks in range, and the index by rank agrees.
bool cuts_the_tensor(const ShardLayout& layout, std::int64_t units, int degree) {
  std::int64_t next = 0;
  std::vector<std::int64_t> held(static_cast<std::size_t>(degree));
  for (const OwnedRange& range : layout.ranges()) {
    if (range.units.begin != next || range.units.size() <= 0) return false;
    if (range.rank < 0 || range.rank >= degree) return false;
    held[static_cast<std::size_t>(range.rank)] += range.units.size();
    next = range.units.end;
  }
  for (int rank = 0; rank < degree; ++rank) {
    if (layout.units_of(rank) != held[static_cast<std::size_t>(rank)]) return false;
  }
  return next == units && *std::ranges::max_element(held) == ceil_div(units, degree);
}

// Plays the transfers on the layout before them and compares with the layout after them, range by range.
bool leads_from_to(const ReshardPlan& plan, const ShardLayout& before, const ShardLayout& after) {
  std::set<std::int64_t> cuts;
  for (const OwnedRange& range : before.ranges()) cuts.insert(range.units.begin);
  for (const OwnedRange& range : after.ranges()) cuts.insert(range.units.begin);
  for (const Transfer& transfer : plan.transfers()) {
    cuts.insert(transfer.units.begin);
    cuts.insert(transfer.units.end);
  }
  cuts.erase(before.units());
  std::vector<Transfer> moves(plan.transfers().begin(), plan.transfers().end());
  std::ranges::sort(moves, {}, [](const Transfer& move) { return move.units.begin; });
  auto move = moves.begin();
  for (const std::int64_t unit : cuts) {
    while (move != moves.end() && move->units.end <= unit) ++move;
    const bool moves_here = move != moves.end() && move->units.begin <= unit;
    const int source = before.owner_of(unit);
    const int target = after.owner_of(unit);
    if (moves_here != (source != target)) return false;
    if (moves_here && (move->from != source || move->to != target)) return false;
  }
  // Written once: no two transfers overlap.
  for (std::size_t i = 1; i < moves.size(); ++i) {
    if (moves[i].units.begin < moves[i - 1].units.end) return false;
  }
  return true;
}

bool sums_are_right(const ReshardPlan& plan) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(plan.ranks()));
  std::vector<std::int64_t> received(sent.size());
  std::int64_t total = 0;
  for (const Transfer& transfer : plan.transfers()) {
    sent[static_cast<std::size_t>(transfer.from)] += transfer.units.size();
    received[static_cast<std::size_t>(transfer.to)] += transfer.units.size();
    total += transfer.units.size();
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    if (plan.sent(rank) != sent[static_cast<std::size_t>(rank)]) return false;
    if (plan.received(rank) != received[static_cast<std::size_t>(rank)]) return false;
  }
  return plan.total() == total && plan.max_sent() == *std::ranges::max_element(sent) &&
         plan.max_received() == *std::ranges::max_element(received);
}

// Extra ranks only send and core ranks only receive, and every core rank keeps what it computes on.
bool extra_ranks_send_to_core_ranks(const SyncPlan& plan) {
  const int core_ranks = plan.sync().degree();
  return std::ranges::all_of(plan.pre_sync().transfers(), [core_ranks](const Transfer& transfer) {
    return transfer.from >= core_ranks && transfer.to < core_ranks;
  });
}

// The units of a core rank in a group of this degree come first in its sync shard, in the same order: the
// shard is contiguous on both sides of the data-parallel sync.
bool computes_on_the_head_of_its_sync_shard(const SyncPlan& plan) {
  for (int rank = 0; rank < plan.sync().degree(); ++rank) {
    std::int64_t left = plan.compute().units_of(rank);
    std::vector<UnitRange> head;
    for (const UnitRange& range : plan.sync().ranges_of(rank)) {
      const std::int64_t size = std::min(left, range.size());
      if (size > 0) head.push_back({range.begin, range.begin + size});
      left -= size;
    }
    const auto own = plan.compute().ranges_of(rank);
    if (left != 0 || head != std::vector<UnitRange>(own.begin(), own.end())) return false;
  }
  return true;
}

// What must move and so the bound, from first principles: m core ranks hold at most m ceil(U / k).
std::int64_t bound(std::int64_t units, int compute_degree, int sync_degree) {
  const std::int64_t must_move = units - sync_degree * ceil_div(units, compute_degree);
  if (must_move <= 0) return 0;
  return std::max(ceil_div(must_move, compute_degree - sync_degree), ceil_div(must_move, sync_degree));
}

// A slot holds the units of its position: every unit is on exactly one slot, and no lost slot has any.
bool active_slots_hold_everything(const ShardLayout& compute, const std::vector<int>& active, int slots) {
  std::vector<std::int64_t> by_slot(static_cast<std::size_t>(slots));
  for (int position = 0; position < compute.degree(); ++position) {
    by_slot[static_cast<std::size_t>(active[static_cast<std::size_t>(position)])] +=
        compute.units_of(position);
  }
  std::int64_t sum = 0;
  for (int slot = 0; slot < slots; ++slot) {
    if (!std::ranges::binary_search(active, slot) && by_slot[static_cast<std::size_t>(slot)] != 0)
      return false;
    sum += by_slot[static_cast<std::size_t>(slot)];
  }
  return sum == compute.units();
}

// No round has a rank twice, so there are at least as many as the busiest rank has messages.
bool rounds_are_few(const ReshardPlan& plan) {
  if (plan.transfers().empty()) return true;
  std::vector<Message> messages;
  std::vector<int> sends(static_cast<std::size_t>(plan.ranks()));
  std::vector<int> receives(sends.size());
  for (const Transfer& transfer : plan.transfers()) {
    messages.push_back({transfer.from, transfer.to, transfer.units.size()});
    ++sends[static_cast<std::size_t>(transfer.from)];
    ++receives[static_cast<std::size_t>(transfer.to)];
  }
  const auto traffic = Traffic::from_messages(plan.ranks(), messages);
  return traffic.has_value() &&
         color_rounds(*traffic).size() == std::max(std::ranges::max(sends), std::ranges::max(receives));
}

bool is_right(const SyncPlan& plan, const Job& job, const std::vector<int>& active, int sync_degree) {
  const int degree = static_cast<int>(active.size());
  const ReshardPlan& pre = plan.pre_sync();
  return cuts_the_tensor(plan.compute(), job.units, degree) &&
         cuts_the_tensor(plan.sync(), job.units, sync_degree) &&
         leads_from_to(pre, plan.compute(), plan.sync()) &&
         leads_from_to(plan.post_sync(), plan.sync(), plan.compute()) && sums_are_right(pre) &&
         sums_are_right(plan.post_sync()) && rounds_are_few(pre) && extra_ranks_send_to_core_ranks(plan) &&
         computes_on_the_head_of_its_sync_shard(plan) &&
         active_slots_hold_everything(plan.compute(), active, job.full_degree) &&
         pre.bottleneck() == bound(job.units, degree, sync_degree) &&
         plan.objective() == plan.lower_bound() &&
         sync_traffic(job.units, degree, sync_degree) ==
             SyncTraffic{pre.max_sent(), pre.max_received(), pre.total()} &&
         static_cast<int>(pre.transfers().size()) <= std::max(0, degree - 1);
}

TEST_CASE("jobs of one to five degrees: layouts cut, reshards lead there and back, traffic meets the bound") {
  RandomStream random(31, 0, "test/sync_plan");
  std::int64_t plans = 0;
  for (int i = 0; i < kJobs; ++i) {
    const Job job = random_job(random);
    const int sync_degree = sync_degree_of(job.degrees());
    for (const std::vector<int>& active : job.active_slots) {
      const int degree = static_cast<int>(active.size());
      const SyncPlan plan(job.units, job.full_degree, degree, sync_degree);
      ++plans;
      if (is_right(plan, job, active, sync_degree)) continue;
      CAPTURE(job.units);
      CAPTURE(job.full_degree);
      CAPTURE(degree);
      CAPTURE(sync_degree);
      REQUIRE(false);
    }
  }
  CHECK(plans >= 100'000);
}

using Buffer = std::vector<std::int64_t>;  // what one rank stores of the tensor, in its own order

std::vector<Buffer> empty_buffers(const ShardLayout& layout) {
  std::vector<Buffer> buffers;
  for (int rank = 0; rank < layout.degree(); ++rank) {
    buffers.emplace_back(static_cast<std::size_t>(layout.units_of(rank)), -1);
  }
  return buffers;
}

std::int64_t& at(std::vector<Buffer>& buffers, const ShardLayout& layout, int rank, std::int64_t unit) {
  REQUIRE(layout.owner_of(unit) == rank);
  return buffers[static_cast<std::size_t>(rank)][static_cast<std::size_t>(layout.offset_of(unit))];
}

// Copies what stays and what moves from one layout to the other, as an executor would.
std::vector<Buffer> reshard(std::vector<Buffer> have, const ShardLayout& from, const ShardLayout& to,
                            const ReshardPlan& plan) {
  std::vector<Buffer> got = empty_buffers(to);
  for (std::int64_t unit = 0; unit < from.units(); ++unit) {
    const int rank = from.owner_of(unit);
    if (rank == to.owner_of(unit)) at(got, to, rank, unit) = at(have, from, rank, unit);
  }
  for (const Transfer& transfer : plan.transfers()) {
    for (std::int64_t unit = transfer.units.begin; unit < transfer.units.end; ++unit) {
      at(got, to, transfer.to, unit) = at(have, from, transfer.from, unit);
    }
  }
  return got;
}

TEST_CASE("unit by unit, gradients of all groups are summed and come back to those who compute on them") {
  RandomStream random(32, 0, "test/sync_plan");
  for (int round = 0; round < 200; ++round) {
    Job job = random_job(random);
    job.units = draw(random, 1, 300);
    const int sync_degree = sync_degree_of(job.degrees());
    std::vector<SyncPlan> plans;
    Buffer sums(static_cast<std::size_t>(job.units), 0);
    std::vector<std::vector<Buffer>> shards;  // of each group, in the sync layout
    for (const int degree : job.degrees()) {
      const SyncPlan& plan = plans.emplace_back(job.units, job.full_degree, degree, sync_degree);
      std::vector<Buffer> gradients = empty_buffers(plan.compute());
      for (std::int64_t unit = 0; unit < job.units; ++unit) {
        const auto gradient = static_cast<std::int64_t>(random.next_index(1000));
        sums[static_cast<std::size_t>(unit)] += gradient;
        at(gradients, plan.compute(), plan.compute().owner_of(unit), unit) = gradient;
      }
      shards.push_back(reshard(gradients, plan.compute(), plan.sync(), plan.pre_sync()));
    }
    std::vector<Buffer> reduced = shards[0];
    for (std::size_t group = 1; group < shards.size(); ++group) {
      for (std::size_t core = 0; core < reduced.size(); ++core) {
        std::ranges::transform(reduced[core], shards[group][core], reduced[core].begin(), std::plus<>());
      }
    }
    bool right = true;
    for (const SyncPlan& plan : plans) {
      std::vector<Buffer> back = reshard(reduced, plan.sync(), plan.compute(), plan.post_sync());
      for (std::int64_t unit = 0; unit < job.units; ++unit) {
        right = right && at(back, plan.compute(), plan.compute().owner_of(unit), unit) ==
                             sums[static_cast<std::size_t>(unit)];
      }
    }
    REQUIRE(right);
  }
}

// The least bottleneck over all pairs of layouts within the caps, by trying every owner of every unit.
std::int64_t least_bottleneck(int units, int compute_degree, int sync_degree) {
  const std::int64_t compute_cap = ceil_div(units, compute_degree);
  const std::int64_t sync_cap = ceil_div(units, sync_degree);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> computed(static_cast<std::size_t>(compute_degree));
  std::vector<std::int64_t> synced(static_cast<std::size_t>(sync_degree));
  std::vector<std::int64_t> sent(computed.size());
  std::vector<std::int64_t> received(synced.size());
  const std::function<void(int)> place = [&](int unit) {
    if (unit == units) {
      best = std::min(best, std::max(*std::ranges::max_element(sent), *std::ranges::max_element(received)));
      return;
    }
    for (std::size_t from = 0; from < computed.size(); ++from) {
      if (computed[from] == compute_cap) continue;
      ++computed[from];
      for (std::size_t to = 0; to < synced.size(); ++to) {
        if (synced[to] == sync_cap) continue;
        ++synced[to];
        const int moved = from != to ? 1 : 0;
        sent[from] += moved;
        received[to] += moved;
        place(unit + 1);
        sent[from] -= moved;
        received[to] -= moved;
        --synced[to];
      }
      --computed[from];
    }
  };
  place(0);
  return best;
}

TEST_CASE("no pair of balanced layouts moves less, all of them tried") {
  for (int compute_degree = 1; compute_degree <= 4; ++compute_degree) {
    for (int sync_degree = 1; sync_degree <= compute_degree; ++sync_degree) {
      for (int units = 1; units <= 5; ++units) {
        CAPTURE(units);
        CAPTURE(compute_degree);
        CAPTURE(sync_degree);
        CHECK(SyncPlan(units, compute_degree, compute_degree, sync_degree).objective() ==
              least_bottleneck(units, compute_degree, sync_degree));
      }
    }
  }
}

TEST_CASE("no lower sync degree costs less: neither its reshards nor its largest sync shard") {
  RandomStream random(33, 0, "test/sync_plan");
  for (int round = 0; round < 2000; ++round) {
    const Job job = random_job(random);
    const std::vector<int> degrees = job.degrees();
    const int chosen = sync_degree_of(degrees);
    for (int lower = 1; lower < chosen; ++lower) {
      REQUIRE(max_units(job.units, chosen) <= max_units(job.units, lower));
      for (const int degree : degrees) {
        const SyncTraffic at_chosen = sync_traffic(job.units, degree, chosen);
        const SyncTraffic at_lower = sync_traffic(job.units, degree, lower);
        REQUIRE(at_chosen.max_sent <= at_lower.max_sent);
        REQUIRE(at_chosen.max_received <= at_lower.max_received);
        REQUIRE(at_chosen.total <= at_lower.total);
      }
    }
  }
}

}  // namespace
}  // namespace ntpsim::plan
