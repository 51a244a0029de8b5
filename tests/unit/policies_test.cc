#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/policy_table.h"

#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::plan::ReplicaAssignment;
using ntpsim::sim::ClusterSpec;
using ntpsim::sim::DegreeRate;
using ntpsim::sim::JobConfiguration;
using ntpsim::sim::JobSpec;
using ntpsim::sim::Minibatch;
using ntpsim::sim::Policy;
using ntpsim::sim::PolicySpec;

struct PaperRun {
  explicit PaperRun(const std::string& name, std::int64_t spare_domains = 0,
                    Minibatch minibatch = Minibatch::kElastic)
      : cluster(paper_cluster()),
        job(with_minibatch(minibatch)),
        spec(ntpsim::testing::policy(name, spare_domains)),
        policy(ntpsim::sim::find_policy(name)->make(cluster, job, spec)),
        assignment(policy->cuts(), cluster.domains() + spare_domains, policy->groups_per_replica()) {}

  static JobSpec with_minibatch(Minibatch minibatch) {
    JobSpec job = paper_job();
    job.minibatch = minibatch;
    return job;
  }
  void hurt(int domains, int healthy) {
    for (int i = 0; i < domains; ++i) assignment.set_healthy(next_domain++, healthy);
  }
  [[nodiscard]] JobConfiguration configure() const { return policy->configure(assignment); }

  ClusterSpec cluster;
  JobSpec job;
  PolicySpec spec;
  std::unique_ptr<Policy> policy;
  ReplicaAssignment assignment;
  std::int64_t next_domain = 0;
};

TEST_CASE("every policy of the table trains the whole batch on a healthy cluster") {
  for (const auto& info : ntpsim::sim::policy_table()) {
    CAPTURE(std::string(info.name));
    const PaperRun run{std::string(info.name)};
    const JobConfiguration job = run.configure();
    CHECK(job.running);
    CHECK(job.replicas == 128);
    CHECK(job.active_groups == 1024);
    CHECK(job.sequences == 1024);
    CHECK(job.goodput() == doctest::Approx(1));
    CHECK(job.boosted_groups == 0);
    CHECK(job.step_time.seconds() == doctest::Approx(run.policy->ideal_step_s()));
  }
}

TEST_CASE("dp_drop loses a replica for every eight hurt domains or part of them") {
  PaperRun run("dp_drop");
  run.hurt(1, 31);
  CHECK(run.configure().replicas == 127);
  CHECK(run.configure().goodput() == doctest::Approx(127.0 / 128));
  CHECK(run.configure().dropped_replicas == doctest::Approx(1.0 / 128));
  run.hurt(7, 30);
  CHECK(run.configure().replicas == 127);
  run.hurt(1, 0);
  CHECK(run.configure().replicas == 126);
}

TEST_CASE("ntp keeps hurt replicas at the largest batch that does not hold the others back") {
  PaperRun run("ntp");
  const auto rates = run.policy->rates();
  REQUIRE(rates.size() == 5);
  CHECK(rates[0].microbatches == 8);
  CHECK(rates[2].degree == 30);
  // The paper's table 1 has 7; seven microbatches leave a slot of each turn of an eight-stage pipeline idle.
  CHECK(rates[2].microbatches == 6);
  CHECK(rates[4].degree == 28);
  CHECK(rates[4].microbatches == 6);
  run.hurt(5, 30);
  const JobConfiguration job = run.configure();
  CHECK(job.replicas == 128);
  CHECK(job.sequences == 1022);
  CHECK(job.degraded_tp == doctest::Approx(1.0 / 1024).epsilon(0.01));
  CHECK(job.dropped_replicas == 0);
  // The larger gradients of the core ranks cost the healthy replicas well under 1%.
  CHECK(job.straggler_wait < 0.01);
  CHECK(job.goodput() > 0.989);
}

TEST_CASE("a domain below the smallest degree is lost to ntp too") {
  PaperRun run("ntp");
  run.hurt(1, 27);
  const JobConfiguration job = run.configure();
  CHECK(job.replicas == 127);
  CHECK(job.dropped_replicas == doctest::Approx(1.0 / 128));
  CHECK(job.degraded_tp == 0);
}

TEST_CASE("ntp_pw keeps the full batch with power, up to the limit") {
  PaperRun run("ntp_pw");
  const auto rates = run.policy->rates();
  CHECK(rates[1].microbatches == 8);
  CHECK(rates[2].microbatches == 8);
  for (const DegreeRate& rate : rates) {
    CHECK(rate.power_fraction <= 1.3 + 1e-12);
    CHECK(rate.power_fraction >= 1);
  }
  CHECK(rates[1].power_fraction < rates[2].power_fraction);
  run.hurt(3, 30);
  const JobConfiguration job = run.configure();
  CHECK(job.sequences == 1024);
  CHECK(job.degraded_tp == 0);
  CHECK(job.boosted_groups == 3);
  CHECK(job.extra_power_w == doctest::Approx(3 * 30 * (rates[2].power_fraction - 1) * 1000));
  CHECK(job.goodput() > 0.99);
}

