#include "edge_coloring.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
namespace {

constexpr int kNone = -1;
constexpr std::size_t kWordBits = 64;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

std::size_t words_for(int colors) {
  return (at(colors) + kWordBits - 1) / kWordBits;
}

std::uint64_t bit_of(int color) {
  return std::uint64_t{1} << (at(color) % kWordBits);
}

// Sets of colors, 64 a word. Each starts with all colors.
class ColorSets {
 public:
  ColorSets(std::size_t sets, int colors)
      : words_(words_for(colors)), bits_(sets * words_, ~std::uint64_t{0}), first_word_(sets, 0) {
    const std::size_t rest = at(colors) % kWordBits;
    if (rest == 0) return;
    for (std::size_t last = words_ - 1; last < bits_.size(); last += words_) bits_[last] >>= kWordBits - rest;
  }

  [[nodiscard]] std::uint64_t word(int set, std::size_t index) const {
    return bits_[at(set) * words_ + index];
  }
  // No word before this one has a color of the set. Constant time on average, however many colors.
  [[nodiscard]] std::size_t first_word(int set) {
    std::size_t& first = first_word_[at(set)];
    while (first < words_ && word(set, first) == 0) ++first;
    return first;
  }
  void insert(int set, int color) {
    const std::size_t index = at(color) / kWordBits;
    bits_[at(set) * words_ + index] |= bit_of(color);
    first_word_[at(set)] = std::min(first_word_[at(set)], index);
  }
  void erase(int set, int color) { bits_[at(set) * words_ + at(color) / kWordBits] &= ~bit_of(color); }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;      // (set, word)
  std::vector<std::size_t> first_word_;  // by set
};

// Which port of one side each rank uses, and which group each port belongs to. Ranks of few edges share a
// port and groups of few edges are taken for one: what is right for the whole is right for its members. So
// two ports in a row have more edges than there are colors, and a table of ports and colors takes O(edges).
struct Ports {
  std::vector<int> of_rank;
  std::vector<int> group;        // port -> group
  std::vector<int> group_begin;  // group -> its first port; one more entry than groups
};

Ports make_ports(std::span<const Edge> edges, int Edge::* end, const PortLimits& groups, int colors) {
  const std::vector<int>& group_of = groups.group_of;
  std::vector<std::int64_t> degree(group_of.size(), 0);
  for (const Edge& edge : edges) ++degree[at(edge.*end)];
  std::vector<int> order(group_of.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&group_of](int rank) { return group_of[at(rank)]; });

  Ports ports;
  ports.of_rank.assign(group_of.size(), kNone);
  std::int64_t group_room = 0;  // how many edges the last group may yet take
  std::int64_t port_room = 0;   // and the last port
  for (auto rank = order.begin(); rank != order.end();) {
    const auto next_group =
        std::find_if(rank, order.end(), [&](int r) { return group_of[at(r)] != group_of[at(*rank)]; });
    std::int64_t group_degree = 0;
    for (auto member = rank; member != next_group; ++member) group_degree += degree[at(*member)];
    if (group_room < group_degree) {
      ports.group_begin.push_back(static_cast<int>(ports.group.size()));
      group_room = std::int64_t{groups.limit} * colors;
      port_room = 0;
    }
    group_room -= group_degree;
    invariant(group_room >= 0, "a group has at most limit * colors edges");
    for (; rank != next_group; ++rank) {
      if (port_room < degree[at(*rank)]) {
        ports.group.push_back(static_cast<int>(ports.group_begin.size()) - 1);
        port_room = colors;
      }
      port_room -= degree[at(*rank)];
      invariant(port_room >= 0, "a rank has at most as many edges as there are colors");
      ports.of_rank[at(*rank)] = static_cast<int>(ports.group.size()) - 1;
    }
  }
  ports.group_begin.push_back(static_cast<int>(ports.group.size()));
  return ports;
}

// All senders, or all receivers: which of their edges has which color.
class Side {
 public:
  Side(Ports ports, int limit, int colors)
      : colors_(at(colors)),
        limit_(limit),
        ports_(std::move(ports)),
        edge_of_(ports_.group.size() * colors_, kNone),
        used_((ports_.group_begin.size() - 1) * colors_, 0),
        lacking_(ports_.group.size(), colors),
        open_(ports_.group_begin.size() - 1, colors) {}

  [[nodiscard]] int port_of(int rank) const { return ports_.of_rank[at(rank)]; }
  // The edge of this port and color, or kNone.
  [[nodiscard]] int edge_of(int port, int color) const { return edge_of_[entry(port, color)]; }
  [[nodiscard]] bool is_full(int port, int color) const { return used_[entry(group(port), color)] == limit_; }

