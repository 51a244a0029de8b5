#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"
#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/policy_table.h"

#include "draw.h"
#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::RandomStream;
using ntpsim::plan::ReplicaAssignment;
using ntpsim::sim::ClusterSpec;
using ntpsim::sim::JobConfiguration;
using ntpsim::sim::JobSpec;
using ntpsim::sim::PolicySpec;

struct Instance {
  ClusterSpec cluster;
  JobSpec job;
  PolicySpec policy;
};

// A job that some catalog system holds, whatever the memory: rates are what is compared.
Instance random_instance(RandomStream& random) {
  static const std::vector<std::string> systems = {"b200-nvl32", "dgx-h100", "gb200-nvl72"};
  static const std::vector<std::string> models = {"llama3-8b", "llama3-70b", "ntp-paper-480b"};
  Instance instance;
  instance.cluster.system =
      *ntpsim::models::find_system(systems[static_cast<std::size_t>(draw(random, 0, 2))]);
  const int domain_size = instance.cluster.system.domain_size;
  const std::int64_t domains = draw(random, 2, 20);
  instance.cluster.gpus = domains * domain_size;
  instance.job = paper_job();
  instance.job.boost_limit = 1.25;
  instance.job.model = *ntpsim::models::find_model(models[static_cast<std::size_t>(draw(random, 0, 2))]);
  auto& training = instance.job.training;
  const std::int64_t tp = std::min<std::int64_t>(std::int64_t{1} << draw(random, 1, 5), domain_size);
  training.tensor_model_parallel_size = tp;
  const std::int64_t groups = domains * (domain_size / tp);
  training.pipeline_model_parallel_size = std::min<std::int64_t>(groups, draw(random, 1, 4));
  training.virtual_pipeline_model_parallel_size = 1;
  training.data_parallel_size = groups / training.pipeline_model_parallel_size;
  training.global_batch_size = training.data_parallel_size * draw(random, 1, 9);
  training.seq_length = 4096;
  for (std::int64_t degree = tp - 1; degree >= std::max<std::int64_t>(1, tp * 3 / 4); --degree) {
    instance.policy.reduced_degrees.push_back(static_cast<int>(degree));
  }
  return instance;
}

JobConfiguration configure(const Instance& instance, const char* name, const std::vector<int>& healthy) {
  const auto policy = ntpsim::sim::find_policy(name)->make(instance.cluster, instance.job, instance.policy);
  ReplicaAssignment assignment(policy->cuts(), instance.cluster.domains(), policy->groups_per_replica());
  for (std::size_t domain = 0; domain < healthy.size(); ++domain) {
    assignment.set_healthy(static_cast<std::int64_t>(domain), healthy[domain]);
  }
  return policy->configure(assignment);
}

TEST_CASE("ntp is never slower than dp_drop, and shares are shares") {
  RandomStream random(5, 0, "test/policies");
  int better = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Instance instance = random_instance(random);
    std::vector<int> healthy;
    const std::int64_t most_failed = draw(random, 1, 6);
    for (std::int64_t domain = 0; domain < instance.cluster.domains(); ++domain) {
      const std::int64_t failed = draw(random, 0, most_failed);
      healthy.push_back(
          static_cast<int>(std::max<std::int64_t>(0, instance.cluster.system.domain_size - failed)));
    }
    const JobConfiguration drop = configure(instance, "dp_drop", healthy);
    const JobConfiguration ntp = configure(instance, "ntp", healthy);
    const JobConfiguration boosted = configure(instance, "ntp_pw", healthy);
    const double drop_rate = drop.running ? drop.goodput() : 0;
    const double ntp_rate = ntp.running ? ntp.goodput() : 0;
    REQUIRE(ntp_rate >= drop_rate - 1e-9);
    REQUIRE((boosted.running ? boosted.goodput() : 0) >= drop_rate - 1e-9);
    better += ntp_rate > drop_rate + 1e-9 ? 1 : 0;
    for (const JobConfiguration& job : {drop, ntp, boosted}) {
      if (!job.running) continue;
      for (const double share : {job.degraded_tp, job.dropped_replicas, job.straggler_wait, job.goodput()}) {
        REQUIRE(share >= -1e-12);
        REQUIRE(share <= 1 + 1e-12);
      }
      REQUIRE(job.sequences <= instance.job.training.global_batch_size);
      REQUIRE(job.extra_power_w >= 0);
    }
  }
  CHECK(better > 50);
}

TEST_CASE("of a policy's cuts the one that trains fastest is used") {
  RandomStream random(7, 0, "test/policies");
  int later_cuts = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Instance instance = random_instance(random);
    const auto policy =
        ntpsim::sim::find_policy("ntp")->make(instance.cluster, instance.job, instance.policy);
    const std::int64_t domains = instance.cluster.domains();
    std::vector<int> healthy;
    for (std::int64_t domain = 0; domain < domains; ++domain) {
      healthy.push_back(instance.cluster.system.domain_size - static_cast<int>(draw(random, 0, 2)));
    }
    const auto rate_with = [&](std::span<const ntpsim::plan::DomainPartition> cuts) {
      ReplicaAssignment assignment(cuts, domains, policy->groups_per_replica());
      for (std::size_t domain = 0; domain < healthy.size(); ++domain) {
        assignment.set_healthy(static_cast<std::int64_t>(domain), healthy[domain]);
      }
      return policy->configure(assignment);
    };
    const JobConfiguration job = rate_with(policy->cuts());
    later_cuts += job.cut > 0 ? 1 : 0;
    double fastest = 0;
    for (const auto& cut : policy->cuts()) {
      const std::vector<ntpsim::plan::DomainPartition> no_choice(policy->cuts().size(), cut);
      const JobConfiguration with_cut = rate_with(no_choice);
      if (with_cut.running) fastest = std::max(fastest, with_cut.goodput());
    }
    REQUIRE((job.running ? job.goodput() : 0) == fastest);
  }
  CHECK(later_cuts > 10);
}

// Which of several groups of a domain lose GPUs is chosen for all domains alike, so another failure can
// complete a replica that a choice domain by domain would have found before it: at most one.
TEST_CASE("losing one more GPU never helps, and spare domains never hurt") {
  RandomStream random(6, 0, "test/policies");
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const Instance instance = random_instance(random);
    for (const char* name : {"dp_drop", "ntp"}) {
      CAPTURE(name);
      const auto policy =
          ntpsim::sim::find_policy(name)->make(instance.cluster, instance.job, instance.policy);
      const std::int64_t domains = instance.cluster.domains();
      ReplicaAssignment bare(policy->cuts(), domains, policy->groups_per_replica());
      ReplicaAssignment spared(policy->cuts(), domains + 2, policy->groups_per_replica());
      const double most_gained = policy->cuts().size() == 1
                                     ? 1e-9
                                     : 1 / static_cast<double>(instance.job.training.data_parallel_size);
      double last = 1;
      for (int failure = 0; failure < 30; ++failure) {
        const std::int64_t domain = draw(random, 0, domains - 1);
        const int healthy = std::max(0, bare.healthy(domain) - 1);
        bare.set_healthy(domain, healthy);
        spared.set_healthy(domain, healthy);
        const JobConfiguration job = policy->configure(bare);
        const JobConfiguration with_spares = policy->configure(spared);
        const double rate = job.running ? job.goodput() : 0;
        REQUIRE(rate <= last + most_gained);
        REQUIRE((with_spares.running ? with_spares.goodput() : 0) >= rate - 1e-9);
        last = rate;
      }
    }
  }
}

}  // namespace
