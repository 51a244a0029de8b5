#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/plan/replica_assignment.h"
#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/specs.h"
#include "ntpsim/sim/step_model.h"

#include "step_cache.h"

namespace ntpsim::sim {

/// Every distinct configuration's step time, computed once. A job's step takes as long as its slowest
/// replica, and what the replicas of one degree do differs by nothing but the lowest degree in the job, with
/// which all sync. Sums a packed assignment up into a job configuration.
class ReplicaRates {
 public:
  /// Healthy replicas only, or also reduced ones. `boost`: reduced replicas get the least power that keeps
  /// the full local batch, up to the boost limit. `reduced_degrees`: descending from below the full degree.
  ReplicaRates(const ClusterSpec& cluster, const JobSpec& job, std::span<const int> reduced_degrees,
               bool boost);

  [[nodiscard]] std::int64_t groups_per_replica() const { return groups_per_replica_; }
  /// By descending degree.
  [[nodiscard]] std::span<const DegreeRate> rates() const { return rates_; }
  /// The reduced degrees, a group being worth its replica's share of a healthy one's local batch.
  [[nodiscard]] std::vector<plan::ReducedDegree> reduced_degrees() const;
  /// Of the healthy job without failures.
  [[nodiscard]] double ideal_step_s() const { return rates_[0].job_step_s; }

  [[nodiscard]] StepUse step_use() const { return step_use_; }

  /// The replicas, from the first of the packing order on, that together train fastest: no more than the
  /// global batch needs. Runs unless there is no replica, or unless `whole_batch` and the batch is not
  /// reached. O(degrees).
  [[nodiscard]] JobConfiguration configure(const plan::ReplicaAssignment& assignment, std::size_t cut,
                                           bool whole_batch) const;

 private:
  // The first replicas of the packing order. Counts are in microbatches per step.
  struct Packing {
    std::int64_t missing = 0;   // of the global batch
    std::int64_t degraded = 0;  // left undone by reduced replicas
    std::int64_t replicas = 0;
    std::size_t lowest = 0;  // index of the lowest degree
  };

  void rate_reduced(StepCache& model, const JobSpec& job, std::size_t index);
  void rate_boosted(StepCache& model, const ClusterSpec& cluster, const JobSpec& job, std::size_t index);
  void tabulate_steps(StepCache& model);
  void use_lower_degrees_where_faster();
  [[nodiscard]] JobConfiguration summary(const Packing& packing, const plan::ReplicaAssignment& assignment,
                                         std::size_t cut) const;
  void add_power(const plan::ReplicaAssignment& assignment, JobConfiguration& job) const;
  // Microbatches per step of what comes and goes as a whole.
  [[nodiscard]] std::int64_t trained_by_one(std::size_t index) const {
    return rates_[index].microbatches * replicas_per_unit_;
  }

  std::vector<DegreeRate> rates_;  // by descending degree
  std::int64_t groups_per_replica_ = 0;
  std::int64_t replicas_per_unit_ = 1;  // data-parallel replicas that come and go together
  std::int64_t batch_ = 0;              // microbatches per step of the healthy job
  std::int64_t micro_batch_size_;
  double tdp_w_;
  StepUse step_use_;
};

}  // namespace ntpsim::sim
