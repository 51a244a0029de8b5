#include "ntpsim/plan/domain_partition.h"

#include <vector>

#include <doctest/doctest.h>

namespace {

using ntpsim::plan::DomainPartition;
using ntpsim::plan::GroupRun;
using Runs = std::vector<GroupRun>;

Runs groups(const DomainPartition& partition, int healthy) {
  const auto span = partition.groups(healthy);
  return {span.begin(), span.end()};
}

TEST_CASE("whole groups only") {
  const DomainPartition partition(32, 32);
  CHECK(groups(partition, 32) == Runs{{32, 1}});
  CHECK(groups(partition, 31).empty());
  CHECK(partition.groups_when_healthy() == 1);
}

TEST_CASE("left-over GPUs of a domain are its spares") {
  const DomainPartition partition(72, 64);
  CHECK(groups(partition, 72) == Runs{{64, 1}});
  CHECK(groups(partition, 64) == Runs{{64, 1}});
  CHECK(groups(partition, 63).empty());
  const DomainPartition nines(72, 8);
  CHECK(groups(nines, 72) == Runs{{8, 9}});
  CHECK(groups(nines, 71) == Runs{{8, 8}});
  CHECK(groups(nines, 64) == Runs{{8, 8}});
}

TEST_CASE("a group shrinks to the largest allowed degree that fits") {
  const std::vector<int> paper = {30, 28};
  const DomainPartition partition(32, 32, paper);
  CHECK(groups(partition, 31) == Runs{{30, 1}});
  CHECK(groups(partition, 30) == Runs{{30, 1}});
  CHECK(groups(partition, 29) == Runs{{28, 1}});
  CHECK(groups(partition, 28) == Runs{{28, 1}});
  CHECK(groups(partition, 27).empty());
  CHECK(std::vector<int>(partition.degrees().begin(), partition.degrees().end()) ==
        std::vector<int>{32, 30, 28});
}

TEST_CASE("as many groups as possible stay whole, and what is left makes one reduced group") {
  const std::vector<int> degrees = {31, 30, 29, 28};
  const DomainPartition partition(64, 32, degrees);
  CHECK(groups(partition, 64) == Runs{{32, 2}});
  CHECK(groups(partition, 63) == Runs{{32, 1}, {31, 1}});
  CHECK(groups(partition, 60) == Runs{{32, 1}, {28, 1}});
  CHECK(groups(partition, 59) == Runs{{32, 1}});
  CHECK(groups(partition, 31) == Runs{{31, 1}});
  CHECK(groups(partition, 27).empty());
  const std::vector<int> seven = {7};
  const DomainPartition rack(72, 8, seven);
  CHECK(groups(rack, 71) == Runs{{8, 8}, {7, 1}});
  CHECK(groups(rack, 70) == Runs{{8, 8}});
  CHECK(groups(rack, 63) == Runs{{8, 7}, {7, 1}});
}

TEST_CASE(
    "no partition uses more GPUs than are healthy, nor has fewer whole groups than giving hurt ones up") {
  for (const int tp : {1, 2, 3, 4, 8}) {
    for (int domain = tp; domain <= 20; ++domain) {
      std::vector<int> degrees;
      for (int degree = tp - 1; degree >= (3 * tp + 3) / 4; --degree) degrees.push_back(degree);
      const DomainPartition partition(domain, tp, degrees);
      int previous_gpus = 0;
      for (int healthy = 0; healthy <= domain; ++healthy) {
        int gpus = 0;
        int last_degree = tp + 1;
        for (const GroupRun& run : partition.groups(healthy)) {
          CHECK(run.count > 0);
          CHECK(run.degree < last_degree);
          last_degree = run.degree;
          gpus += run.count * run.degree;
        }
        CHECK(gpus <= healthy);
        const auto whole = groups(DomainPartition(domain, tp), healthy);
        const auto mixed = groups(partition, healthy);
        if (!whole.empty()) CHECK(mixed.front() == whole.front());
        CHECK(gpus >= previous_gpus);
        previous_gpus = gpus;
      }
      CHECK(previous_gpus == domain / tp * tp);
    }
  }
}

}  // namespace
