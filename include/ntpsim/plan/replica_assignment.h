#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/domain_partition.h"
#include "ntpsim/plan/limits.h"

namespace ntpsim::plan {

/// Replicas whose slowest TP group has the same degree.
struct ReplicaRun {
  int degree = 0;
  std::int64_t replicas = 0;

  bool operator==(const ReplicaRun&) const = default;
};

/// Which TP groups make up which data-parallel replicas, kept up to date while GPUs fail and return.
///
/// All TP groups of the cluster stand in one packing order: by descending degree, and among equals by the
/// position of their domain. A replica is the next `groups_per_replica` groups of that order and runs at the
/// smallest degree among them; what is left over at the end is idle. So hurt groups share the fewest
/// replicas, and the worst ones stay out first. For any value of a replica that rises with its degree no
/// other assignment does better: swapping groups until they are in order never lowers the smallest degree of
/// a replica without raising another's.
///
/// Several cuts of the domains may stand side by side, for whoever chooses between them: the order of the
/// domains is the same, the groups in them are not. Functions that ask for groups take the index of a cut.
///
/// Domains are kept in an array sorted by healthy GPUs, one bucket per count. A domain that loses or regains
/// a GPU trades places with the edge of its bucket and stays put otherwise, so everybody else keeps their
/// place: one failure costs O(GPUs that fail + degrees), whatever the size of the cluster.
class ReplicaAssignment {
 public:
  /// All domains healthy. REQUIRES: domains >= 1, groups_per_replica >= 1, at least one cut, all of the same
  /// domain size.
  ReplicaAssignment(std::span<const DomainPartition> cuts, std::int64_t domains,
                    std::int64_t groups_per_replica);
  ReplicaAssignment(const DomainPartition& cut, std::int64_t domains, std::int64_t groups_per_replica)
      : ReplicaAssignment(std::span(&cut, 1), domains, groups_per_replica) {}
  /// The same for arguments that may be wrong. Errors: no domain, a cluster of more than kMaxGpus, and
  /// groups_per_replica below 1 or above the TP groups of the healthy cluster, which never makes a replica.
  [[nodiscard]] static Result<ReplicaAssignment> make(const DomainPartition& cut, std::int64_t domains,
                                                      std::int64_t groups_per_replica);

  [[nodiscard]] std::size_t cuts() const { return cuts_.size(); }
  [[nodiscard]] const DomainPartition& partition(std::size_t cut = 0) const { return cuts_[cut].partition; }
  [[nodiscard]] std::int64_t domains() const { return static_cast<std::int64_t>(order_.size()); }
  [[nodiscard]] std::int64_t groups_per_replica() const { return groups_per_replica_; }
  /// REQUIRES: 0 <= domain < domains().
  [[nodiscard]] int healthy(std::int64_t domain) const { return healthy_[static_cast<std::size_t>(domain)]; }
  /// The domain at this position of the packing order. REQUIRES: 0 <= position < domains().
  [[nodiscard]] std::int64_t domain_at(std::int64_t position) const {
    return order_[static_cast<std::size_t>(position)];
  }

  /// Sets the number of healthy GPUs of a domain. O(change + groups of the domain in all cuts).
  /// REQUIRES: 0 <= domain < domains(), 0 <= healthy <= domain size.
  void set_healthy(std::int64_t domain, int healthy);

  /// TP groups that have exactly this degree. REQUIRES: 0 <= degree <= TP degree of the cut.
  [[nodiscard]] std::int64_t groups(int degree, std::size_t cut = 0) const {
    return cuts_[cut].group_counts[static_cast<std::size_t>(degree)];
  }

  /// Calls visit(degree, replicas) for each degree that some of the first `max_replicas` replicas run at, in
  /// packing order. O(number of degrees), no allocation.
  template <class Visit>
  void visit_replicas(std::int64_t max_replicas, Visit&& visit, std::size_t cut = 0) const {
    std::int64_t groups_so_far = 0;
    std::int64_t replicas_so_far = 0;
    for (const int degree : partition(cut).degrees()) {
      const std::int64_t count = groups(degree, cut);
      if (count == 0) continue;
      groups_so_far += count;
      const std::int64_t complete = groups_so_far / groups_per_replica_;
      const std::int64_t replicas = (complete < max_replicas ? complete : max_replicas) - replicas_so_far;
      if (replicas > 0) visit(degree, replicas);
      replicas_so_far += replicas;
      if (replicas_so_far == max_replicas) return;
    }
  }

  /// What `visit_replicas` visits, as a list.
  [[nodiscard]] std::vector<ReplicaRun> replicas(std::int64_t max_replicas, std::size_t cut = 0) const;

  /// How many GPUs of the domain belong to the first `active_groups` groups in packing order.
  /// O(domain size * degrees of the domain). REQUIRES: 0 <= domain < domains(), active_groups >= 0.
  [[nodiscard]] int active_gpus(std::int64_t domain, std::int64_t active_groups, std::size_t cut = 0) const;

 private:
  using Index = std::uint32_t;  // half the memory of size_t: the arrays are touched at random

  struct Cut {
    DomainPartition partition;
    std::vector<std::int64_t> group_counts;  // degree -> TP groups
  };

  void swap_places(Index a, Index b);
  void move_down(Index domain);
  void move_up(Index domain);
  void count_groups(int healthy, std::int64_t sign);
  [[nodiscard]] std::int64_t groups_before(Index domain, int degree, const DomainPartition& partition) const;

  std::vector<Cut> cuts_;
  std::int64_t groups_per_replica_;
  std::vector<Index> order_;           // position -> domain, by descending health
  std::vector<Index> position_;        // domain -> position
  std::vector<std::int32_t> healthy_;  // domain -> healthy GPUs
  std::vector<Index> bucket_begin_;    // healthy GPUs -> first position of their bucket
  std::vector<Index> bucket_size_;     // healthy GPUs -> domains that have so many
};

}  // namespace ntpsim::plan
