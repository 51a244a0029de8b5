#include "replica_rates.h"

#include <algorithm>
#include <limits>

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {
namespace {

// Step times that agree to this relative precision are the same; it absorbs the rounding of the cost model's
// sums.
constexpr double kSameTime = 1e-9;

bool keeps_up(StepCache& model, const ReplicaShape& shape, double limit_s) {
  return model.step_s(shape) <= limit_s * (1 + kSameTime);
}

// Seconds that a healthy replica takes in a job that syncs among this many core ranks.
double healthy_step_s(StepCache& model, int sync_degree) {
  ReplicaShape healthy = model.healthy_shape();
  healthy.sync_degree = sync_degree;
  return model.step_s(healthy);
}

// The largest local batch, up to `most`, whose step takes no longer than `limit_s`; 0 when not even one fits.
std::int64_t largest_batch(StepCache& model, ReplicaShape shape, std::int64_t most, double limit_s) {
  std::int64_t fits = 0;
  std::int64_t too_many = most + 1;
  while (too_many - fits > 1) {
    shape.microbatches = fits + (too_many - fits) / 2;
    (keeps_up(model, shape, limit_s) ? fits : too_many) = shape.microbatches;
  }
  return fits;
}

// The least compute speed from 1 to `most` that keeps up; `most` when nothing less does.
double least_speed(StepCache& model, ReplicaShape shape, double most, double limit_s) {
  double slow = 1;
  double fast = most;
  shape.compute_speed = slow;
  if (keeps_up(model, shape, limit_s)) return slow;
  constexpr int kBisections = 40;
  for (int i = 0; i < kBisections; ++i) {
    shape.compute_speed = (slow + fast) / 2;
    (keeps_up(model, shape, limit_s) ? fast : slow) = shape.compute_speed;
  }
  return fast;
}

}  // namespace

ReplicaRates::ReplicaRates(const ClusterSpec& cluster, const JobSpec& job,
                           std::span<const int> reduced_degrees, bool boost)
    : micro_batch_size_(job.training.micro_batch_size), tdp_w_(cluster.system.gpu.tdp.value()) {
  const models::TrainingSpec& training = job.training;
  replicas_per_unit_ = training.replicas_per_expert_group();
  groups_per_replica_ =
      training.pipeline_model_parallel_size * training.context_parallel_size * replicas_per_unit_;
  batch_ = training.global_batch_size / training.micro_batch_size;
  const StepModel steps(cluster.system, job.model, training);
  StepCache model(steps);
  const auto add = [this](int degree) { rates_.push_back({.degree = degree, .run_degree = degree}); };
  add(static_cast<int>(training.tensor_model_parallel_size));
  std::ranges::for_each(reduced_degrees, add);
  rates_[0].microbatches = training.microbatches();
  for (std::size_t index = 1; index < rates_.size(); ++index) {
    boost ? rate_boosted(model, cluster, job, index) : rate_reduced(model, job, index);
  }
  tabulate_steps(model);
  use_lower_degrees_where_faster();
  tabulate_steps(model);
  step_use_ = model.use();
}

void ReplicaRates::rate_reduced(StepCache& model, const JobSpec& job, std::size_t index) {
  DegreeRate& rate = rates_[index];
  const ReplicaShape reduced = {.tp_degree = rate.degree,
                                .sync_degree = rate.degree,
                                .microbatches = 1,
                                .compute_speed = rate.compute_speed};
  rate.microbatches =
      largest_batch(model, reduced, job.training.microbatches(), healthy_step_s(model, rate.degree));
}

void ReplicaRates::rate_boosted(StepCache& model, const ClusterSpec& cluster, const JobSpec& job,
                                std::size_t index) {
  const models::PowerCurve& curve = cluster.system.gpu.power_curve;
  DegreeRate& rate = rates_[index];
  const double most_speed = curve.speed_at(job.boost_limit);
  rate.compute_speed = most_speed;
  rate_reduced(model, job, index);
  if (rate.microbatches == 0) return;
  const ReplicaShape reduced = {
      .tp_degree = rate.degree, .sync_degree = rate.degree, .microbatches = rate.microbatches};
  rate.compute_speed = least_speed(model, reduced, most_speed, healthy_step_s(model, rate.degree));
  rate.power_fraction = curve.power_for(rate.compute_speed).value_or(job.boost_limit);
}

// Of the slowest replica a job with this lowest degree may have.
void ReplicaRates::tabulate_steps(StepCache& model) {
  for (DegreeRate& lowest : rates_) {
    lowest.job_step_s = 0;
    for (const DegreeRate& rate : rates_) {
      if (rate.degree < lowest.degree || rate.microbatches == 0) continue;
      const double step_s = model.step_s({.tp_degree = rate.run_degree,
                                          .sync_degree = lowest.run_degree,
                                          .microbatches = rate.microbatches,
                                          .compute_speed = rate.compute_speed});
      lowest.job_step_s = std::max(lowest.job_step_s, step_s);
    }
  }
}

// More ranks are not always faster: where units divide badly, a few GPUs of a group had better stand by. The
// rates that result never rise as degrees fall, which is what packing by degree relies on.
void ReplicaRates::use_lower_degrees_where_faster() {
  for (std::size_t index = rates_.size() - 1; index > 1; --index) {
    const DegreeRate& lower = rates_[index];
    DegreeRate& higher = rates_[index - 1];
    const bool faster = lower.microbatches > higher.microbatches ||
                        (lower.microbatches == higher.microbatches && lower.job_step_s < higher.job_step_s);
    if (!faster) continue;
    const int degree = higher.degree;
    higher = lower;
    higher.degree = degree;
  }
}

std::vector<plan::ReducedDegree> ReplicaRates::reduced_degrees() const {
  std::vector<plan::ReducedDegree> reduced;
  for (const DegreeRate& rate : std::span(rates_).subspan(1)) {
    reduced.push_back(
        {.degree = rate.degree,
         .value = static_cast<double>(rate.microbatches) / static_cast<double>(rates_[0].microbatches)});
  }
  return reduced;
}

// Walks down the degrees of the packing order. Taking in the replicas of one more degree adds sequences, but
// may make every step longer (fewer core ranks sync larger gradient shards), so the best rate may lie at any
// of them.
JobConfiguration ReplicaRates::configure(const plan::ReplicaAssignment& assignment, std::size_t cut,
                                         bool whole_batch) const {
  Packing packing{.missing = batch_};
  Packing best;
  double best_rate = 0;
  std::size_t index = 0;
  const auto take_in = [&](int degree, std::int64_t replicas) {
    while (rates_[index].degree != degree) ++index;
    const std::int64_t each = trained_by_one(index);
    if (each == 0) packing.missing = 0;  // not worth running, and what follows is lower still
    if (packing.missing == 0) return;
    const std::int64_t used = std::min(replicas, (packing.missing + each - 1) / each);
    packing.replicas += used;
    packing.degraded += used * (trained_by_one(0) - each);
    packing.missing = std::max<std::int64_t>(0, packing.missing - used * each);
    packing.lowest = index;
    const double rate = static_cast<double>(batch_ - packing.missing) / rates_[index].job_step_s;
    if (rate <= best_rate || (whole_batch && packing.missing > 0)) return;
    best = packing;
    best_rate = rate;
  };
  assignment.visit_replicas(std::numeric_limits<std::int64_t>::max(), take_in, cut);
  return best_rate > 0 ? summary(best, assignment, cut) : JobConfiguration{};
}

JobConfiguration ReplicaRates::summary(const Packing& packing, const plan::ReplicaAssignment& assignment,
                                       std::size_t cut) const {
  JobConfiguration job;
  job.running = true;
  job.cut = cut;
  job.replicas = packing.replicas;
  job.active_groups = packing.replicas * groups_per_replica_;
  job.sequences = (batch_ - packing.missing) * micro_batch_size_;
  const double step_s = rates_[packing.lowest].job_step_s;
  job.step_time = Time::from_seconds_saturated(step_s);
  // Shares of the healthy rate: first what longer steps cost, then what the shorter batch leaves undone of
  // the rest.
  const double at_work = std::min(1.0, ideal_step_s() / step_s);
  const double share_of_one = at_work / static_cast<double>(batch_);
  const std::int64_t degraded = std::min(packing.missing, packing.degraded);
  job.straggler_wait = 1 - at_work;
  job.degraded_tp = static_cast<double>(degraded) * share_of_one;
  job.dropped_replicas = static_cast<double>(packing.missing - degraded) * share_of_one;
  if (packing.lowest > 0) add_power(assignment, job);
  return job;
}

void ReplicaRates::add_power(const plan::ReplicaAssignment& assignment, JobConfiguration& job) const {
  std::int64_t left = job.active_groups;
  for (const DegreeRate& rate : rates_) {
    const std::int64_t active = std::min(left, assignment.groups(rate.degree, job.cut));
    left -= active;
    if (rate.power_fraction <= 1) continue;
    const auto groups = static_cast<double>(active);
    job.boosted_groups += groups;
    job.extra_power_w += groups * rate.run_degree * (rate.power_fraction - 1) * tdp_w_;
  }
}

}  // namespace ntpsim::sim
