#include "ntpsim/sim/event_queue.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::Time;
using ntpsim::sim::EventQueue;

TEST_CASE("events come by time, then priority, then the order of scheduling") {
  EventQueue<int> queue;
  queue.schedule(Time::from_ns(20), 0, 1);
  queue.schedule(Time::from_ns(10), 1, 2);
  queue.schedule(Time::from_ns(10), 0, 3);
  queue.schedule(Time::from_ns(10), 1, 4);
  std::vector<int> taken;
  while (!queue.empty()) taken.push_back(queue.take().payload);
  CHECK(taken == std::vector<int>{3, 2, 4, 1});
  CHECK(queue.now() == Time::from_ns(20));
}

TEST_CASE("a long random run equals a stable sort") {
  RandomStream random(1, 0, "test/event_queue");
  EventQueue<std::size_t> queue;
  struct Scheduled {
    Time at;
    std::uint8_t priority;
    std::size_t id;
  };
  std::vector<Scheduled> pending;
  std::size_t next_id = 0;
  for (int step = 0; step < 20'000; ++step) {
    const bool take = !pending.empty() && random.next_index(100) < 48;
    if (!take) {
      const Time at = queue.now() + Time::from_ns(static_cast<std::int64_t>(random.next_index(50)));
      const auto priority = static_cast<std::uint8_t>(random.next_index(3));
      queue.schedule(at, priority, next_id);
      pending.push_back({at, priority, next_id++});
      continue;
    }
    const auto first = std::ranges::min_element(pending, [](const Scheduled& a, const Scheduled& b) {
      return std::tie(a.at, a.priority, a.id) < std::tie(b.at, b.priority, b.id);
    });
    const auto event = queue.take();
    REQUIRE(event.payload == first->id);
    REQUIRE(event.at == first->at);
    pending.erase(first);
    REQUIRE(queue.size() == pending.size());
  }
}

}  // namespace
