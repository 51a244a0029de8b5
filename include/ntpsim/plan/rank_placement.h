#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/domain_partition.h"
#include "ntpsim/plan/failed_gpus.h"
#include "ntpsim/plan/limits.h"

namespace ntpsim::plan {

/// The parallelism of a job.
struct JobShape {
  int tp = 1;           ///< GPUs of a whole TP group
  int cp = 1;           ///< context-parallel slices of a pipeline stage
  int pp = 1;           ///< pipeline stages
  std::int64_t dp = 1;  ///< replicas wanted; fewer are placed when healthy GPUs do not suffice

  bool operator==(const JobShape&) const = default;
};

/// A GPU at work and the local slot (TP index) it fills in its group.
struct ActiveGpu {
  int local = 0;
  int slot = 0;  ///< in its domain

  bool operator==(const ActiveGpu&) const = default;
};

/// The TP group of one (dp, cp, pp).
struct PlacedGroup {
  std::int64_t domain = 0;
  /// Its own slots of the domain are [block * tp, (block + 1) * tp), local slot l being block * tp + l. An
  /// active GPU in another slot stands in for one that failed or was given away, or trades its local slot.
  int block = 0;
  int degree = 0;                 ///< active GPUs
  std::int64_t first_rank = 0;    ///< the k-th active GPU is global rank first_rank + k
  std::vector<ActiveGpu> active;  ///< by local slot, ascending; the index is the sync position
  std::vector<int> non_active;    ///< the other local slots of [0, tp), ascending

  bool operator==(const PlacedGroup&) const = default;
};

/// A data-parallel replica.
struct PlacedReplica {
  int degree = 0;                   ///< the lowest of its groups
  std::vector<PlacedGroup> groups;  ///< group (cp, pp) at [pp * shape.cp + cp]

  bool operator==(const PlacedReplica&) const = default;
};

/// Where a global rank runs and what it is.
struct RankPlace {
  std::int64_t domain = 0;
  int slot = 0;
  std::int64_t dp = 0;
  int cp = 0;
  int pp = 0;
  int local = 0;               ///< local slot in its TP group
  std::int64_t grid_rank = 0;  ///< its number where non-active slots are numbered too

  bool operator==(const RankPlace&) const = default;
};

/// Why a healthy GPU idles.
enum class IdleReason : unsigned char {
  kSpare,          ///< its domain has no group for it: an in-domain spare, or too few for one more group
  kLeftoverGroup,  ///< its group is in no replica
  kUnequalSlices,  ///< a group that must be as large as its own has fewer GPUs: another context-parallel
                   ///< slice of its stage or, at parity, of any reduced replica
};

struct IdleGpu {
  std::int64_t domain = 0;
  int slot = 0;
  IdleReason reason = IdleReason::kSpare;

  bool operator==(const IdleGpu&) const = default;
};

/// Process groups, each a list of global ranks.
using RankGroups = std::vector<std::vector<std::int64_t>>;

/// Which GPU of which domain is which rank of a job on a cluster with failed GPUs. A value.
///
/// Within a domain: slots are cut into blocks of tp consecutive ones, the rest are in-domain spares. The
/// blocks with the fewest failures stay whole, and their failed slots are filled from the in-domain spares
/// and then from the blocks given up or reduced, so that the fewest GPUs change places.
///
/// Across domains: replicas are cut from the packing order of `ReplicaAssignment` with the failures entered
/// domain by domain. A domain that has lost only GPUs that none of its groups needs keeps its place.
///
/// Within a replica: the context-parallel slices of a stage must have the same degree and the same active
/// local slots. Groups sorted by degree, consecutive ones a stage, idle the fewest GPUs; a group with more
/// GPUs than its stage's degree idles those in the non-active local slots of the slice hurt most. GPUs of a
/// domain being alike, one trades its local slot where the slices would differ otherwise. Stages of a replica
/// may differ in degree.
///
/// Order: reduced replicas first, the lowest degree foremost, as Megatron's `num_reduced_tp_dp_ranks` has it,
/// then whole ones in packing order. Global ranks number active GPUs only, in Megatron's default order
/// "tp-cp-ep-dp-pp": TP fastest, then CP, DP, and PP.
class RankPlacement {
 public:
  /// REQUIRES: every degree of the shape >= 1; shape.tp is the TP degree of the partition; failed GPUs and
  /// partition have the same domain size. O(GPUs of the cluster).
  RankPlacement(FailedGpus failed, const DomainPartition& partition, const JobShape& shape);
  /// The same for arguments that may be wrong. Errors: what the constructor requires, a cluster of more than
  /// kMaxGpus, and replicas of more TP groups than the healthy cluster has.
  [[nodiscard]] static Result<RankPlacement> make(FailedGpus failed, const DomainPartition& partition,
                                                  const JobShape& shape);

