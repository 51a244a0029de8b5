#include "ntpsim/plan/domain_partition.h"

#include <algorithm>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
namespace {

// The largest allowed degree that at most `gpus` GPUs can fill; 0 when there is none.
int fitting_degree(std::span<const int> degrees, int gpus) {
  const auto fits = std::ranges::find_if(degrees, [gpus](int degree) { return degree <= gpus; });
  return fits == degrees.end() ? 0 : *fits;
}

void add_group(std::vector<GroupRun>& runs, int degree) {
  if (!runs.empty() && runs.back().degree == degree) {
    ++runs.back().count;
  } else {
    runs.push_back({degree, 1});
  }
}

// Cuts `healthy` GPUs into exactly `count` groups, the largest first; empty when they do not suffice.
std::vector<GroupRun> cut(std::span<const int> degrees, int count, int healthy) {
  std::vector<GroupRun> runs;
  const int smallest = degrees.back();
  for (int left = count; left > 0; --left) {
    // Every group after this one needs at least the smallest degree.
    const int degree = fitting_degree(degrees, healthy - (left - 1) * smallest);
    if (degree == 0) return {};
    add_group(runs, degree);
    healthy -= degree;
  }
  return runs;
}

}  // namespace

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
    for (int count = groups_when_healthy(); count > 0 && runs.empty(); --count) {
      runs = cut(degrees_, count, healthy);
    }
  }
}

}  // namespace ntpsim::plan
