// Whatever arguments the validating entries of `plan` get: a value that holds together, or an error that says
// why. Never a crash, a hang or a broken invariant.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"
#include "ntpsim/plan/head_cut.h"
#include "ntpsim/plan/rank_placement.h"
#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/plan/state_moves.h"
#include "ntpsim/plan/step_schedule.h"
#include "ntpsim/plan/transfer_schedule.h"

#include "draw.h"

namespace ntpsim::plan {
namespace {

using testing::draw;

constexpr std::uint64_t kSeed = 1;
constexpr int kScale = 1;  // more rounds for a longer search

bool one_in(RandomStream& random, std::uint64_t chances) {
  return random.next_index(chances) == 0;
}

template <class T>
const T& pick(RandomStream& random, const std::vector<T>& from) {
  return from[random.next_index(from.size())];
}

// Extremes, what lies about the limits, and numbers of any length.
template <class T>
T odd(RandomStream& random) {
  using Limits = std::numeric_limits<T>;
  constexpr std::array<std::int64_t, 7> kLimits = {
      kMaxUnits, kMaxDegree, kMaxHeads, kMaxDomainSize, kMaxGpus, Traffic::kMaxRanks, Traffic::kMaxBytes};
  switch (random.next_index(8)) {
    case 0:
      return Limits::min() + draw<T>(random, 0, 1);
    case 1:
      return Limits::max() - draw<T>(random, 0, 1);
    case 2:
      return draw<T>(random, -2, 2);
    case 3: {
      const std::int64_t limit = kLimits.at(random.next_index(kLimits.size()));
      return static_cast<T>(std::min<std::int64_t>(limit, Limits::max() - 1) + draw<T>(random, -1, 1));
    }
    case 4:
      return static_cast<T>(random.next());
    default:
      return static_cast<T>(random.next() >> random.next_index(64));
  }
}

constexpr std::uint64_t kNever = std::uint64_t{1} << 62;

// The right value but once in `chances` times.
template <class T>
T nearly(RandomStream& random, T right, std::uint64_t chances = 8) {
  if (!one_in(random, chances)) return right;
  return one_in(random, 2) ? odd<T>(random)
                           : static_cast<T>(std::clamp<T>(right, -9, 9) + draw<T>(random, -2, 2));
}

// Counts what was accepted and refused, so that a test cannot pass by refusing all.
struct Tally {
  int accepted = 0;
  int refused = 0;

