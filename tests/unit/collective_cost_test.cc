#include "ntpsim/models/collective_cost.h"

#include <cmath>

#include <doctest/doctest.h>

namespace ntpsim::models {
namespace {

const SystemSpec& h200() {
  return *find_system("dgx-h200");
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

TEST_CASE("an all-reduce takes the algorithm that is quickest where its ranks are") {
  using enum CollectiveAlgorithm;
  const CollectiveCost cost(h200());
  CHECK(cost.all_reduce_algorithm(1e9, {8, 8}) == kNvls);
  CHECK(cost.all_reduce_algorithm(1e9, {2, 2}) == kRing);  // a reduced shard is half the tensor
  CHECK(cost.all_reduce_algorithm(1e6, {64, 8}) == kNvlsTree);
  CHECK(cost.all_reduce_algorithm(1e6, {64, 1}) == kTree);   // nothing for a switch to reduce
  CHECK(cost.all_reduce_algorithm(1e11, {64, 8}) == kRing);  // latency no longer counts
  const CollectiveCost a100(*find_system("dgx-a100"));
  CHECK(a100.all_reduce_algorithm(1e9, {8, 8}) == kRing);  // its switch cannot reduce
  CHECK(a100.all_reduce_algorithm(1e6, {64, 8}) == kTree);
  CHECK(to_string(kNvlsTree) == "NVLS_TREE");
}

TEST_CASE("a ring takes a step a rank and moves all but its own part") {
  // 8 GPUs of 450 GB/s: 0.811 of it, and 6.8 us a step.
  const CollectiveCost cost(h200());
  CHECK(cost.all_gather_s(8e9, {8, 8}) == doctest::Approx(7 * 6.8e-6 + 7e9 / (0.811 * 450e9)));
  CHECK(cost.all_gather_s(0, {8, 8}) == doctest::Approx(7 * 6.8e-6 / 3));
  // Two hosts: one of the 15 steps goes over the network; 8 NICs of 48 GB/s outdo NVLink.
  CHECK(cost.all_gather_s(16e9, {16, 8}) == doctest::Approx(14 * 6.8e-6 + 14e-6 + 15e9 / (0.811 * 450e9)));
  // One rank a host: its NIC, which LL128 fills as well, at a third of the latency.
  CHECK(cost.all_gather_s(16e9, {16, 1}) == doctest::Approx(15 * 14e-6 / 3 + 15e9 / 48e9));
}

TEST_CASE("the domain with the fewest ranks bounds a group over uneven domains") {
  const CollectiveCost cost(h200());
  const double bytes = 1e10;
  const double even = cost.all_gather_s(bytes, {16, 8});
  // Its one NIC takes in what eight do elsewhere.
  CHECK(cost.all_gather_s(bytes, {17, 8}) == doctest::Approx(bytes * 16 / 17 / 48e9).epsilon(0.01));
  // Losing a rank of a full domain costs its NIC.
  CHECK(cost.all_gather_s(bytes, {15, 8}) < even * 8 / 7);
  CHECK(cost.all_reduce_s(bytes, {15, 8}) < cost.all_reduce_s(bytes, {16, 8}) * 8 / 7);
}

TEST_CASE("all-to-all runs over NVLink and NICs at once") {
  const CollectiveCost cost(h200());
  const double bytes = 1e9;
  CHECK(cost.all_to_all_s(bytes, {8, 8}) == doctest::Approx(6.8e-6 + bytes * 7 / 8 / (0.71 * 450e9)));
  CHECK(cost.all_to_all_s(bytes, {64, 8}) == doctest::Approx(14e-6 + bytes * 56 / 64 / 48e9));
  CHECK(cost.all_to_all_s(0, {64, 8}) == doctest::Approx(14e-6));
}

TEST_CASE("a message takes a step's latency and its link's rate") {
  const CollectiveCost cost(h200());
  CHECK(cost.point_to_point_s(1e9, true) == doctest::Approx(6.8e-6 + 1e9 / (0.811 * 450e9)));
  CHECK(cost.point_to_point_s(1e9, false) == doctest::Approx(14e-6 + 1e9 / 48e9));
}

TEST_CASE("on every system and span time rises with bytes, and an all-reduce needs no more than its halves") {
  for (const SystemSpec& system : system_catalog()) {
    const CollectiveCost cost(system);
    for (const std::int64_t size : {1, 2, 3, 5, 8, 9, 31, 64, 72, 73, 100, 143, 144, 1440, 4096}) {
      for (const std::int64_t stride : {1, 2, 5, 8, 72}) {
        const GroupSpan span = span_of(size, stride, system.domain_size);
        CAPTURE(system.name);
        CAPTURE(span.size);
        CAPTURE(span.per_domain);
        double gather = 0;
        double reduce = 0;
        double exchange = 0;
        for (int step = 0; step < 105; ++step) {
          const double bytes = std::pow(1.3, step);
          CAPTURE(bytes);
          const double all_reduce = cost.all_reduce_s(bytes, span);
          CHECK(all_reduce <=
                (cost.reduce_scatter_s(bytes, span) + cost.all_gather_s(bytes, span)) * (1 + 1e-12));
          CHECK(all_reduce >= reduce);
          CHECK(cost.all_gather_s(bytes, span) >= gather);
          CHECK(cost.all_to_all_s(bytes, span) >= exchange);
          reduce = all_reduce;
          gather = cost.all_gather_s(bytes, span);
          exchange = cost.all_to_all_s(bytes, span);
        }
        CHECK((reduce > 0) == (size > 1));
      }
    }
  }
}

TEST_CASE("within a domain a group that loses a rank is hardly slower") {
  for (const SystemSpec& system : system_catalog()) {
    const CollectiveCost cost(system);
    for (std::int64_t size = 3; size <= system.domain_size; ++size) {
      for (int step = 5; step < 19; ++step) {
        const double bytes = std::pow(4, step);
        CAPTURE(system.name);
        CAPTURE(size);
        CAPTURE(bytes);
        CHECK(cost.all_gather_s(bytes, {size - 1, size - 1}) <= cost.all_gather_s(bytes, {size, size}));
        // 1 + 1/n of the tensor through a link, and a chunk ladder that follows the group.
        CHECK(cost.all_reduce_s(bytes, {size - 1, size - 1}) <=
              1.25 * cost.all_reduce_s(bytes, {size, size}));
      }
    }
  }
}

}  // namespace ntpsim::models
