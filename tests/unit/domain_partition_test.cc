#include "ntpsim/plan/domain_partition.h"

#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"
#include "messages.h"

namespace {

using ntpsim::plan::DomainPartition;
using ntpsim::plan::GroupRun;
using ntpsim::plan::ReducedDegree;
using ntpsim::testing::messages;
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

TEST_CASE("two groups of a domain share a loss where either way is worth the same") {
  const std::vector<int> degrees = {31, 30, 29, 28};
  const DomainPartition partition(64, 32, degrees);
  CHECK(groups(partition, 64) == Runs{{32, 2}});
  CHECK(groups(partition, 63) == Runs{{32, 1}, {31, 1}});
  CHECK(groups(partition, 60) == Runs{{30, 2}});
  CHECK(groups(partition, 57) == Runs{{29, 1}, {28, 1}});
  CHECK(groups(partition, 55) == Runs{{32, 1}});
  CHECK(groups(partition, 31) == Runs{{31, 1}});
  CHECK(groups(partition, 27).empty());
}

TEST_CASE("sharing a loss keeps more GPUs at work where one group could not go that low") {
  const std::vector<int> seven = {7};
  const DomainPartition rack(72, 8, seven);
  CHECK(groups(rack, 71) == Runs{{8, 8}, {7, 1}});
  CHECK(groups(rack, 70) == Runs{{8, 7}, {7, 2}});
  CHECK(groups(rack, 63) == Runs{{8, 7}, {7, 1}});
  CHECK(groups(rack, 62) == Runs{{8, 6}, {7, 2}});
}

TEST_CASE("what groups are worth decides: a steep loss is better borne by one of them") {
  const std::vector<ReducedDegree> steep = {{7, 0.5}, {6, 0.25}};
  CHECK(groups(DomainPartition(16, 8, steep), 14) == Runs{{8, 1}, {6, 1}});
  const std::vector<ReducedDegree> flat = {{7, 1}, {6, 0.5}};
  CHECK(groups(DomainPartition(16, 8, flat), 14) == Runs{{7, 2}});
  const std::vector<ReducedDegree> worthless = {{7, 0}};
  CHECK(groups(DomainPartition(16, 8, worthless), 15) == Runs{{8, 1}});
}

TEST_CASE("no partition uses more GPUs than are healthy, and more GPUs are never worth less") {
  for (const int tp : {1, 2, 3, 4, 8}) {
    for (int domain = tp; domain <= 20; ++domain) {
      std::vector<int> degrees;
      for (int degree = tp - 1; degree >= (3 * tp + 3) / 4; --degree) degrees.push_back(degree);
      const DomainPartition partition(domain, tp, degrees);
      int previous_gpus = 0;
      for (int healthy = 0; healthy <= domain; ++healthy) {
        int gpus = 0;
        int count = 0;
        int last_degree = tp + 1;
        for (const GroupRun& run : partition.groups(healthy)) {
          CHECK(run.count > 0);
          CHECK(run.degree < last_degree);
          last_degree = run.degree;
          gpus += run.count * run.degree;
          count += run.count;
        }
        CHECK(gpus <= healthy);
        CHECK(count <= domain / tp);
        CHECK(gpus >= previous_gpus);
        previous_gpus = gpus;
      }
      CHECK(groups(partition, domain) == Runs{{tp, domain / tp}});
    }
  }
}

TEST_CASE("values that rise as degrees fall, and degrees out of order, break an invariant") {
  using Reduced = std::vector<ReducedDegree>;
  CHECK(ntpsim::testing::aborts([] { (void)DomainPartition(8, 8, Reduced{{7, 0.5}, {6, 0.6}}); }));
  CHECK(ntpsim::testing::aborts([] { (void)DomainPartition(8, 8, Reduced{{7, 1.5}}); }));
  CHECK(ntpsim::testing::aborts([] { (void)DomainPartition(8, 8, Reduced{{6, 0.5}, {7, 0.5}}); }));
  CHECK(ntpsim::testing::aborts([] { (void)DomainPartition(8, 8, Reduced{{8, 0.5}}); }));
  CHECK(ntpsim::testing::aborts([] { (void)DomainPartition(7, 8); }));
}

TEST_CASE("arguments that may be wrong") {
  using Reduced = std::vector<ReducedDegree>;
  using Texts = std::vector<std::string>;
  const std::vector<int> degrees = {31, 30};
  CHECK(DomainPartition::make(32, 32, degrees).value().same_groups({32, 32, degrees}));
  CHECK(messages(DomainPartition::make(0, 8)) == Texts{"domain_size: found 0, expected 1 to 4096"});
  CHECK(messages(DomainPartition::make(7, 8)) ==
        Texts{"tp_degree: found 8, expected 1 to 7, the domain_size"});
  CHECK(messages(DomainPartition::make(8, 8, std::vector{7, 7, 0})) ==
        Texts{"reduced degree 1: found 7, expected at least 1 and less than the degree before it, 7",
              "reduced degree 2: found 0, expected at least 1 and less than the degree before it, 7"});
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK(messages(DomainPartition::make(8, 8, Reduced{{7, 0.5}, {6, 0.6}, {5, kNan}})) ==
        Texts{"reduced degree 1: found a value of 0.6, expected 0 to 0.5",
              "reduced degree 2: found a value of nan, expected 0 to 0.5"});
}

}  // namespace
