// Speed and quality of the transfer schedules.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "ntpsim/core/random.h"
#include "ntpsim/plan/transfer_schedule.h"

namespace {

using ntpsim::RandomStream;
namespace plan = ntpsim::plan;

constexpr std::int64_t kMegabyte = 1'000'000;
constexpr int kSide = 4096;
constexpr int kMessages = 200'000;

plan::Traffic make(int ranks, std::vector<plan::Message> messages) {
  return *plan::Traffic::from_messages(ranks, std::move(messages));
}

std::int64_t random_bytes(RandomStream& random) {
  return 1 + static_cast<std::int64_t>(random.next_index(kMegabyte));
}

// Senders 0 to 4095, receivers 4096 to 8191.
plan::Traffic random_traffic() {
  RandomStream random(1, 0, "bench/schedule");
  std::vector<plan::Message> messages;
  for (int i = 0; i < kMessages; ++i) {
    const auto from = static_cast<int>(random.next_index(kSide));
    const auto to = kSide + static_cast<int>(random.next_index(kSide));
    messages.push_back({from, to, random_bytes(random)});
  }
  return make(2 * kSide, std::move(messages));
}

// The same size, but every rank has equally many messages: the rounds must all be full.
plan::Traffic regular_traffic() {
  RandomStream random(2, 0, "bench/schedule");
  std::vector<plan::Message> messages;
  std::vector<int> to(kSide);
  std::iota(to.begin(), to.end(), kSide);
  for (int i = 0; i < kMessages / kSide; ++i) {
    for (std::size_t j = to.size(); j > 1; --j) std::swap(to[j - 1], to[random.next_index(j)]);
    for (int from = 0; from < kSide; ++from) {
      messages.push_back({from, to[static_cast<std::size_t>(from)], random_bytes(random)});
    }
  }
  return make(2 * kSide, std::move(messages));
}

plan::Traffic all_to_all(int ranks, bool same_size) {
  RandomStream random(3, 0, "bench/schedule");
  std::vector<plan::Message> messages;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to) messages.push_back({from, to, same_size ? kMegabyte : random_bytes(random)});
    }
  }
  return make(ranks, std::move(messages));
}

void report(benchmark::State& state, const plan::Traffic& traffic, const plan::Rounds& rounds) {
  state.counters["messages"] = static_cast<double>(traffic.messages().size());
  state.counters["max_degree"] = traffic.max_degree();
  state.counters["rounds"] = rounds.size();
  state.counters["pieces"] = static_cast<double>(rounds.pieces.size());
  state.counters["gap_%"] = 100 * rounds.gap();
}

void color(benchmark::State& state, const plan::Traffic& traffic) {
  plan::Rounds rounds;
  for (auto _ : state) {
    rounds = plan::color_rounds(traffic);
    benchmark::DoNotOptimize(rounds);
  }
  report(state, traffic, rounds);
}
BENCHMARK_CAPTURE(color, random, random_traffic())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(color, regular, regular_traffic())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(color, all_to_all_448, all_to_all(448, true))->Unit(benchmark::kMillisecond);

// The argument is the allowed gap in thousandths.
void weighted(benchmark::State& state, const plan::Traffic& traffic) {
  const plan::WeightedOptions options = {.max_gap = static_cast<double>(state.range(0)) / 1000};
  plan::Rounds rounds;
  for (auto _ : state) {
    rounds = plan::weighted_rounds(traffic, options);
    benchmark::DoNotOptimize(rounds);
  }
  report(state, traffic, rounds);
}
BENCHMARK_CAPTURE(weighted, all_to_all_72_same_size, all_to_all(72, true))
    ->Arg(0)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(weighted, all_to_all_72, all_to_all(72, false))
    ->Arg(0)
    ->Arg(10)
    ->Arg(50)
    ->Arg(200)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(weighted, random, random_traffic())->Arg(10)->Arg(50)->Unit(benchmark::kMillisecond);

// 448 ranks in nodes of 8; the argument is the NICs of a node.
void nodes(benchmark::State& state) {
  const plan::Traffic traffic = all_to_all(448, false);
  std::vector<int> node_of;
  for (int rank = 0; rank < traffic.ranks(); ++rank) node_of.push_back(rank / 8);
  plan::NodeRounds rounds;
  for (auto _ : state) {
    rounds = *plan::node_rounds(traffic, node_of, static_cast<int>(state.range(0)));
    benchmark::DoNotOptimize(rounds);
  }
  report(state, traffic, rounds.across);
}
BENCHMARK(nodes)->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

void chunk(benchmark::State& state) {
  const plan::Traffic traffic = random_traffic();
  std::size_t chunks = 0;
  for (auto _ : state) {
    const auto pieces = plan::chunk(traffic, 65'536, 16);
    chunks = pieces->size();
    benchmark::DoNotOptimize(pieces);
  }
  state.counters["messages"] = static_cast<double>(traffic.messages().size());
  state.counters["chunks"] = static_cast<double>(chunks);
}
BENCHMARK(chunk)->Unit(benchmark::kMillisecond);

void grouped(benchmark::State& state) {
  const plan::Traffic traffic = random_traffic();
  for (auto _ : state) benchmark::DoNotOptimize(plan::group_all_to_all(traffic));
  state.counters["messages"] = static_cast<double>(traffic.messages().size());
}
BENCHMARK(grouped)->Unit(benchmark::kMillisecond);

}  // namespace
