#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ntpsim::plan {

/// How many TP groups of one degree.
struct GroupRun {
  int degree = 0;
  int count = 0;

  bool operator==(const GroupRun&) const = default;
};

/// How the healthy GPUs of one scale-up domain are cut into TP groups. A domain of S GPUs holds floor(S / t)
/// groups of the full degree t, and S mod t in-domain spares. The GPUs of a domain reach each other alike, so
/// any healthy ones make a group.
///
/// When GPUs are missing, spares are used up first, then as many groups as possible stay whole, and what is
/// left makes one more group at a reduced degree if it suffices for one. So a domain has at most one hurt
/// group, and never fewer whole ones than if hurt groups were given up.
///
/// No other cut is worth more where a domain holds one group, where only whole groups have a value, and where
/// a replica is one group and its value is convex in the degree. Elsewhere several groups that share a
/// domain's loss can be worth more: with a floor under the degrees, 7 + 7 GPUs of 14 rather than 8 and 6
/// idle; with several groups a replica, one replica at degree 7 rather than at 6.
class DomainPartition {
 public:
  /// `reduced_degrees`: degrees below tp_degree that a hurt group may run at, descending; empty when groups
  /// must be whole. REQUIRES: 1 <= tp_degree <= domain_size; reduced degrees in [1, tp_degree), strictly
  /// descending. O(domain_size * (domain_size / tp_degree)).
  DomainPartition(int domain_size, int tp_degree, std::span<const int> reduced_degrees = {});

  [[nodiscard]] int domain_size() const { return domain_size_; }
  [[nodiscard]] int tp_degree() const { return tp_degree_; }
  /// Every degree that can occur, descending, the full degree first.
  [[nodiscard]] std::span<const int> degrees() const { return degrees_; }

  /// The groups of a domain with this many healthy GPUs, by descending degree; none with a count of zero.
  [[nodiscard]] std::span<const GroupRun> groups(int healthy) const {
    return groups_[static_cast<std::size_t>(healthy)];
  }
  /// TP groups in a domain whose GPUs are all healthy.
  [[nodiscard]] int groups_when_healthy() const { return domain_size_ / tp_degree_; }

 private:
  int domain_size_;
  int tp_degree_;
  std::vector<int> degrees_;
  std::vector<std::vector<GroupRun>> groups_;  // by healthy GPUs, 0 to domain_size
};

}  // namespace ntpsim::plan