  template <class T>
  bool add(const Result<T>& result) {
    if (result.has_value()) {
      ++accepted;
      return true;
    }
    ++refused;
    REQUIRE(result.error().has_errors());
    for (const Diagnostic& diagnostic : result.error().items()) {
      REQUIRE_FALSE(diagnostic.message.empty());
      REQUIRE(to_string(diagnostic).find('\n') == std::string::npos);
    }
    return false;
  }
  void check(int rounds) const {
    CHECK(accepted >= rounds / 20);
    CHECK(refused >= rounds / 20);
  }
};

// Calls action(random, tally) again and again.
template <class Action>
void fuzz(std::string_view name, int rounds, const Action& action) {
  Tally tally;
  for (int round = 0; round < rounds * kScale; ++round) {
    CAPTURE(round);
    RandomStream random(kSeed, static_cast<std::uint64_t>(round), name);
    action(random, tally);
  }
  tally.check(rounds * kScale);
}

void use(RandomStream& random, const ShardLayout& layout) {
  const std::int64_t units = layout.units();
  std::int64_t next = 0;
  for (const OwnedRange& range : layout.ranges()) {
    REQUIRE(range.units.begin == next);
    REQUIRE(range.units.end > next);
    next = range.units.end;
  }
  REQUIRE(next == units);
  REQUIRE(layout.max_units() >= max_units(units, layout.degree()));
  REQUIRE(layout.load() >= 1 - 1e-9);
  if (units == 0) return;
  const std::int64_t unit = draw<std::int64_t>(random, 0, units - 1);
  const int owner = layout.owner_of(unit);
  REQUIRE(layout.offset_of(unit) < layout.units_of(owner));
}

TEST_CASE("shard layouts") {
  fuzz("fuzz/shard_layout", 2000, [](RandomStream& random, Tally& tally) {
    const auto units = nearly(random, draw<std::int64_t>(random, 0, 200));
    const auto made = ShardLayout::make(units, nearly(random, draw(random, 1, 40)));
    if (tally.add(made)) use(random, *made);
  });
}

std::vector<OwnedRange> random_cut(RandomStream& random, std::int64_t units, int degree) {
  std::vector<OwnedRange> ranges;
  for (std::int64_t begin = 0; begin < units;) {
    const std::int64_t end = std::min(units, begin + draw<std::int64_t>(random, 1, 30));
    ranges.push_back({{begin, end}, draw(random, 0, degree - 1)});
    begin = end;
  }
  std::ranges::reverse(ranges);
  return ranges;
}

void damage(RandomStream& random, std::vector<OwnedRange>& ranges) {
  for (OwnedRange& range : ranges) {
    range.units.begin = nearly(random, range.units.begin, 100);
    range.units.end = nearly(random, range.units.end, 100);
    range.rank = nearly(random, range.rank, 100);
  }
  if (ranges.empty() || !one_in(random, 8)) return;
  ranges.push_back(pick(random, ranges));
  std::swap(ranges.back(), ranges[random.next_index(ranges.size())]);
  if (one_in(random, 2)) ranges.pop_back();
}

TEST_CASE("shard layouts from ranges") {
  fuzz("fuzz/from_ranges", 20000, [](RandomStream& random, Tally& tally) {
    const auto units = draw<std::int64_t>(random, 0, 200);
    const int degree = draw(random, 1, 40);
    std::vector<OwnedRange> ranges = random_cut(random, units, degree);
    damage(random, ranges);
    const auto made =
        ShardLayout::from_ranges(nearly(random, units, 20), nearly(random, degree, 20), std::move(ranges));
    if (tally.add(made)) use(random, *made);
  });
}

TEST_CASE("sync plans") {
  fuzz("fuzz/sync_plan", 10000, [](RandomStream& random, Tally& tally) {
    const int full = draw(random, 1, 40);
    const int compute = draw(random, 1, full);
    const auto units = nearly(random, draw<std::int64_t>(random, 0, 500));
    const auto made = SyncPlan::make(units, nearly(random, full), nearly(random, compute),
                                     nearly(random, draw(random, 1, compute)));
    if (!tally.add(made)) return;
    use(random, made->sync());
    use(random, made->compute());
    REQUIRE(made->objective() == made->lower_bound());
    REQUIRE(made->pre_sync().total() <= units);
    REQUIRE(made->post_sync().total() == made->pre_sync().total());
  });
}

TEST_CASE("head cuts and the copies of KV groups") {
  fuzz("fuzz/head_cut", 20000, [](RandomStream& random, Tally& tally) {
    const auto groups = draw<std::int64_t>(random, 1, 16);
    const int degree = draw(random, 1, 24);
    const auto cut = HeadCut::make(nearly(random, groups * draw<std::int64_t>(random, 1, 8)),
                                   nearly(random, groups), nearly(random, degree));
    if (!tally.add(cut)) return;
    REQUIRE(cut->units() * cut->heads_per_unit() == cut->heads);
    REQUIRE(cut->heads_per_group() * cut->groups == cut->heads);
    const ShardLayout sync(cut->heads, draw(random, 1, degree));
    const GroupCopies copies(ShardLayout(cut->heads, degree), cut->heads_per_group());
    REQUIRE(copies.count_of(0) >= 1);
    const std::vector<Transfer> gathered = gather_group_copies(copies, sync, cut->heads_per_group());
    for (const Transfer& transfer : gathered) REQUIRE(transfer.from != transfer.to);
  });
}

void use(const DomainPartition& partition) {
  const int size = partition.domain_size();
  REQUIRE(partition.groups(0).empty());
  for (const int healthy : {size / 2, size - 1, size}) {
    int gpus = 0;
    for (const GroupRun& run : partition.groups(healthy)) gpus += run.degree * run.count;
    REQUIRE(gpus <= healthy);
  }
  REQUIRE(partition.groups(size).front().degree == partition.tp_degree());
  REQUIRE(partition.same_groups(partition));
}

TEST_CASE("domain partitions") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 8> kValues = {
      -1, 0, 1, 1.0000001, 1e308, -kInfinity, kInfinity, std::numeric_limits<double>::quiet_NaN()};
  fuzz("fuzz/domain_partition", 1500, [&](RandomStream& random, Tally& tally) {
    const int tp = draw(random, 1, 16);
    std::vector<ReducedDegree> reduced;
    std::vector<int> degrees;
    double value = 1;
    for (int degree = tp - draw(random, 1, 3); degree >= 1; degree -= draw(random, 1, 3)) {
      value *= random.next_uniform();
      const bool strange = one_in(random, 40);
      reduced.push_back({nearly(random, degree, 40), strange ? kValues.at(random.next_index(8)) : value});
      degrees.push_back(nearly(random, degree, 40));
    }
    const int size = nearly(random, draw(random, tp, 40), 12);
    const auto worth = DomainPartition::make(size, nearly(random, tp), reduced);
    if (tally.add(worth)) use(*worth);
    const auto in_proportion = DomainPartition::make(size, nearly(random, tp), degrees);
    if (tally.add(in_proportion)) use(*in_proportion);
  });
}

// Failed GPUs of a cluster, each in order about once in `chances` times.
std::vector<FailedDomain> random_failures(RandomStream& random, std::int64_t domains, int size,
                                          std::uint64_t chances) {
  std::vector<FailedDomain> failed;
  for (std::int64_t domain = 0; domain < domains; ++domain) {
    if (!one_in(random, 3)) continue;
    FailedDomain entry{nearly(random, domain, chances), {}};
    for (int slot = 0; slot < size; ++slot) {
      if (one_in(random, 4)) entry.slots.push_back(nearly(random, slot, chances));
    }
    failed.push_back(std::move(entry));
  }
  return failed;
}

void use(const FailedGpus& failed) {
  std::int64_t count = 0;
  for (const FailedDomain& entry : failed.failed()) {
    REQUIRE(entry.domain < failed.domains());
    REQUIRE(entry.slots.back() < failed.domain_size());
    REQUIRE(failed.healthy(entry.domain) == failed.domain_size() - std::ssize(failed.slots(entry.domain)));
    count += std::ssize(entry.slots);
  }
  REQUIRE(count == failed.count());
  REQUIRE(failed.healthy(failed.domains() - 1) >= 0);
}

TEST_CASE("failed GPUs") {
  fuzz("fuzz/failed_gpus", 20000, [](RandomStream& random, Tally& tally) {
    const auto domains = draw<std::int64_t>(random, 1, 9);
    const int size = draw(random, 1, 9);
    const auto made = FailedGpus::make(nearly(random, domains, 20), nearly(random, size, 20),
                                       random_failures(random, domains, size, 60));
    if (tally.add(made)) use(*made);
  });
}

std::string random_text(RandomStream& random) {
  if (one_in(random, 10)) {
    std::string bytes;
    for (std::uint64_t left = random.next_index(60); left > 0; --left)
      bytes += static_cast<char>(random.next());
    return bytes;
  }
  std::string text;
  for (int domain = draw(random, 0, 2); domain < 9; domain += draw(random, 1, 5)) {
    text += (text.empty() ? "domain " : "; domain ") + std::to_string(domain) + ": ";
    text += one_in(random, 4) ? "all" : "gpus 0-" + std::to_string(draw(random, 0, 3)) + ", 4";
  }
  for (std::uint64_t left = random.next_index(3); left > 0; --left) {
    const std::size_t place = random.next_index(text.size() + 1);
    if (one_in(random, 2)) {
      text.insert(place, std::to_string(odd<std::int64_t>(random)));
    } else {
      text.insert(place, 1, static_cast<char>(random.next()));
    }
    text.erase(random.next_index(text.size()), random.next_index(3));
  }
  return text;
}

TEST_CASE("failed GPUs as text") {
  fuzz("fuzz/parse_failed_gpus", 20000, [](RandomStream& random, Tally& tally) {
    const std::string text = random_text(random);
    CAPTURE(text);
    const auto domains = std::max<std::int64_t>(1, nearly<std::int64_t>(random, 9, 30));
    const auto parsed = parse_failed_gpus(text, domains, std::max(1, nearly(random, 5, 30)));
    if (tally.add(parsed)) use(*parsed);
  });
}

// Sizes that are accepted, and would take a test too long.
bool slow(std::int64_t domains, int domain_size) {
  return domains > 4096 && domains <= kMaxGpus / domain_size;
}

DomainPartition random_partition(RandomStream& random) {
  const int tp = draw(random, 1, 6);
  std::vector<int> reduced;
  for (int degree = tp - 1; degree >= 1; degree -= draw(random, 1, 3)) reduced.push_back(degree);
  return {draw(random, tp, 12), tp, reduced};
}

TEST_CASE("replica assignments") {
  fuzz("fuzz/replica_assignment", 20000, [](RandomStream& random, Tally& tally) {
    const DomainPartition partition = random_partition(random);
    const auto domains = nearly(random, draw<std::int64_t>(random, 1, 20));
    if (slow(domains, partition.domain_size())) return;
    auto made = ReplicaAssignment::make(partition, domains, nearly(random, draw<std::int64_t>(random, 1, 5)));
    if (!tally.add(made)) return;
    REQUIRE_FALSE(made->replicas(1).empty());
    for (int step = 0; step < 10; ++step) {
      made->set_healthy(draw<std::int64_t>(random, 0, domains - 1), draw(random, 0, partition.domain_size()));
    }
    std::int64_t replicas = 0;
    for (const ReplicaRun& run : made->replicas(odd<std::int64_t>(random))) replicas += run.replicas;
    REQUIRE(replicas * made->groups_per_replica() <= domains * partition.groups_when_healthy());
    const std::int64_t domain = made->domain_at(domains - 1);
    REQUIRE(made->active_gpus(domain, std::max<std::int64_t>(0, odd<std::int64_t>(random))) <=
            made->healthy(domain));
  });
}

void use(const RankPlacement& placement) {
  const FailedGpus& failed = placement.failed();
  REQUIRE(std::ssize(placement.ranks()) + std::ssize(placement.idle()) + failed.count() ==
          failed.domains() * failed.domain_size());
  REQUIRE(std::ssize(placement.replicas()) <= placement.shape().dp);
  for (const RankGroups& groups :
       {placement.tp_groups(), placement.cp_groups(), placement.dp_groups(), placement.pp_groups()}) {
    std::int64_t ranks = 0;
    for (const std::vector<std::int64_t>& group : groups) ranks += std::ssize(group);
    REQUIRE(ranks == std::ssize(placement.ranks()));
  }
  const RankPlacement run = at_parity(placement);
  REQUIRE(megatron_parity(placement).idled_gpus == std::ssize(placement.ranks()) - std::ssize(run.ranks()));
}

TEST_CASE("rank placements") {
  fuzz("fuzz/rank_placement", 6000, [](RandomStream& random, Tally& tally) {
    const DomainPartition partition = random_partition(random);
    const int size = partition.domain_size();
    const auto domains = draw<std::int64_t>(random, 1, 12);
    // Not FailedGpus::make: the placement has to look at the size of the cluster itself.
    const std::int64_t odd_domains = std::max(domains, nearly(random, domains, 30));
    const int odd_size = std::max(size, nearly(random, size, 30));
    if (slow(odd_domains, odd_size)) return;
    const FailedGpus failed(odd_domains, odd_size, random_failures(random, domains, size, kNever));
    const JobShape shape{.tp = nearly(random, partition.tp_degree(), 20),
                         .cp = nearly(random, draw(random, 1, 2)),
                         .pp = nearly(random, draw(random, 1, 3)),
                         .dp = nearly(random, draw<std::int64_t>(random, 1, 4))};
    const auto made = RankPlacement::make(failed, partition, shape);
    if (tally.add(made)) use(*made);
  });
}

void use(RandomStream& random, const Traffic& traffic, Tally& tally) {
  REQUIRE(merged(traffic).total() == traffic.total());
  REQUIRE(group_all_to_all(traffic).bottleneck == traffic.bottleneck());
  REQUIRE(color_rounds(traffic).size() == traffic.max_degree());
  const auto quantum = std::max<std::int64_t>(1, nearly<std::int64_t>(random, 1));
  const Rounds rounds = weighted_rounds(traffic, {quantum, one_in(random, 2) ? random.next_uniform() : 0});
  REQUIRE(rounds.objective >= rounds.lower_bound);
  REQUIRE(rounds.gap() >= 0);

  const std::int64_t chunk_bytes = std::max(quantum, nearly<std::int64_t>(random, traffic.bottleneck(), 4));
  const auto is_slow = [&](std::int64_t pieces) { return pieces > 10'000 && pieces <= 2 * kMaxPieces; };
  if (!is_slow(traffic.total() / (chunk_bytes / quantum * quantum))) {
    const auto pieces = chunk(traffic, chunk_bytes, quantum);
    if (tally.add(pieces)) {
      std::int64_t bytes = 0;
      for (const Piece& piece : *pieces) bytes += piece.bytes;
      REQUIRE(bytes == traffic.total());
    }
  }

  std::vector<int> nodes;
  for (int rank = 0; rank < traffic.ranks(); ++rank) nodes.push_back(nearly(random, rank / 4, 100));
  if (one_in(random, 20)) nodes.pop_back();
  const auto by_node = node_rounds(traffic, nodes, nearly(random, 2));
  if (!tally.add(by_node)) return;
  REQUIRE(by_node->across.pieces.size() + by_node->within.pieces.size() == traffic.messages().size());
}

TEST_CASE("traffic and its schedules") {
  fuzz("fuzz/traffic", 6000, [](RandomStream& random, Tally& tally) {
    const int ranks = draw(random, 2, 20);
    std::vector<Message> messages;
    for (int left = draw(random, 0, 40); left > 0; --left) {
      const int from = draw(random, 0, ranks - 1);
      const int to = (from + draw(random, 1, ranks - 1)) % ranks;
      const auto bytes = draw<std::int64_t>(random, 1, std::int64_t{1} << draw(random, 0, 55));
      messages.push_back({nearly(random, from, 300), nearly(random, to, 300), nearly(random, bytes, 300)});
    }
    const int odd_ranks = nearly(random, ranks, 20);
    if (odd_ranks > 4096 && odd_ranks <= Traffic::kMaxRanks) return;  // some hundred megabytes
    const auto traffic = Traffic::from_messages(odd_ranks, std::move(messages));
    if (tally.add(traffic)) use(random, *traffic, tally);
  });
}

TEST_CASE("placements") {
  fuzz("fuzz/placement", 20000, [](RandomStream& random, Tally& tally) {
    const auto size = draw<std::int64_t>(random, 0, 200);
    std::vector<OwnedRange> ranges = random_cut(random, size, 10);
    for (const OwnedRange& copy : random_cut(random, size, 10)) {
      ranges.push_back({copy.units, copy.rank + 10});
    }
    damage(random, ranges);
    const auto made = Placement::from_ranges(nearly(random, size, 20), std::move(ranges));
    if (!tally.add(made)) return;
    for (const OwnedRange& range : made->ranges()) {
      REQUIRE(range.units.begin >= 0);
      REQUIRE(range.units.begin < range.units.end);
      REQUIRE(range.units.end <= made->size());
    }
    const std::vector<int> gone = {3, odd<int>(random), 3};
    REQUIRE(made->without(gone).ranges_of(3).empty());
    REQUIRE(made->ranges_of(odd<int>(random)).size() <= made->ranges().size());
  });
}

// Rank lists for copies of a tensor, most of them right.
std::vector<std::vector<int>> random_lists(RandomStream& random, int lists, int degree) {
  std::vector<std::vector<int>> ranks(static_cast<std::size_t>(lists),
                                      std::vector<int>(static_cast<std::size_t>(degree)));
  int next = draw(random, 0, 3);
  for (std::vector<int>& list : ranks) {
    for (int& rank : list) rank = nearly(random, next++, 300);
    if (one_in(random, 40)) list.pop_back();
  }
  return ranks;
}

std::int64_t size_of(std::span<const OwnedRange> ranges) {
  return std::transform_reduce(ranges.begin(), ranges.end(), std::int64_t{0}, std::plus<>(),
                               [](const OwnedRange& range) { return range.units.size(); });
}

std::int64_t size_of(std::span<const WantedRange> ranges) {
  return std::transform_reduce(
      ranges.begin(), ranges.end(), std::int64_t{0}, std::plus<>(),
      [](const WantedRange& range) { return range.units.size() * std::ssize(range.ranks); });
}

void use(RandomStream& random, const Placement& have, const Placement& want, Tally& tally) {
  std::vector<int> domains(one_in(random, 2) ? 0 : draw<std::size_t>(random, 1, 100));
  for (int& domain : domains) domain = one_in(random, 50) ? odd<int>(random) : draw(random, 0, 4);
  const auto plan =
      MovePlan::make(have, want, {.checkpoint_available = one_in(random, 2), .domain_of = domains});
  if (!tally.add(plan)) return;
  const std::int64_t moved = plan->within_domains.total + plan->across_domains.total;
  REQUIRE(size_of(plan->kept) + moved + size_of(plan->checkpoint_reads) + size_of(plan->lost) ==
          size_of(want.ranges()));
  REQUIRE(plan->within_domains.bottleneck() == plan->within_domains.lower_bound);
  REQUIRE(plan->across_domains.bottleneck() == plan->across_domains.lower_bound);
  REQUIRE(describe_lost(plan->lost, "units").empty() == plan->lost.empty());
}

TEST_CASE("copies of tensors, and moves from some to others") {
  fuzz("fuzz/moves", 10000, [](RandomStream& random, Tally& tally) {
    const auto units = nearly(random, draw<std::int64_t>(random, 0, 100), 20);
    const auto elements = nearly<std::int64_t>(random, 1, 20);
    std::vector<Result<Placement>> placements;
    const auto make_layout = [&] {
      auto layout = ShardLayout::make(nearly(random, units, 100), draw(random, 1, 12));
      return layout ? *layout : ShardLayout(std::max<std::int64_t>(0, units), 3);
    };
    const ShardLayout layout = make_layout();
    const auto lists = random_lists(random, draw(random, 0, 4), layout.degree());
    placements.push_back(replicated(layout, lists, elements));
    placements.push_back(distributed_optimizer(layout, lists, elements));
    std::vector<ReplicaShards> replicas;
    for (int left = draw(random, 0, 4); left > 0; --left) {
      const ShardLayout own = make_layout();
      replicas.push_back({own, random_lists(random, 1, own.degree()).front()});
    }
    placements.push_back(replicated(replicas, elements));
    std::vector<Placement> good;
    for (const Result<Placement>& placement : placements) {
      if (tally.add(placement)) good.push_back(*placement);
    }
    if (good.empty()) return;
    const std::vector<int> gone = {draw(random, 0, 12), draw(random, 0, 12)};
    use(random, pick(random, good).without(gone), pick(random, good), tally);
  });
}

BackwardPass random_pass(RandomStream& random) {
  const int full = draw(random, 1, 8);
  const int compute = draw(random, 1, full);
  const int sync = draw(random, 1, compute);
  BackwardPass pass;
  for (int left = draw(random, 0, 3); left > 0; --left) {
    const auto plan =
        SyncPlan::make(nearly(random, draw<std::int64_t>(random, 0, 60), 40), nearly(random, full, 60),
                       nearly(random, compute, 60), nearly(random, sync, 60));
    if (plan && plan->compute().degree() < 100) pass.plans.push_back(*plan);
  }
  pass.pieces.resize(draw<std::size_t>(random, 1, 3));
  const auto tensors = draw<std::size_t>(random, 0, 6);
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    const auto bytes = [&random] { return nearly(random, draw<std::int64_t>(random, 1, 8), 60); };
    StepTensor added{"t", {}, bytes(), bytes()};
    if (one_in(random, 2)) added.plan = random.next_index(pass.plans.size() + 1);
    pass.tensors.push_back(added);
    if (one_in(random, 40)) continue;
    auto& ready = pass.pieces[random.next_index(pass.pieces.size())].ready;
    ready.push_back(one_in(random, 40) ? random.next() >> random.next_index(64) : tensor);
  }
  return pass;
}

TEST_CASE("step schedules") {
  fuzz("fuzz/step_schedule", 10000, [](RandomStream& random, Tally& tally) {
    ScheduleOptions options = one_in(random, 2) ? ScheduleOptions{} : ScheduleOptions::upstream();
    if (one_in(random, 2)) options.reshard_of = ReshardOf::kBucket;
    if (one_in(random, 2)) options.reduction = Reduction::kDistributedOptimizer;
    options.bucket_bytes = nearly(random, draw<std::int64_t>(random, 0, 100), 4);
    options.chunk_bytes = nearly(random, draw<std::int64_t>(random, 0, 50), 4);
    options.overlap = one_in(random, 2);
    const auto made = StepSchedule::make(random_pass(random), options);
    if (!tally.add(made)) return;
    for (std::size_t i = 0; i < made->ops().size(); ++i) {
      const StepOp& op = made->ops()[i];
      REQUIRE(op.max_sent >= 0);
      REQUIRE(op.max_received >= 0);
      REQUIRE(op.total_bytes >= op.max_sent);
      for (const std::size_t before : op.waits_for) REQUIRE(before < i);
      if (i >= 50) continue;
      for (const TensorTransfer& move : made->transfers(op)) REQUIRE(move.transfer.units.size() > 0);
    }
  });
}

}  // namespace
}  // namespace ntpsim::plan