TEST_CASE("spare domains replace hurt ones before anything else happens") {
  for (const char* name : {"dp_drop", "checkpoint_restart", "hot_spares", "ntp", "ntp_pw"}) {
    CAPTURE(name);
    PaperRun run(name, 16);
    run.hurt(16, 31);
    CHECK(run.configure().goodput() == doctest::Approx(1));
    CHECK(run.configure().active_groups == 1024);
  }
}

TEST_CASE("with a fixed minibatch spares make up for reduced replicas, and too few of them mean a pause") {
  // 120 hurt domains of 1040: 115 whole replicas train 8 sequences each, and 15 hurt ones 7 each.
  PaperRun enough("ntp", 16, Minibatch::kFixed);
  enough.hurt(120, 31);
  CHECK(enough.configure().running);
  CHECK(enough.configure().sequences == 1024);
  CHECK(enough.configure().replicas == 130);
  PaperRun short_of_spares("ntp", 0, Minibatch::kFixed);
  short_of_spares.hurt(1, 31);
  CHECK_FALSE(short_of_spares.configure().running);
  PaperRun boosted("ntp_pw", 0, Minibatch::kFixed);
  boosted.hurt(130, 31);
  CHECK(boosted.configure().running);
  PaperRun dropped("dp_drop", 90, Minibatch::kFixed);
  dropped.hurt(90, 31);
  CHECK(dropped.configure().running);
  dropped.hurt(1, 31);
  CHECK_FALSE(dropped.configure().running);
}

TEST_CASE("hot spares shrink the job when none is left, or pause it with a fixed minibatch") {
  PaperRun elastic("hot_spares", 2);
  elastic.hurt(2, 0);
  CHECK(elastic.configure().goodput() == doctest::Approx(1));
  elastic.hurt(1, 31);
  CHECK(elastic.configure().replicas == 127);
  PaperRun fixed("hot_spares", 2, Minibatch::kFixed);
  fixed.hurt(2, 0);
  CHECK(fixed.configure().running);
  fixed.hurt(1, 31);
  CHECK_FALSE(fixed.configure().running);
}

TEST_CASE("reduced replicas that would slow all others down more than they add are left out") {
  // Eight-way TP of 8 KV groups on 400 Gbit/s: at degree 7 one rank has two groups, and the sync is an eighth
  // longer.
  ClusterSpec cluster;
  cluster.system = *ntpsim::models::find_system("dgx-h100");
  cluster.gpus = 16384;
  JobSpec job = paper_job();
  job.model = *ntpsim::models::find_model("llama3.1-405b");
  job.training.tensor_model_parallel_size = 8;
  job.training.pipeline_model_parallel_size = 16;
  job.training.virtual_pipeline_model_parallel_size = 8;
  job.training.global_batch_size = 2048;
  job.training.seq_length = 8192;
  PolicySpec reduced = ntpsim::testing::policy("ntp");
  reduced.reduced_degrees = {7};
  const auto drop = ntpsim::sim::find_policy("dp_drop")->make(cluster, job, reduced);
  const auto ntp = ntpsim::sim::find_policy("ntp")->make(cluster, job, reduced);
  ReplicaAssignment for_drop(drop->cuts(), cluster.domains(), drop->groups_per_replica());
  ReplicaAssignment for_ntp(ntp->cuts(), cluster.domains(), ntp->groups_per_replica());
  for (std::int64_t domain = 0; domain < 200; ++domain) {
    for_drop.set_healthy(domain, 7);
    for_ntp.set_healthy(domain, 7);
    const JobConfiguration dropped = drop->configure(for_drop);
    const JobConfiguration nonuniform = ntp->configure(for_ntp);
    CHECK(nonuniform.goodput() >= dropped.goodput() - 1e-12);
    CHECK(nonuniform.goodput() + nonuniform.degraded_tp + nonuniform.dropped_replicas +
              nonuniform.straggler_wait ==
          doctest::Approx(1));
  }
}

TEST_CASE("expert groups that span replicas come and go together") {
  ClusterSpec cluster = paper_cluster();
  cluster.system = *ntpsim::models::find_system("gb200-nvl72");
  cluster.gpus = 64LL * 72;
  JobSpec job = paper_job();
  job.model = *ntpsim::models::find_model("deepseek-v3");
  job.training.tensor_model_parallel_size = 1;
  job.training.pipeline_model_parallel_size = 4;
  job.training.virtual_pipeline_model_parallel_size = 1;
  job.training.expert_model_parallel_size = 64;
  job.training.data_parallel_size = 1152;
  job.training.global_batch_size = 1152LL * 4;
  job.training.seq_length = 4096;
  const auto drop = ntpsim::sim::find_policy("dp_drop")->make(cluster, job, policy("dp_drop"));
  CHECK(drop->groups_per_replica() == 256);
  ReplicaAssignment assignment(drop->cuts(), cluster.domains(), drop->groups_per_replica());
  CHECK(drop->configure(assignment).replicas == 18);
  assignment.set_healthy(0, 71);
  CHECK(drop->configure(assignment).replicas == 17);
  CHECK(drop->configure(assignment).goodput() == doctest::Approx(17.0 / 18));
}

}  // namespace
