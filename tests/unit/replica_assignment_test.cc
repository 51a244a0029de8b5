#include "ntpsim/plan/replica_assignment.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"
#include "messages.h"

namespace {

using ntpsim::plan::ReplicaAssignment;
using ntpsim::plan::ReplicaRun;
using ntpsim::testing::messages;
using Replicas = std::vector<ReplicaRun>;

constexpr std::int64_t kAll = 1'000'000;

TEST_CASE("a healthy cluster is all full replicas") {
  const ReplicaAssignment assignment({32, 32}, 16, 8);
  CHECK(assignment.replicas(kAll) == Replicas{{32, 2}});
  CHECK(assignment.replicas(1) == Replicas{{32, 1}});
  CHECK(assignment.active_gpus(0, 8) == 32);
  CHECK(assignment.active_gpus(7, 8) == 32);
  CHECK(assignment.active_gpus(8, 8) == 0);
}

TEST_CASE("hurt groups share the fewest replicas, the worst last") {
  const std::vector<int> degrees = {31, 30, 29, 28};
  ReplicaAssignment assignment({32, 32, degrees}, 32, 8);
  assignment.set_healthy(3, 31);
  assignment.set_healthy(20, 30);
  CHECK(assignment.replicas(kAll) == Replicas{{32, 3}, {30, 1}});
  for (std::int64_t domain = 8; domain < 17; ++domain) assignment.set_healthy(domain, 31);
  // 21 full groups make two replicas; the third takes five of them and three of degree 31.
  CHECK(assignment.replicas(kAll) == Replicas{{32, 2}, {31, 1}, {30, 1}});
  assignment.set_healthy(20, 27);
  CHECK(assignment.replicas(kAll) == Replicas{{32, 2}, {31, 1}});
  CHECK(assignment.groups(32) == 21);
  CHECK(assignment.groups(31) == 10);
  CHECK(assignment.groups(30) == 0);
}

TEST_CASE("a failure of an active domain brings in the idle one and moves nobody else") {
  ReplicaAssignment assignment({8, 8}, 10, 1);  // nine domains in use, one spare
  const std::int64_t active = 9;
  assignment.set_healthy(4, 7);
  int moved_in = 0;
  for (std::int64_t domain = 0; domain < 10; ++domain) {
    CHECK(assignment.active_gpus(domain, active) == (domain == 4 ? 0 : 8));
    moved_in += domain == 9 ? assignment.active_gpus(domain, active) : 0;
  }
  CHECK(moved_in == 8);
  // Once repaired it waits as the spare: nobody is moved for it.
  assignment.set_healthy(4, 8);
  CHECK(assignment.active_gpus(4, active) == 0);
  CHECK(assignment.active_gpus(9, active) == 8);
}

TEST_CASE("in-domain spares and idle groups of a domain in part in use") {
  // Two groups of 4 and one spare GPU a domain; replicas of three groups.
  ReplicaAssignment assignment({9, 4}, 3, 3);
  CHECK(assignment.replicas(kAll) == Replicas{{4, 2}});
  CHECK(assignment.active_gpus(0, 3) == 8);
  CHECK(assignment.active_gpus(1, 3) == 4);
  CHECK(assignment.active_gpus(2, 3) == 0);
  assignment.set_healthy(0, 8);
  CHECK(assignment.replicas(kAll) == Replicas{{4, 2}});
  assignment.set_healthy(0, 7);
  CHECK(assignment.replicas(kAll) == Replicas{{4, 1}});
}

TEST_CASE("groups of a hurt domain are ranked by their own degree") {
  const std::vector<int> degrees = {31, 30};
  ReplicaAssignment assignment({64, 32, degrees}, 3, 1);
  assignment.set_healthy(0, 62);  // 31 + 31
  assignment.set_healthy(1, 63);  // 32 + 31
  // Packing order: 32 (domain 2, twice), 32 (1), 31 (1), 31 (0, twice).
  CHECK(assignment.active_gpus(2, 2) == 64);
  CHECK(assignment.active_gpus(1, 2) == 0);
  CHECK(assignment.active_gpus(1, 3) == 32);
  CHECK(assignment.active_gpus(0, 3) == 0);
  CHECK(assignment.active_gpus(1, 4) == 63);
  CHECK(assignment.active_gpus(0, 4) == 0);
  CHECK(assignment.active_gpus(0, 5) == 31);
  CHECK(assignment.active_gpus(0, 6) == 62);
}

TEST_CASE("arguments that may be wrong") {
  using Texts = std::vector<std::string>;
  CHECK(ReplicaAssignment::make({32, 32}, 16, 8).value().replicas(kAll) == Replicas{{32, 2}});
  CHECK(
      messages(ReplicaAssignment::make({32, 32}, 0, 0)) ==
      Texts{"domains: found 0, expected 1 to 33554432", "groups_per_replica: found 0, expected at least 1"});
  CHECK(messages(ReplicaAssignment::make({32, 32}, 2'000'000, 1)) ==
        Texts{"domains * domain_size: found 64000000, expected 1 to 33554432"});
  CHECK(messages(ReplicaAssignment::make({64, 32}, 4, 9)) ==
        Texts{"groups_per_replica: found 9, expected 1 to 8, the TP groups of the healthy cluster"});
}

TEST_CASE("contracts of a query") {
  const ReplicaAssignment assignment({32, 32}, 16, 8);
  CHECK(ntpsim::testing::aborts([&] { (void)assignment.active_gpus(16, 8); }));
  CHECK(ntpsim::testing::aborts([&] { (void)assignment.active_gpus(0, -1); }));
}

}  // namespace
