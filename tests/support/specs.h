#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ntpsim/models/hardware.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/sim/specs.h"

// Clusters and jobs that tests start from.
namespace ntpsim::testing {

inline constexpr double kHour = 3600;
inline constexpr double kDay = 24 * kHour;

// The set-up of the NTP paper (arXiv 2504.06095): 32,768 GPUs in domains of 32, TP 32, PP 8, DP 128.
inline sim::ClusterSpec paper_cluster() {
  sim::ClusterSpec cluster;
  cluster.system = *models::find_system("b200-nvl32");
  cluster.gpus = 32768;
  return cluster;
}

inline sim::JobSpec paper_job() {
  sim::JobSpec job;
  job.model = *models::find_model("ntp-paper-480b");
  job.training.tensor_model_parallel_size = 32;
  job.training.pipeline_model_parallel_size = 8;
  job.training.virtual_pipeline_model_parallel_size = 2;
  job.training.data_parallel_size = 128;
  job.training.global_batch_size = 1024;
  job.training.seq_length = 16384;
  job.checkpoint = {Time::from_seconds(1800), Time::from_seconds(10)};
  job.recovery.detection = Time::from_seconds(60);
  job.recovery.scheduling = Time::from_seconds(30);
  job.recovery.restart = Time::from_seconds(300);
  job.recovery.in_job_restart = Time::from_seconds(100);
  job.recovery.restore = Time::from_seconds(120);
  job.recovery.reconfigure = Time::from_seconds(20);
  job.recovery.reshard = Time::from_seconds(10);
  job.boost_limit = 1.3;
  return job;
}

inline sim::PolicySpec policy(const std::string& name, std::int64_t spare_domains = 0) {
  sim::PolicySpec spec;
  spec.name = name;
  spec.label = name;
  spec.spare_domains = spare_domains;
  if (name.starts_with("ntp")) spec.reduced_degrees = {31, 30, 29, 28};
  return spec;
}

// A job of `domains` domains of 4 GPUs, one replica a domain, each replica taking 4 microbatches.
inline sim::ClusterSpec tiny_cluster(std::int64_t domains) {
  sim::ClusterSpec cluster = paper_cluster();
  cluster.system.domain_size = 4;
  cluster.system.gpus_per_tray = 2;
  cluster.gpus = domains * 4;
  return cluster;
}

inline sim::JobSpec tiny_job(std::int64_t domains) {
  sim::JobSpec job = paper_job();
  job.model = *models::find_model("llama3-8b");
  job.training.tensor_model_parallel_size = 4;
  job.training.pipeline_model_parallel_size = 1;
  job.training.virtual_pipeline_model_parallel_size = 1;
  job.training.data_parallel_size = domains;
  job.training.global_batch_size = domains * 4;
  job.training.seq_length = 8192;
  return job;
}

inline models::FailureClass gpu_failures(const models::Distribution& lifetime,
                                         const std::optional<models::Distribution>& repair) {
  models::FailureClass failure;
  failure.name = "gpu";
  failure.lifetime = lifetime;
  failure.repair_time = repair;
  return failure;
}

}  // namespace ntpsim::testing
