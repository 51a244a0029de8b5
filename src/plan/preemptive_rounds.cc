#include "preemptive_rounds.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
namespace {

constexpr int kNone = -1;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// Plans one round after the other, each as long as it can be.
//
// The slack of a port is what is left of the budget less what the port has yet to do. A round of length L may
// leave a port without work, or with a message shorter than L, only for as long as its slack lasts. So L is
// feasible if some matching covers every port of slack < L, by messages of at least L - slack of their ports.
// L = 1 always is (a regular multigraph has a perfect matching), and what is not feasible never will be
// again, because work and slack only shrink: L descends. Each round is then stretched as far as its matching
// allows, so that it completes a message or uses up the slack of a port, which bounds the number of rounds.
class Planner {
 public:
  Planner(const Traffic& traffic, std::int64_t unit, std::int64_t budget);
  [[nodiscard]] Rounds plan();

 private:
  // Senders are ports [0, senders_), receivers the others; ports without work are left out.
  struct Link {
    std::array<int, 2> port;
    std::int64_t units;  // yet to send

    [[nodiscard]] int other(int end) const { return port[0] == end ? port[1] : port[0]; }
  };

  [[nodiscard]] int ports() const { return static_cast<int>(load_.size()); }
  [[nodiscard]] std::int64_t slack(int port) const { return budget_ - load_[at(port)]; }
  [[nodiscard]] bool must_be_covered(int port) const { return slack(port) < length_; }
  // How long a round may be with this message in it.
  [[nodiscard]] std::int64_t reach(const Link& link) const {
    return link.units + std::min(slack(link.port[0]), slack(link.port[1]));
  }
  [[nodiscard]] std::span<int> links_of(int port);

  void match();
  void drop_short_links();
  bool cover_all();
  bool cover(int port);
  void exchange(int port, int end);
  void fill_up();
  [[nodiscard]] std::int64_t stretched_length() const;
  void add_round(std::int64_t length);

  std::span<const Message> messages_;
  std::int64_t unit_;
  std::int64_t budget_;  // units that the rounds to come may take together
  std::int64_t length_;  // of a round, as far as known to be feasible
  std::int64_t left_ = 0;
  int senders_ = 0;
  std::vector<Link> links_;              // by message
  std::vector<std::int64_t> load_;       // port -> units yet to send or receive
  std::vector<int> by_port_;             // links of one port after the other; those done are not counted
  std::vector<std::size_t> begin_;       // port -> its first link
  std::vector<std::size_t> link_count_;  // port -> its links that have units left
  std::vector<int> mate_;                // port -> the link that covers it, or kNone
  std::vector<int> came_by_;             // port -> the link by which the search came here
  std::vector<std::int64_t> seen_;       // port -> the last search that came here
  std::vector<int> queue_;
  std::int64_t search_ = 0;
  Rounds rounds_;
};

Planner::Planner(const Traffic& traffic, std::int64_t unit, std::int64_t budget)
    : messages_(traffic.messages()),
      unit_(unit),
      budget_(budget),
      length_(std::max<std::int64_t>(budget, 1)) {
  std::array<std::vector<int>, 2> port_of;
  for (std::vector<int>& ports : port_of) ports.assign(at(traffic.ranks()), kNone);
  int ports = 0;
  const auto number = [&ports](std::span<const std::int64_t> bytes, std::vector<int>& port_of_rank) {
    for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
      if (bytes[rank] > 0) port_of_rank[rank] = ports++;
    }
  };
  number(traffic.sent(), port_of[0]);
  senders_ = ports;
  number(traffic.received(), port_of[1]);

  load_.assign(at(ports), 0);
  link_count_.assign(at(ports), 0);
  links_.reserve(messages_.size());
  for (const Message& message : messages_) {
    const Link link{{port_of[0][at(message.from)], port_of[1][at(message.to)]},
                    message.bytes / unit + (message.bytes % unit != 0 ? 1 : 0)};
    for (const int port : link.port) {
      load_[at(port)] += link.units;
      ++link_count_[at(port)];
    }
    left_ += link.units;
    links_.push_back(link);
  }
  for (int port = 0; port < ports; ++port)
    invariant(slack(port) >= 0, "no port has more work than the budget");

  begin_.assign(at(ports), 0);
  if (ports > 0) std::exclusive_scan(link_count_.begin(), link_count_.end(), begin_.begin(), std::size_t{0});
  by_port_.resize(2 * links_.size());
  std::vector<std::size_t> next = begin_;
  for (std::size_t link = 0; link < links_.size(); ++link) {
    for (const int port : links_[link].port) by_port_[next[at(port)]++] = static_cast<int>(link);
  }
  mate_.assign(at(ports), kNone);
  came_by_.assign(at(ports), kNone);
  seen_.assign(at(ports), 0);
}

