#include "ntpsim/plan/domain_partition.h"

#include <algorithm>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
DomainPartition::DomainPartition(int domain_size, int tp_degree, std::span<const int> reduced_degrees)
    : domain_size_(domain_size), tp_degree_(tp_degree), degrees_{tp_degree} {
  invariant(tp_degree >= 1 && tp_degree <= domain_size, "a TP group fits into a domain");
  for (const int degree : reduced_degrees) {
    invariant(degree >= 1 && degree < degrees_.back(), "reduced degrees descend from below the TP degree");
    degrees_.push_back(degree);
  }
  groups_.resize(static_cast<std::size_t>(domain_size) + 1);
  for (int healthy = 0; healthy <= domain_size; ++healthy) {
    auto& runs = groups_[static_cast<std::size_t>(healthy)];
    const int whole = healthy / tp_degree;
    if (whole > 0) runs.push_back({tp_degree, whole});
    if (whole == groups_when_healthy()) continue;
    const int left = healthy - whole * tp_degree;
    const auto fits = std::ranges::find_if(degrees_, [left](int degree) { return degree <= left; });
    if (fits != degrees_.end()) runs.push_back({*fits, 1});
  }
}

}  // namespace ntpsim::plan
