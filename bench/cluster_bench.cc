// Speed and memory of the cluster simulator: failure and repair events a second, with the replica assignment
// and the policy's decision for each of them.

#include <array>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <benchmark/benchmark.h>

#include "ntpsim/models/hardware.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/sim/cluster_simulation.h"
#include "ntpsim/sim/event_queue.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::Time;
namespace models = ntpsim::models;
namespace sim = ntpsim::sim;

constexpr double kDay = 86400;
constexpr double kYear = 365 * kDay;

// The cluster and job of the NTP paper at another size: domains of 32 GPUs without in-domain spares, so that
// every failure changes the assignment, at the failure rate of the Llama 3 run and five days a repair.
struct Setup {
  explicit Setup(std::int64_t domains) {
    cluster.system = *models::find_system("b200-nvl32");
    cluster.gpus = domains * cluster.system.domain_size;
    job.model = *models::find_model("ntp-paper-480b");
    job.training.tensor_model_parallel_size = 32;
    job.training.pipeline_model_parallel_size = 8;
    job.training.virtual_pipeline_model_parallel_size = 2;
    job.training.data_parallel_size = domains / 8;
    job.training.global_batch_size = domains;
    job.training.seq_length = 16384;
    job.checkpoint = {Time::from_seconds(1800), Time::from_seconds(5)};
    job.recovery.detection = Time::from_seconds(30);
    job.recovery.restart = Time::from_seconds(300);
    job.recovery.reconfigure = Time::from_seconds(20);
    job.boost_limit = 1.3;
    const double gpu_mtbf_s = 54 * kDay * 16384 / 419;
    failures.classes.push_back(
        {.name = "gpu",
         .lifetime = {models::Distribution::Family::kExponential, gpu_mtbf_s},
         .repair_time = models::Distribution(models::Distribution::Family::kExponential, 5 * kDay)});
  }

  sim::ClusterSpec cluster;
  sim::JobSpec job;
  sim::FailureSpec failures;
};

sim::PolicySpec policy(const std::string& name) {
  sim::PolicySpec spec{.name = name, .label = name, .spare_domains = 0, .reduced_degrees = {}};
  if (name.starts_with("ntp")) {
    spec.reduced_degrees = {31, 30, 29, 28};
  }
  return spec;
}

void run(benchmark::State& state, const Setup& setup, const std::vector<sim::PolicySpec>& policies,
         double horizon_s) {
  const sim::ClusterSimulation simulation(setup.cluster, setup.job, setup.failures, policies, {});
  std::int64_t events = 0;
  std::uint64_t replication = 0;
  for (auto _ : state) {
    const auto result = simulation.run(Time::from_seconds(horizon_s), 1, replication++);
    events += result.events;
    benchmark::DoNotOptimize(result);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["GPUs"] = static_cast<double>(setup.cluster.gpus);
  state.counters["policies"] = static_cast<double>(policies.size());
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
}

constexpr std::int64_t kMillionGpuDomains = 32'768;

void million_gpus_one_policy(benchmark::State& state, const char* name) {
  run(state, Setup(kMillionGpuDomains), {policy(name)}, kYear);
}
BENCHMARK_CAPTURE(million_gpus_one_policy, dp_drop, "dp_drop")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(million_gpus_one_policy, ntp, "ntp")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(million_gpus_one_policy, ntp_pw, "ntp_pw")->Unit(benchmark::kMillisecond);

void million_gpus_four_policies(benchmark::State& state) {
  run(state, Setup(kMillionGpuDomains),
      {policy("dp_drop"), policy("checkpoint_restart"), policy("ntp"), policy("ntp_pw")}, kYear);
}
BENCHMARK(million_gpus_four_policies)->Unit(benchmark::kMillisecond);

// Units with clocks of their own: one uniform number each at the start, and queued only if they fail in time.
void million_gpus_weibull(benchmark::State& state) {
  Setup setup(kMillionGpuDomains);
  models::FailureClass& failure = setup.failures.classes[0];
  failure.lifetime = {models::Distribution::Family::kWeibull, failure.lifetime.mean_s(), 0.8};
  run(state, setup, {policy("ntp")}, kYear);
}
BENCHMARK(million_gpus_weibull)->Unit(benchmark::kMillisecond);

// A cluster of a 32nd of the size has a 32nd of the failures: the cost must follow them.
void events_at_cluster_size(benchmark::State& state) {
  run(state, Setup(state.range(0)), {policy("ntp")}, kYear);
}
BENCHMARK(events_at_cluster_size)->Arg(1024)->Arg(8192)->Arg(32768)->Unit(benchmark::kMillisecond);

void event_queue(benchmark::State& state) {
  const auto pending = static_cast<std::size_t>(state.range(0));
  RandomStream random(1, 0, "bench/event_queue");
  sim::EventQueue<std::uint64_t> queue;
  const auto later = [&random] {
    return Time::from_ns(static_cast<std::int64_t>(random.next_index(1'000'000)));
  };
  for (std::size_t i = 0; i < pending; ++i) queue.schedule(later(), 0, i);
  for (auto _ : state) {
    const auto event = queue.take();
    queue.schedule(event.at + later(), 0, event.payload);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(event_queue)->Arg(1000)->Arg(100000);

void replica_assignment(benchmark::State& state) {
  const std::vector<int> degrees = {31, 30, 29, 28};
  ntpsim::plan::ReplicaAssignment assignment({32, 32, degrees}, kMillionGpuDomains, 8);
  RandomStream random(1, 0, "bench/replica_assignment");
  for (auto _ : state) {
    const auto domain = static_cast<std::int64_t>(random.next_index(kMillionGpuDomains));
    const int healthy = assignment.healthy(domain);
    assignment.set_healthy(domain, healthy < 28 ? 32 : healthy - 1);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(replica_assignment);

}  // namespace
