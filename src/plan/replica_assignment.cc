#include "ntpsim/plan/replica_assignment.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "errors.h"

namespace ntpsim::plan {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

ReplicaAssignment::ReplicaAssignment(std::span<const DomainPartition> cuts, std::int64_t domains,
                                     std::int64_t groups_per_replica)
    : groups_per_replica_(groups_per_replica) {
  invariant(domains >= 1 && domains < std::numeric_limits<Index>::max(), "domains fit their index");
  invariant(groups_per_replica >= 1, "a replica has at least one TP group");
  invariant(!cuts.empty(), "there is a cut");
  const int full = cuts.front().domain_size();
  for (const DomainPartition& partition : cuts) {
    invariant(partition.domain_size() == full, "all cuts are of the same domains");
    cuts_.push_back({partition, std::vector<std::int64_t>(at(partition.tp_degree()) + 1)});
  }
  order_.resize(at(domains));
  std::iota(order_.begin(), order_.end(), Index{0});
  position_ = order_;
  healthy_.assign(at(domains), full);
  bucket_begin_.assign(at(full) + 1, static_cast<Index>(domains));
  bucket_size_.assign(at(full) + 1, 0);
  bucket_begin_[at(full)] = 0;
  bucket_size_[at(full)] = static_cast<Index>(domains);
  count_groups(full, domains);
}

Result<ReplicaAssignment> ReplicaAssignment::make(const DomainPartition& cut, std::int64_t domains,
                                                  std::int64_t groups_per_replica) {
  Diagnostics errors;
  check_cluster(errors, domains, cut.domain_size());
  if (errors.has_errors()) {
    check_range(errors, "groups_per_replica", groups_per_replica, 1);
  } else {
    check_range(errors, "groups_per_replica", groups_per_replica, 1, domains * cut.groups_when_healthy(),
                kGroupsOfCluster);
  }
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return ReplicaAssignment(cut, domains, groups_per_replica);
}

void ReplicaAssignment::count_groups(int healthy, std::int64_t sign) {
  for (Cut& cut : cuts_) {
    for (const GroupRun& run : cut.partition.groups(healthy)) {
      cut.group_counts[at(run.degree)] += sign * run.count;
    }
  }
}

void ReplicaAssignment::swap_places(Index a, Index b) {
  std::swap(position_[a], position_[b]);
  order_[position_[a]] = a;
  order_[position_[b]] = b;
}

// From the bucket of h to that of h - 1, which begins where the bucket of h ends.
void ReplicaAssignment::move_down(Index domain) {
  const auto h = at(healthy_[domain]);
  const Index last = bucket_begin_[h] + bucket_size_[h] - 1;
  swap_places(domain, order_[last]);
  --bucket_size_[h];
  bucket_begin_[h - 1] = last;
  ++bucket_size_[h - 1];
  --healthy_[domain];
}

void ReplicaAssignment::move_up(Index domain) {
  const auto h = at(healthy_[domain]);
  const Index first = bucket_begin_[h];
  swap_places(domain, order_[first]);
  if (bucket_size_[h + 1] == 0) bucket_begin_[h + 1] = first;
  ++bucket_begin_[h];
  --bucket_size_[h];
  ++bucket_size_[h + 1];
  ++healthy_[domain];
}

void ReplicaAssignment::set_healthy(std::int64_t domain, int healthy) {
  invariant(domain >= 0 && domain < domains(), "domain within the cluster");
  invariant(healthy >= 0 && healthy <= partition().domain_size(), "healthy GPUs within the domain");
  const auto index = static_cast<Index>(domain);
  const int before = healthy_[index];
  if (healthy == before) return;
  count_groups(before, -1);
  count_groups(healthy, 1);
  while (healthy_[index] > healthy) move_down(index);
  while (healthy_[index] < healthy) move_up(index);
}

std::vector<ReplicaRun> ReplicaAssignment::replicas(std::int64_t max_replicas, std::size_t cut) const {
  std::vector<ReplicaRun> runs;
  visit_replicas(
      max_replicas, [&runs](int degree, std::int64_t replicas) { runs.push_back({degree, replicas}); }, cut);
  return runs;
}

// Groups of this degree in the domains that stand before `domain`.
std::int64_t ReplicaAssignment::groups_before(Index domain, int degree,
                                              const DomainPartition& partition) const {
  std::int64_t before = 0;
  const int own = healthy_[domain];
  for (int h = partition.domain_size(); h >= own; --h) {
    const std::int64_t domains_before =
        h > own ? bucket_size_[at(h)] : position_[domain] - bucket_begin_[at(h)];
    if (domains_before == 0) continue;
    for (const GroupRun& run : partition.groups(h)) {
      if (run.degree == degree) before += domains_before * run.count;
    }
  }
  return before;
}

int ReplicaAssignment::active_gpus(std::int64_t domain, std::int64_t active_groups, std::size_t cut) const {
  invariant(domain >= 0 && domain < domains(), "domain within the cluster");
  invariant(active_groups >= 0, "no fewer than zero groups are active");
  const DomainPartition& partition = cuts_[cut].partition;
  const auto index = static_cast<Index>(domain);
  std::int64_t left = active_groups;  // of the active groups, those of the degree at hand or lower
  int gpus = 0;
  const auto degrees = partition.degrees();
  auto degree = degrees.begin();
  for (const GroupRun& run : partition.groups(healthy_[index])) {
    for (; *degree > run.degree; ++degree) left -= groups(*degree, cut);
    if (left <= 0) break;
    std::int64_t active = run.count;
    if (left < groups(run.degree, cut)) {
      active = std::min<std::int64_t>(
          active, std::max<std::int64_t>(0, left - groups_before(index, run.degree, partition)));
    }
    gpus += static_cast<int>(active) * run.degree;
  }
  return gpus;
}

}  // namespace ntpsim::plan
