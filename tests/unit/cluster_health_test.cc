#include "ntpsim/sim/cluster_health.h"

#include <doctest/doctest.h>

namespace {

using ntpsim::Time;
using ntpsim::sim::ClusterHealth;
using ntpsim::sim::HealthEvent;
using Kind = HealthEvent::Kind;

HealthEvent event(Kind kind, std::int64_t first_gpu, int gpus) {
  return {kind, Time(), first_gpu, gpus};
}

TEST_CASE("a GPU is out while any failure that covers it is unrepaired") {
  ClusterHealth health(2, 4);
  const HealthEvent gpu = event(Kind::kFailure, 5, 1);
  const HealthEvent tray = event(Kind::kFailure, 4, 2);
  CHECK(health.healthy_after(gpu) == 3);
  health.apply(gpu);
  CHECK(health.healthy(1) == 3);
  CHECK(health.healthy(0) == 4);
  CHECK(health.healthy_after(tray) == 2);
  health.apply(tray);
  CHECK(health.healthy(1) == 2);
  CHECK_FALSE(health.in_service(4));
  CHECK_FALSE(health.in_service(5));
  CHECK(health.healthy_before(7) == 1);
  CHECK(health.healthy_before(6) == 0);
  CHECK(health.healthy_after(event(Kind::kReturn, 4, 2)) == 3);
  health.apply(event(Kind::kReturn, 4, 2));
  CHECK(health.healthy(1) == 3);
  CHECK_FALSE(health.in_service(5));
  health.apply(event(Kind::kReturn, 5, 1));
  CHECK(health.healthy(1) == 4);
}

TEST_CASE("an interruption breaks nothing") {
  ClusterHealth health(1, 4);
  CHECK(health.healthy_after(event(Kind::kInterruption, 0, 4)) == 4);
  health.apply(event(Kind::kInterruption, 0, 4));
  CHECK(health.healthy(0) == 4);
}

}  // namespace