  [[nodiscard]] const FailedGpus& failed() const { return failed_; }
  [[nodiscard]] const JobShape& shape() const { return shape_; }
  /// By dp index; at most shape().dp, none when healthy GPUs make no replica.
  [[nodiscard]] std::span<const PlacedReplica> replicas() const { return replicas_; }
  /// By global rank.
  [[nodiscard]] std::span<const RankPlace> ranks() const { return ranks_; }
  /// Healthy GPUs that are no rank, by domain and slot.
  [[nodiscard]] std::span<const IdleGpu> idle() const { return idle_; }
  /// Domains whose GPUs are all healthy and all idle, ascending.
  [[nodiscard]] std::span<const std::int64_t> untouched_domains() const { return untouched_domains_; }
  /// REQUIRES: a replica, slice and stage of the job.
  [[nodiscard]] const PlacedGroup& group(std::int64_t dp, int cp, int pp) const;

  // Process groups. Every rank is in exactly one group of each kind. Where degrees differ, ranks meet at
  // their sync position (index among the active GPUs of their TP group), so a position that only one TP
  // group reaches is a group of one. Each is O(ranks).

  /// By first rank.
  [[nodiscard]] RankGroups tp_groups() const;
  /// By stage, replica, sync position.
  [[nodiscard]] RankGroups cp_groups() const;
  /// By stage, slice, sync position.
  [[nodiscard]] RankGroups dp_groups() const;
  /// By replica, slice, sync position.
  [[nodiscard]] RankGroups pp_groups() const;

  bool operator==(const RankPlacement&) const = default;

 private:
  friend RankPlacement at_parity(RankPlacement placement);  // shrinks groups and numbers ranks

  void number_ranks();
  void list_idle(std::span<const PlacedGroup> leftover, std::span<const IdleGpu> unequal);

  FailedGpus failed_;
  JobShape shape_;
  std::vector<PlacedReplica> replicas_;
  std::vector<RankPlace> ranks_;
  std::vector<IdleGpu> idle_;
  std::vector<std::int64_t> untouched_domains_;
};

/// The placement that Megatron can run, which has one reduced degree: every group of a reduced replica at the
/// lowest degree of the job, its highest active local slots idle as well, and ranks numbered anew. A whole
/// job stays as it is. O(n log n) of the GPUs of the cluster.
[[nodiscard]] RankPlacement at_parity(RankPlacement placement);

/// The local slots of one (dp, cp, pp) that do not run.
struct NonActiveRanks {
  std::int64_t dp = 0;
  int cp = 0;
  int pp = 0;
  std::vector<int> local;  ///< ascending

  bool operator==(const NonActiveRanks&) const = default;
};

/// The placement at parity as Megatron's `NonuniformTPConfig` has it, with that structure's names.
struct MegatronParity {
  int tp_base = 0;
  int tp_spares = 0;  ///< non-active slots of every group of a reduced replica; 0 for a whole job
  std::int64_t num_reduced_tp_dp_ranks = 0;
  /// Every (dp, cp, pp) of the reduced replicas, in this order: Megatron takes the last `tp_spares` slots as
  /// non-active where a key is missing.
  std::vector<NonActiveRanks> non_active_ranks_per_dp;
  std::int64_t idled_gpus = 0;  ///< ranks of the placement that do not run at parity

  bool operator==(const MegatronParity&) const = default;
};

/// As `at_parity`.
[[nodiscard]] MegatronParity megatron_parity(const RankPlacement& placement);

}  // namespace ntpsim::plan
