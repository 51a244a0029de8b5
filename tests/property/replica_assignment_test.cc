#include "ntpsim/plan/replica_assignment.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::plan::DomainPartition;
using ntpsim::plan::GroupRun;
using ntpsim::plan::ReplicaAssignment;
using ntpsim::plan::ReplicaRun;

constexpr std::int64_t kAll = 1'000'000;

struct Instance {
  int domain_size = 1;
  int tp_degree = 1;
  std::vector<int> reduced;
  std::int64_t domains = 1;
  std::int64_t groups_per_replica = 1;
};

int draw(RandomStream& random, int low, int high) {
  const int choices = high - low + 1;
  return low + static_cast<int>(random.next_index(static_cast<std::uint64_t>(choices)));
}

Instance random_instance(RandomStream& random, int most_domains, int most_groups_per_replica) {
  Instance instance;
  instance.tp_degree = draw(random, 1, 8);
  instance.domain_size = draw(random, instance.tp_degree, 3 * instance.tp_degree);
  for (int degree = instance.tp_degree - 1; degree >= 1; --degree) {
    if (draw(random, 0, 1) == 1) instance.reduced.push_back(degree);
  }
  instance.domains = draw(random, 1, most_domains);
  instance.groups_per_replica = draw(random, 1, most_groups_per_replica);
  return instance;
}

ReplicaAssignment make(const Instance& instance) {
  return {DomainPartition(instance.domain_size, instance.tp_degree, instance.reduced), instance.domains,
          instance.groups_per_replica};
}

// All groups of the cluster, from the healths alone.
std::vector<int> all_degrees(const ReplicaAssignment& assignment) {
  std::vector<int> degrees;
  for (std::int64_t domain = 0; domain < assignment.domains(); ++domain) {
    for (const GroupRun& run : assignment.partition().groups(assignment.healthy(domain))) {
      degrees.insert(degrees.end(), static_cast<std::size_t>(run.count), run.degree);
    }
  }
  return degrees;
}

std::vector<ReplicaRun> pack(std::vector<int> degrees, std::int64_t groups_per_replica) {
  std::ranges::sort(degrees, std::greater<>());
  std::vector<ReplicaRun> runs;
  const auto size = static_cast<std::size_t>(groups_per_replica);
  for (std::size_t end = size; end <= degrees.size(); end += size) {
    if (runs.empty() || runs.back().degree != degrees[end - 1]) runs.push_back({degrees[end - 1], 0});
    ++runs.back().replicas;
  }
  return runs;
}

TEST_CASE("after random failures and repairs the state equals one built from scratch") {
  RandomStream random(7, 0, "test/assignment");
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_instance(random, 40, 6);
    ReplicaAssignment assignment = make(instance);
    for (int step = 0; step < 60; ++step) {
      const int domain = draw(random, 0, static_cast<int>(instance.domains) - 1);
      assignment.set_healthy(domain, draw(random, 0, instance.domain_size));
    }
    const std::vector<int> degrees = all_degrees(assignment);
    REQUIRE(assignment.replicas(kAll) == pack(degrees, instance.groups_per_replica));
    for (const int degree : assignment.partition().degrees()) {
      REQUIRE(assignment.groups(degree) == std::ranges::count(degrees, degree));
    }
  }
}

TEST_CASE("active GPUs over all domains are those of the first groups in packing order") {
  RandomStream random(8, 0, "test/assignment");
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_instance(random, 12, 3);
    ReplicaAssignment assignment = make(instance);
    for (int step = 0; step < 30; ++step) {
      const int domain = draw(random, 0, static_cast<int>(instance.domains) - 1);
      assignment.set_healthy(domain, draw(random, 0, instance.domain_size));
    }
    std::vector<int> degrees = all_degrees(assignment);
    std::ranges::sort(degrees, std::greater<>());
    for (std::size_t active = 0; active <= degrees.size(); ++active) {
      int gpus = 0;
      for (std::int64_t domain = 0; domain < instance.domains; ++domain) {
        const int in_domain = assignment.active_gpus(domain, static_cast<std::int64_t>(active));
        REQUIRE(in_domain <= assignment.healthy(domain));
        gpus += in_domain;
      }
      REQUIRE(gpus ==
              std::accumulate(degrees.begin(), degrees.begin() + static_cast<std::ptrdiff_t>(active), 0));
    }
  }
}

// The best sum of values over all ways to put groups into replicas, by trying them all.
double best_value(std::vector<int> degrees, std::size_t groups_per_replica,
                  const std::vector<double>& value) {
  double best = 0;
  std::ranges::sort(degrees);
  do {
    double sum = 0;
    for (std::size_t end = groups_per_replica; end <= degrees.size(); end += groups_per_replica) {
      const auto first = degrees.begin() + static_cast<std::ptrdiff_t>(end - groups_per_replica);
      sum += value[static_cast<std::size_t>(
          *std::min_element(first, first + static_cast<std::ptrdiff_t>(groups_per_replica)))];
    }
    best = std::max(best, sum);
  } while (std::ranges::next_permutation(degrees).found);
  return best;
}

TEST_CASE("no assignment beats packing in order, for any value that rises with the degree") {
  RandomStream random(9, 0, "test/assignment");
  for (int round = 0; round < 400; ++round) {
    const Instance instance = random_instance(random, 4, 3);
    ReplicaAssignment assignment = make(instance);
    for (std::int64_t domain = 0; domain < instance.domains; ++domain) {
      assignment.set_healthy(domain, draw(random, 0, instance.domain_size));
    }
    const std::vector<int> degrees = all_degrees(assignment);
    if (degrees.size() > 7) continue;  // 5040 orders are enough for a test
    std::vector<double> value = {0};
    for (int degree = 1; degree <= instance.tp_degree; ++degree) {
      value.push_back(value.back() + random.next_uniform());
    }
    double packed = 0;
    for (const ReplicaRun& run : assignment.replicas(kAll)) {
      packed += static_cast<double>(run.replicas) * value[static_cast<std::size_t>(run.degree)];
    }
    REQUIRE(packed >=
            best_value(degrees, static_cast<std::size_t>(instance.groups_per_replica), value) - 1e-12);
  }
}

}  // namespace
