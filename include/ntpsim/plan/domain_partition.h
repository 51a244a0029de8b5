#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/limits.h"

namespace ntpsim::plan {

/// How many TP groups of one degree.
struct GroupRun {
  int degree = 0;
  int count = 0;

  bool operator==(const GroupRun&) const = default;
};

/// A degree below the full one that a hurt group may run at.
struct ReducedDegree {
  int degree = 0;
  double value = 0;  ///< of such a group, in whole groups

  bool operator==(const ReducedDegree&) const = default;
};

/// How the healthy GPUs of one scale-up domain are cut into TP groups. A domain of S GPUs holds floor(S / t)
/// groups of the full degree t, and S mod t in-domain spares. The GPUs of a domain reach each other alike, so
/// any healthy ones make a group.
///
/// When GPUs are missing, spares are used up first. Then the cut is the one whose groups are worth most
/// together; of equal ones the most even: 7 + 7 GPUs rather than 8 + 6 where either is worth the same,
/// since a replica runs at the lowest degree of its groups.
///
/// With packing in order (`ReplicaAssignment`) no other cut and no other assignment is worth more where a
/// domain holds one group, and where a replica is one group. With R groups a replica another may be worth up
/// to (R - 1) / R whole replicas more on the whole cluster, because the cut does not look at what other
/// domains need to complete a replica. Why: let G(d) be the groups of degree d and higher. Packed, they are
/// worth the sum over d of (v(d) - v(next lower)) floor(G(d) / R), and the cut maximizes the same sum without
/// the rounding, domain by domain.
class DomainPartition {
 public:
  /// `reduced`: by descending degree; empty when groups must be whole. REQUIRES: 1 <= tp_degree <=
  /// domain_size; degrees in [1, tp_degree), strictly descending; values in [0, 1], never rising.
  /// O(domain_size^2).
  DomainPartition(int domain_size, int tp_degree, std::span<const ReducedDegree> reduced = {});
  /// The same for groups that are worth their share of a whole one's GPUs.
  DomainPartition(int domain_size, int tp_degree, std::span<const int> reduced_degrees);
  /// The same for arguments that may be wrong. Errors: domain_size outside [1, kMaxDomainSize] and whatever
  /// the constructors require.
  [[nodiscard]] static Result<DomainPartition> make(int domain_size, int tp_degree,
                                                    std::span<const ReducedDegree> reduced = {});
  [[nodiscard]] static Result<DomainPartition> make(int domain_size, int tp_degree,
                                                    std::span<const int> reduced_degrees);

  [[nodiscard]] int domain_size() const { return domain_size_; }
  [[nodiscard]] int tp_degree() const { return tp_degree_; }
  /// Every degree that can occur, descending, the full degree first.
  [[nodiscard]] std::span<const int> degrees() const { return degrees_; }

  /// The degrees below the full one, descending.
  [[nodiscard]] std::span<const ReducedDegree> reduced() const { return reduced_; }

  /// The groups of a domain with this many healthy GPUs, by descending degree; none with a count of zero.
  /// REQUIRES: 0 <= healthy <= domain_size().
  [[nodiscard]] std::span<const GroupRun> groups(int healthy) const {
    return groups_[static_cast<std::size_t>(healthy)];
  }
  /// Is every domain cut alike?
  [[nodiscard]] bool same_groups(const DomainPartition& other) const { return groups_ == other.groups_; }
  /// TP groups in a domain whose GPUs are all healthy.
  [[nodiscard]] int groups_when_healthy() const { return domain_size_ / tp_degree_; }

 private:
  int domain_size_;
  int tp_degree_;
  std::vector<ReducedDegree> reduced_;
  std::vector<int> degrees_;
  std::vector<std::vector<GroupRun>> groups_;  // by healthy GPUs, 0 to domain_size
};

}  // namespace ntpsim::plan