  // Colors that the port lacks, those that its group has room for, and those that are both, 64 at a time.
  [[nodiscard]] std::uint64_t lacking(int port, std::size_t word) const { return lacking_.word(port, word); }
  [[nodiscard]] std::uint64_t open(int port, std::size_t word) const { return open_.word(group(port), word); }
  [[nodiscard]] std::uint64_t free(int port, std::size_t word) const {
    return lacking(port, word) & open(port, word);
  }
  // No word before this one has a free color.
  [[nodiscard]] std::size_t first_word(int port) {
    return std::max(lacking_.first_word(port), open_.first_word(group(port)));
  }

  void attach(int port, int color, int edge) {
    edge_of_[entry(port, color)] = edge;
    lacking_.erase(port, color);
    if (++used_[entry(group(port), color)] == limit_) open_.erase(group(port), color);
  }
  void detach(int port, int color) {
    edge_of_[entry(port, color)] = kNone;
    lacking_.insert(port, color);
    if (used_[entry(group(port), color)]-- == limit_) open_.insert(group(port), color);
  }

  // Edges of the port's group whose port has only one of the two colors are paired in the order of ports,
  // `excluded` left out: the edge of color `to` that is paired with the port's own of color `from`.
  [[nodiscard]] int partner(int port, int from, int to, int excluded) const {
    int ahead = 0;  // lone edges of color `from` in ports before
    for (int p = group_begin(port); p < port; ++p) ahead += lone(p, from, to, excluded) != kNone ? 1 : 0;
    return nth_lone(port, to, from, excluded, ahead);
  }
  // The n-th edge of the group, from 0, whose port has this color but not the other.
  [[nodiscard]] int nth_lone(int port, int color, int other, int excluded, int n) const {
    for (int p = group_begin(port); p < ports_.group_begin[at(group(port)) + 1]; ++p) {
      const int found = lone(p, color, other, excluded);
      if (found != kNone && n-- == 0) return found;
    }
    invariant(false, "a group has more edges of a color that it is full of than of one it is not");
    return kNone;
  }

 private:
  [[nodiscard]] std::size_t entry(int row, int color) const { return at(row) * colors_ + at(color); }
  [[nodiscard]] int group(int port) const { return ports_.group[at(port)]; }
  [[nodiscard]] int group_begin(int port) const { return ports_.group_begin[at(group(port))]; }
  [[nodiscard]] int lone(int port, int color, int other, int excluded) const {
    const int found = edge_of(port, color);
    return found != excluded && edge_of(port, other) == kNone ? found : kNone;
  }

  std::size_t colors_;
  int limit_;
  Ports ports_;
  std::vector<int> edge_of_;  // (port, color) -> edge, or kNone
  std::vector<int> used_;     // (group, color) -> edges
  ColorSets lacking_;         // by port
  ColorSets open_;            // by group
};

class Coloring {
 public:
  Coloring(std::span<const Edge> edges, const PortLimits& groups, int colors)
      : words_(words_for(colors)),
        sides_{Side(make_ports(edges, &Edge::from, groups, colors), groups.limit, colors),
               Side(make_ports(edges, &Edge::to, groups, colors), groups.limit, colors)} {
    edges_.reserve(edges.size());
    for (const Edge& edge : edges) {
      edges_.push_back({{sides_[kSend].port_of(edge.from), sides_[kReceive].port_of(edge.to)}, kNone});
    }
    for (int edge = 0; at(edge) < edges.size(); ++edge) insert(edge);
  }

  [[nodiscard]] std::vector<int> colors() const {
    std::vector<int> colors;
    colors.reserve(edges_.size());
    for (const Colored& edge : edges_) colors.push_back(edge.color);
    return colors;
  }

 private:
  static constexpr std::size_t kSend = 0;
  static constexpr std::size_t kReceive = 1;

  struct Colored {
    std::array<int, 2> port;
    int color;
  };

  template <class Set>
  [[nodiscard]] int first_color(std::size_t first_word, const Set& set) const {
    for (std::size_t word = first_word; word < words_; ++word) {
      const std::uint64_t bits = set(word);
      if (bits != 0) return static_cast<int>(word * kWordBits) + std::countr_zero(bits);
    }
    return kNone;
  }

  void insert(int edge);
  void insert_by_chains(int edge);
  int free_color(std::size_t side, int edge);
  void flip(int start, std::size_t side, int to, int stop);
  void collect_path(int start, std::size_t side, int to, int stop);

  std::size_t words_;
  std::array<Side, 2> sides_;
  std::vector<Colored> edges_;
  std::vector<int> path_;  // of the last flip
  int half_ = kNone;       // the edge that is attached to its sender only
};

