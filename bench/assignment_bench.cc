// Speed of replica assignment and rank placement on a million GPUs: 14,000 domains of 72.

#include <vector>

#include <benchmark/benchmark.h>

#include "ntpsim/core/random.h"
#include "ntpsim/plan/failed_gpus.h"
#include "ntpsim/plan/rank_placement.h"
#include "ntpsim/plan/replica_assignment.h"

namespace {

using ntpsim::RandomStream;
namespace plan = ntpsim::plan;

constexpr std::int64_t kDomains = 14'000;
constexpr int kDomainSize = 72;

plan::DomainPartition partition(int tp) {
  std::vector<int> reduced;
  for (int degree = tp - 1; degree >= tp - tp / 4; --degree) reduced.push_back(degree);
  return {kDomainSize, tp, reduced};
}

// Each GPU has failed with this probability.
plan::FailedGpus random_failures(double fraction) {
  RandomStream random(1, 0, "bench/assignment");
  std::vector<plan::FailedDomain> failed;
  for (std::int64_t domain = 0; domain < kDomains; ++domain) {
    plan::FailedDomain entry{domain, {}};
    for (int slot = 0; slot < kDomainSize; ++slot) {
      if (random.next_uniform() < fraction) entry.slots.push_back(slot);
    }
    failed.push_back(std::move(entry));
  }
  return {kDomains, kDomainSize, std::move(failed)};
}

// All domains, each with its failures, from nothing. The argument is failed GPUs in 1000.
void full_assignment(benchmark::State& state) {
  const plan::FailedGpus failed = random_failures(static_cast<double>(state.range(0)) / 1000);
  std::vector<int> healthy;
  for (std::int64_t domain = 0; domain < kDomains; ++domain) healthy.push_back(failed.healthy(domain));
  const plan::DomainPartition cut = partition(64);
  for (auto _ : state) {
    plan::ReplicaAssignment assignment(cut, kDomains, 8);
    for (std::int64_t domain = 0; domain < kDomains; ++domain) {
      assignment.set_healthy(domain, healthy[static_cast<std::size_t>(domain)]);
    }
    benchmark::DoNotOptimize(assignment.replicas(kDomains));
  }
}
BENCHMARK(full_assignment)->Arg(2)->Arg(20)->Arg(500)->Unit(benchmark::kMillisecond);

// One failure or repair, and the replicas that result.
void incremental_assignment(benchmark::State& state) {
  plan::ReplicaAssignment assignment(partition(64), kDomains, 8);
  RandomStream random(2, 0, "bench/assignment");
  for (auto _ : state) {
    const auto domain = static_cast<std::int64_t>(random.next_index(kDomains));
    const int healthy = assignment.healthy(domain);
    assignment.set_healthy(domain, healthy < 60 ? kDomainSize : healthy - 1);
    benchmark::DoNotOptimize(assignment.replicas(kDomains));
  }
}
BENCHMARK(incremental_assignment)->Unit(benchmark::kNanosecond);

constexpr double kFailed = 0.005;

plan::JobShape job(int tp) {
  return {.tp = tp, .cp = 2, .pp = 8, .dp = 1'000'000};
}

void rank_placement(benchmark::State& state) {
  const int tp = static_cast<int>(state.range(0));
  const plan::FailedGpus failed = random_failures(kFailed);
  const plan::DomainPartition cut = partition(tp);
  for (auto _ : state) {
    const plan::RankPlacement placement(failed, cut, job(tp));
    benchmark::DoNotOptimize(placement.ranks().data());
    state.counters["ranks"] = static_cast<double>(placement.ranks().size());
  }
}
BENCHMARK(rank_placement)->Arg(64)->Arg(8)->Arg(1)->Unit(benchmark::kMillisecond);

void process_groups(benchmark::State& state) {
  const plan::RankPlacement placement(random_failures(kFailed), partition(8), job(8));
  for (auto _ : state) {
    benchmark::DoNotOptimize(placement.tp_groups());
    benchmark::DoNotOptimize(placement.cp_groups());
    benchmark::DoNotOptimize(placement.dp_groups());
    benchmark::DoNotOptimize(placement.pp_groups());
  }
}
BENCHMARK(process_groups)->Unit(benchmark::kMillisecond);

void megatron_view(benchmark::State& state) {
  const plan::RankPlacement placement(random_failures(kFailed), partition(8), job(8));
  for (auto _ : state) benchmark::DoNotOptimize(plan::megatron_parity(placement));
}
BENCHMARK(megatron_view)->Unit(benchmark::kMillisecond);

}  // namespace
