#include "ntpsim/models/collective_cost.h"

#include <doctest/doctest.h>

namespace ntpsim::models {
namespace {

const SystemSpec& h200() {
  return *find_system("dgx-h200");
}

double bus_bandwidth(double factor, double bytes, double seconds) {
  return factor * bytes / seconds;
}

}  // namespace

TEST_CASE("the span of a group follows the domains") {
  CHECK(span_of(8, 1, 8) == GroupSpan{8, 8});
  CHECK(span_of(16, 1, 8) == GroupSpan{16, 8});
  CHECK(span_of(16, 4, 8) == GroupSpan{16, 2});
  CHECK(span_of(16, 8, 8) == GroupSpan{16, 1});
  CHECK(span_of(16, 64, 8) == GroupSpan{16, 1});
  CHECK(span_of(3, 1, 72) == GroupSpan{3, 3});
}

TEST_CASE("a group of one rank has nothing to say") {
  const CollectiveCost cost(h200());
  const GroupSpan alone{1, 1};
  CHECK(cost.all_gather_s(1e9, alone) == 0);
  CHECK(cost.reduce_scatter_s(1e9, alone) == 0);
  CHECK(cost.all_reduce_s(1e9, alone) == 0);
  CHECK(cost.all_to_all_s(1e9, alone) == 0);
}

TEST_CASE("large messages reach the measured bus bandwidth") {
  const double bytes = 8e9;
  const CollectiveCost cost(h200());
  // 8 x H200, nccl-tests: all-gather 361, all-reduce 480 (NVLS); without NVLS, on 4 GPUs, 363 GB/s.
  CHECK(bus_bandwidth(7.0 / 8, bytes, cost.all_gather_s(bytes, {8, 8})) ==
        doctest::Approx(361e9).epsilon(0.03));
  CHECK(bus_bandwidth(14.0 / 8, bytes, cost.all_reduce_s(bytes, {8, 8})) ==
        doctest::Approx(480e9).epsilon(0.15));
  CHECK(bus_bandwidth(6.0 / 4, bytes, cost.all_reduce_s(bytes, {4, 4})) ==
        doctest::Approx(363e9).epsilon(0.03));
  // 72 x GB200: 850 GB/s; 8 x A100 has no reduction in its switch: 232 GB/s of ring.
  const CollectiveCost rack(*find_system("gb200-nvl72"));
  CHECK(bus_bandwidth(142.0 / 72, bytes, rack.all_reduce_s(bytes, {72, 72})) ==
        doctest::Approx(850e9).epsilon(0.12));
  const CollectiveCost a100(*find_system("dgx-a100"));
  CHECK(bus_bandwidth(14.0 / 8, bytes, a100.all_reduce_s(bytes, {8, 8})) ==
        doctest::Approx(232e9).epsilon(0.06));
  // One 400 Gbit/s NIC: 48 GB/s.
  CHECK(bus_bandwidth(1.0 / 2, bytes, cost.all_gather_s(bytes, {2, 1})) ==
        doctest::Approx(48e9).epsilon(0.01));
}

TEST_CASE("an all-reduce of a mid-sized message is bound by latency too") {
  // 8 x A100, 16 MiB: bus bandwidth 109 GB/s.
  const CollectiveCost cost(*find_system("dgx-a100"));
  CHECK(bus_bandwidth(14.0 / 8, 16777216, cost.all_reduce_s(16777216, {8, 8})) ==
        doctest::Approx(109e9).epsilon(0.4));
}

TEST_CASE("a group over several domains uses all the NICs of its ranks there") {
  const CollectiveCost cost(h200());
  const double bytes = 1e10;
  const double one_rail = cost.all_gather_s(bytes, {16, 1});
  const double eight_rails = cost.all_gather_s(bytes, {16, 8});
  CHECK(one_rail > 4 * eight_rails);
  CHECK(eight_rails > cost.all_gather_s(bytes, {8, 8}));
  CHECK(cost.all_reduce_s(bytes, {16, 8}) == doctest::Approx(2 * eight_rails));
}

TEST_CASE("all-to-all runs over NVLink and NICs at once") {
  const CollectiveCost cost(h200());
  const double bytes = 1e9;
  const double inside = cost.all_to_all_s(bytes, {8, 8});
  CHECK(inside == doctest::Approx(bytes * 7 / 8 / (0.81 * 450e9)).epsilon(0.02));
  const double across = cost.all_to_all_s(bytes, {64, 8});
  CHECK(across == doctest::Approx(bytes * 56 / 64 / 48e9).epsilon(0.02));
}

TEST_CASE("time grows with bytes and never falls with ranks") {
  const CollectiveCost cost(h200());
  double before = 0;
  for (const std::int64_t ranks : {2, 4, 8, 16, 64, 1024}) {
    const double now = cost.reduce_scatter_s(1e8, span_of(ranks, 1, 8));
    CHECK(now > before);
    before = now;
  }
  for (const double bytes : {0.0, 1e3, 1e6, 1e9}) {
    CHECK(cost.all_gather_s(2 * bytes + 1, {8, 8}) > cost.all_gather_s(bytes, {8, 8}));
    CHECK(cost.point_to_point_s(2 * bytes + 1, false) > cost.point_to_point_s(bytes, false));
    CHECK(cost.point_to_point_s(bytes, false) > cost.point_to_point_s(bytes, true));
  }
}

}  // namespace ntpsim::models