void Coloring::insert(int edge) {
  Side& send = sides_[kSend];
  Side& receive = sides_[kReceive];
  const auto [from, to] = edges_[at(edge)].port;
  const int color = first_color(
      std::max(send.first_word(from), receive.first_word(to)),
      [&, from = from, to = to](std::size_t word) { return send.free(from, word) & receive.free(to, word); });
  if (color == kNone) return insert_by_chains(edge);
  edges_[at(edge)].color = color;
  send.attach(from, color, edge);
  receive.attach(to, color, edge);
}

void Coloring::insert_by_chains(int edge) {
  Side& receive = sides_[kReceive];
  const auto [from, to] = edges_[at(edge)].port;
  const int& color = edges_[at(edge)].color;  // that of its sender, which may change under way
  edges_[at(edge)].color = free_color(kSend, edge);
  sides_[kSend].attach(from, color, edge);
  half_ = edge;
  const int wanted = free_color(kReceive, edge);
  int start = receive.edge_of(to, color);
  if (start != kNone || receive.is_full(to, color)) {
    // An edge of the receiver must change from the sender's color to the wanted one. Its chain enters senders
    // by edges of the former and leaves by the latter, so it never gets to this edge.
    if (start == kNone) start = receive.nth_lone(to, color, wanted, kNone, 0);
    flip(start, kReceive, wanted, kNone);
  }
  receive.attach(to, color, edge);
  half_ = kNone;
}

// A color that the edge's port lacks and its group has room for; flips a chain where there is none.
int Coloring::free_color(std::size_t side, int edge) {
  Side& own = sides_[side];
  const int port = edges_[at(edge)].port[side];
  const int free = first_color(own.first_word(port), [&](std::size_t word) { return own.free(port, word); });
  if (free != kNone) return free;
  // The group is full of every color that the port lacks. Let another edge of the group change from one of
  // them to a color that the group has room for. The chain either leaves the port alone, and the first color
  // is free, or it comes back to the port's edge of the second, which changes to the first: then the second
  // is.
  const int lacks = first_color(0, [&](std::size_t word) { return own.lacking(port, word); });
  const int has = first_color(0, [&](std::size_t word) { return own.open(port, word); });
  invariant(lacks != kNone && has != kNone, "degrees within their limits");
  flip(own.nth_lone(port, lacks, has, kNone, 0), side, has, own.edge_of(port, has));
  return own.edge_of(port, lacks) == kNone ? lacks : has;
}

// Exchanges two colors along the path from `start`, which changes to `to`.
void Coloring::flip(int start, std::size_t side, int to, int stop) {
  const int from = edges_[at(start)].color;
  collect_path(start, side, to, stop);
  for (const int index : path_) {
    const Colored& edge = edges_[at(index)];
    sides_[kSend].detach(edge.port[kSend], edge.color);
    if (index != half_) sides_[kReceive].detach(edge.port[kReceive], edge.color);
  }
  for (const int index : path_) {
    Colored& edge = edges_[at(index)];
    edge.color = edge.color == from ? to : from;
    sides_[kSend].attach(edge.port[kSend], edge.color, index);
    if (index != half_) sides_[kReceive].attach(edge.port[kReceive], edge.color, index);
  }
}

// The path leads away from the end that `start` has on `side`. Where it arrives by an edge of one color it
// leaves by the port's edge of the other. If there is none but the group is full of the other color, some
// edge of the group has to change all the same: the partner of the one it arrived by. Pairs are the same
// whichever edge of them comes first, so no edge is on the path twice. `start` has no partner on its own
// side. The path ends at `stop` when it arrives there on `side`.
void Coloring::collect_path(int start, std::size_t side, int to, int stop) {
  path_.clear();
  int from = edges_[at(start)].color;
  std::size_t here = side;
  for (int edge = start; edge != kNone; std::swap(from, to)) {
    path_.push_back(edge);
    here = 1 - here;
    if ((edge == half_ && here == kReceive) || (edge == stop && here == side)) return;
    const Side& own = sides_[here];
    const int port = edges_[at(edge)].port[here];
    edge = own.edge_of(port, to);
    if (edge == kNone && own.is_full(port, to)) {
      edge = own.partner(port, from, to, here == side ? start : kNone);
    }
  }
}

}  // namespace

std::vector<int> color_edges(std::span<const Edge> edges, const PortLimits& groups, int colors) {
  invariant(colors >= 1 || edges.empty(), "edges need a color");
  return Coloring(edges, groups, colors).colors();
}

}  // namespace ntpsim::plan
