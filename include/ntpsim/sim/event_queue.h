#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "ntpsim/core/invariant.h"
#include "ntpsim/core/time.h"

namespace ntpsim::sim {

/// The event kernel's pending events, handed out by (time, priority, order of scheduling), so ties are
/// settled the same way on every machine. Time never runs backwards. Scheduling and taking cost O(log
/// pending); neither allocates once the queue has been as long as it gets.
template <class Payload>
class EventQueue {
 public:
  struct Event {
    Time at;
    std::uint64_t order = 0;  // priority in the top byte, sequence number below it
    Payload payload;
  };

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  /// The time of the last event taken.
  [[nodiscard]] Time now() const { return now_; }

  /// A smaller `priority` goes first among events of the same time. REQUIRES: at >= now().
  void schedule(Time at, std::uint8_t priority, Payload payload) {
    invariant(at >= now_, "an event lies in the future");
    constexpr unsigned kSequenceBits = 56;
    const std::uint64_t order = (static_cast<std::uint64_t>(priority) << kSequenceBits) | sequence_++;
    heap_.push_back({at, order, std::move(payload)});
    sift_up(heap_.size() - 1);
  }

  /// Removes and returns the first event. REQUIRES: not empty.
  Event take() {
    invariant(!heap_.empty(), "an empty queue has no first event");
    Event first = std::move(heap_.front());
    now_ = first.at;
    Event last = std::move(heap_.back());
    heap_.pop_back();
    if (!heap_.empty()) sift_down(std::move(last));
    return first;
  }

 private:
  // Four children a node: a shallower heap than a binary one, and siblings share cache lines.
  static constexpr std::size_t kChildren = 4;

  static bool before(const Event& a, const Event& b) {
    return std::tie(a.at, a.order) < std::tie(b.at, b.order);
  }

  void sift_up(std::size_t index) {
    Event moving = std::move(heap_[index]);
    while (index > 0) {
      const std::size_t parent = (index - 1) / kChildren;
      if (!before(moving, heap_[parent])) break;
      heap_[index] = std::move(heap_[parent]);
      index = parent;
    }
    heap_[index] = std::move(moving);
  }

  void sift_down(Event moving) {
    std::size_t index = 0;
    for (;;) {
      const std::size_t first_child = index * kChildren + 1;
      if (first_child >= heap_.size()) break;
      const std::size_t end = std::min(first_child + kChildren, heap_.size());
      std::size_t least = first_child;
      for (std::size_t child = first_child + 1; child < end; ++child) {
        if (before(heap_[child], heap_[least])) least = child;
      }
      if (!before(heap_[least], moving)) break;
      heap_[index] = std::move(heap_[least]);
      index = least;
    }
    heap_[index] = std::move(moving);
  }

  std::vector<Event> heap_;
  std::uint64_t sequence_ = 0;
  Time now_;
};

}  // namespace ntpsim::sim