std::span<int> Planner::links_of(int port) {
  return std::span(by_port_).subspan(begin_[at(port)], link_count_[at(port)]);
}

Rounds Planner::plan() {
  while (left_ > 0) {
    match();
    add_round(stretched_length());
  }
  return std::move(rounds_);
}

// The matching of the last round, mended, at the longest length of those tried.
void Planner::match() {
  drop_short_links();
  while (!cover_all()) {
    invariant(length_ > 1, "a round of one unit is feasible");
    length_ -= std::max<std::int64_t>(1, length_ / 16);
  }
  fill_up();
}

void Planner::drop_short_links() {
  for (int port = 0; port < senders_; ++port) {
    const int link = mate_[at(port)];
    if (link == kNone || (links_[at(link)].units > 0 && reach(links_[at(link)]) >= length_)) continue;
    for (const int end : links_[at(link)].port) mate_[at(end)] = kNone;
  }
}

bool Planner::cover_all() {
  for (int port = 0; port < ports(); ++port) {
    if (mate_[at(port)] == kNone && must_be_covered(port) && !cover(port)) return false;
  }
  return true;
}

// Covers one more port that must be, by a path that ends at an idle port of the other side or frees one of
// the same side that need not be covered. So it uncovers none that must be, on either side.
bool Planner::cover(int port) {
  ++search_;
  queue_.assign(1, port);
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    for (const int link : links_of(queue_[next])) {
      const int end = links_[at(link)].other(queue_[next]);
      if (seen_[at(end)] == search_ || reach(links_[at(link)]) < length_) continue;
      seen_[at(end)] = search_;
      came_by_[at(end)] = link;
      if (mate_[at(end)] == kNone) {
        exchange(port, end);
        return true;
      }
      const int beyond = links_[at(mate_[at(end)])].other(end);
      if (!must_be_covered(beyond)) {
        mate_[at(beyond)] = kNone;
        exchange(port, end);
        return true;
      }
      queue_.push_back(beyond);
    }
  }
  return false;
}

// Matches along the path by which the search came from `port` to `end`.
void Planner::exchange(int port, int end) {
  while (true) {
    const int link = came_by_[at(end)];
    const int near = links_[at(link)].other(end);
    const int before = mate_[at(near)];
    mate_[at(near)] = link;
    mate_[at(end)] = link;
    if (near == port) return;
    end = links_[at(before)].other(near);
  }
}

// Gives idle senders something to do, their largest message to an idle receiver.
void Planner::fill_up() {
  for (int port = 0; port < senders_; ++port) {
    if (mate_[at(port)] != kNone) continue;
    int best = kNone;
    for (const int link : links_of(port)) {
      if (mate_[at(links_[at(link)].port[1])] != kNone) continue;
      if (best == kNone || links_[at(link)].units > links_[at(best)].units) best = link;
    }
    if (best == kNone) continue;
    for (const int end : links_[at(best)].port) mate_[at(end)] = best;
  }
}

std::int64_t Planner::stretched_length() const {
  std::int64_t longest = 0;
  std::int64_t length = budget_;
  for (int port = 0; port < ports(); ++port) {
    const int link = mate_[at(port)];
    if (link == kNone) {
      length = std::min(length, slack(port));
    } else {
      longest = std::max(longest, links_[at(link)].units);
      length = std::min(length, reach(links_[at(link)]));
    }
  }
  return std::min(length, longest);
}

void Planner::add_round(std::int64_t length) {
  for (int port = 0; port < senders_; ++port) {
    const int index = mate_[at(port)];
    if (index == kNone) continue;
    Link& link = links_[at(index)];
    const std::int64_t units = std::min(link.units, length);
    const std::int64_t total = messages_[at(index)].bytes;
    const std::int64_t all_units = total / unit_ + (total % unit_ != 0 ? 1 : 0);
    const std::int64_t offset = (all_units - link.units) * unit_;
    link.units -= units;
    left_ -= units;
    rounds_.pieces.push_back({index, offset, link.units == 0 ? total - offset : units * unit_});
    for (const int end : link.port) {
      load_[at(end)] -= units;
      if (link.units > 0) continue;
      const std::span<int> links = links_of(end);
      *std::ranges::find(links, index) = links.back();
      --link_count_[at(end)];
    }
  }
  budget_ -= length;
  const auto first = rounds_.pieces.begin() + static_cast<std::ptrdiff_t>(rounds_.round_begin.back());
  std::ranges::sort(first, rounds_.pieces.end(), {}, &Piece::message);
  rounds_.round_begin.push_back(rounds_.pieces.size());
}

}  // namespace

Rounds preemptive_rounds(const Traffic& traffic, std::int64_t unit, std::int64_t budget) {
  invariant(unit >= 1, "a unit has bytes");
  return Planner(traffic, unit, budget).plan();
}

}  // namespace ntpsim::plan
