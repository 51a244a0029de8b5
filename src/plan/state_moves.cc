#include "ntpsim/plan/state_moves.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "errors.h"

namespace ntpsim::plan {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::string text(const UnitRange& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

std::string text(const OwnedRange& range) {
  return text(range.units) + " of rank " + std::to_string(range.rank);
}

std::tuple<int, std::int64_t, std::int64_t> by_rank(const OwnedRange& range) {
  return {range.rank, range.units.begin, range.units.end};
}

// ---- placements ----

bool is_within(const UnitRange& range, std::int64_t size) {
  return range.begin >= 0 && range.begin < range.end && range.end <= size;
}

Diagnostics errors_of(std::int64_t size, const std::vector<OwnedRange>& sorted) {
  Diagnostics errors;
  const auto error = [&errors](std::string message) { add_error(errors, std::move(message)); };
  if (size < 0) {
    error("placement: found size " + std::to_string(size) + ", expected none or more");
    return errors;
  }
  std::int64_t held = 0;
  bool too_many = false;
  const OwnedRange* longest = nullptr;  // of this rank's ranges so far, the one that ends last
  for (const OwnedRange& range : sorted) {
    if (range.rank < 0) error(text(range) + ": expected a rank of at least 0");
    if (!is_within(range.units, size)) {
      error(text(range) + ": expected a range that is not empty, within [0, " + std::to_string(size) + ")");
      continue;
    }
    too_many = too_many || held > kMost - range.units.size();
    if (!too_many) held += range.units.size();
    const bool same_rank = longest != nullptr && longest->rank == range.rank;
    if (same_rank && range.units.begin < longest->units.end) {
      error(text(range) + ": overlaps " + text(longest->units) + " of the same rank");
    }
    if (!same_rank || range.units.end > longest->units.end) longest = &range;
  }
  if (too_many) {
    error("placement: ranges of more than " + std::to_string(kMost) + " indices in all, expected fewer");
  }
  return errors;
}

// The indices of a unit range, or an error where they do not fit.
Diagnostics scale_errors(std::int64_t units, std::int64_t unit_elements) {
  Diagnostics errors;
  if (unit_elements < 1) {
    add_error(errors, "found " + std::to_string(unit_elements) + " elements a unit, expected at least 1");
  } else if (units > kMost / unit_elements) {
    add_error(errors, std::to_string(units) + " units of " + std::to_string(unit_elements) +
                          " elements: expected at most " + std::to_string(kMost) + " elements");
  }
  return errors;
}

UnitRange scaled(const UnitRange& units, std::int64_t unit_elements) {
  return {units.begin * unit_elements, units.end * unit_elements};
}

void check_ranks(Diagnostics& errors, std::size_t list, const std::vector<int>& ranks, int degree) {
  if (ranks.size() == at(degree)) return;
  add_error(errors, "rank list " + std::to_string(list) + ": found " + std::to_string(ranks.size()) +
                        " ranks, expected one for each of " + std::to_string(degree));
}

void append_replica(std::vector<OwnedRange>& ranges, const ShardLayout& layout, const std::vector<int>& ranks,
                    std::int64_t unit_elements) {
  for (const OwnedRange& range : layout.ranges()) {
    ranges.push_back({scaled(range.units, unit_elements), ranks[at(range.rank)]});
  }
}

// Cuts one shard, stored as these ranges one after the other, evenly over ranks[.][position].
void append_pieces(std::vector<OwnedRange>& ranges, std::span<const UnitRange> shard,
                   std::span<const std::vector<int>> ranks, int position, std::int64_t unit_elements) {
  std::int64_t length = 0;
  for (const UnitRange& units : shard) length += units.size() * unit_elements;
  const ShardLayout cut(length, static_cast<int>(ranks.size()));
  auto piece = cut.ranges().begin();
  std::int64_t local = 0;  // where `units` begins in the shard
  for (const UnitRange& units : shard) {
    UnitRange rest = scaled(units, unit_elements);
    while (rest.size() > 0) {
      const std::int64_t size = std::min(rest.size(), piece->units.end - local);
      ranges.push_back({{rest.begin, rest.begin + size}, ranks[at(piece->rank)][at(position)]});
      rest.begin += size;
      local += size;
      if (local == piece->units.end) ++piece;
    }
  }
}

// ---- what is missing ----

// Many lists of small numbers in one array.
struct Lists {
  std::vector<std::size_t> begin = {0};  // of each list; one more entry than lists
  std::vector<int> items;

  [[nodiscard]] std::span<const int> operator[](std::size_t list) const {
    return std::span(items).subspan(begin[list], begin[list + 1] - begin[list]);
  }
  void push_back(std::span<const int> list) {
    items.insert(items.end(), list.begin(), list.end());
    begin.push_back(items.size());
  }
};

// What a rank wants, told apart by whether it has it.
struct Comparison {
  std::vector<OwnedRange> kept;
  std::vector<OwnedRange> missing;
};

Comparison compare(const Placement& have, const Placement& want) {
  Comparison result;
  auto held = have.ranges().begin();
  const auto end = have.ranges().end();
  for (const OwnedRange& wanted : want.ranges()) {
    std::int64_t next = wanted.units.begin;
    while (held != end && std::pair(held->rank, held->units.end) <= std::pair(wanted.rank, next)) ++held;
    for (auto other = held; next < wanted.units.end; ++other) {
      const bool overlaps =
          other != end && other->rank == wanted.rank && other->units.begin < wanted.units.end;
      const std::int64_t begin = overlaps ? std::max(next, other->units.begin) : wanted.units.end;
      if (next < begin) result.missing.push_back({{next, begin}, wanted.rank});
      if (!overlaps) break;
      next = std::min(wanted.units.end, other->units.end);
      result.kept.push_back({{begin, next}, wanted.rank});
    }
  }
  return result;
}

// All ranks that matter, ascending; the planner numbers them by their place here.
std::vector<int> all_ranks(std::span<const OwnedRange> have, std::span<const OwnedRange> missing) {
  std::vector<int> ranks;
  ranks.reserve(have.size() + missing.size());
  for (const OwnedRange& range : have) ranks.push_back(range.rank);
  for (const OwnedRange& range : missing) ranks.push_back(range.rank);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<OwnedRange> renumbered(std::span<const OwnedRange> ranges, std::span<const int> ranks) {
  std::vector<OwnedRange> result(ranges.begin(), ranges.end());
  std::size_t number = 0;
  for (OwnedRange& range : result) {
    while (ranks[number] != range.rank) ++number;
    range.rank = static_cast<int>(number);
  }
  return result;
}

std::size_t index_in(const std::vector<std::int64_t>& sorted, std::int64_t value) {
  return static_cast<std::size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin());
}

// The missing indices, cut wherever a range of someone begins or ends.
std::vector<UnitRange> pieces_of(std::span<const OwnedRange> have, std::span<const OwnedRange> missing) {
  std::vector<std::int64_t> cuts;
  cuts.reserve(2 * (have.size() + missing.size()));
  for (const std::span<const OwnedRange> ranges : {have, missing}) {
    for (const OwnedRange& range : ranges) cuts.insert(cuts.end(), {range.units.begin, range.units.end});
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<std::int64_t> change(cuts.size(), 0);  // of the number of ranks that lack what follows the cut
  for (const OwnedRange& range : missing) {
    ++change[index_in(cuts, range.units.begin)];
    --change[index_in(cuts, range.units.end)];
  }
  std::vector<UnitRange> pieces;
  std::int64_t lacking = 0;
  for (std::size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
    lacking += change[cut];
    if (lacking > 0) pieces.push_back({cuts[cut], cuts[cut + 1]});
  }
  return pieces;
}

// For each piece the ranks of the ranges that cover it, in the order of the ranges.
Lists ranks_over(const std::vector<UnitRange>& pieces, std::span<const OwnedRange> ranges) {
  const auto first_from = [&pieces](std::int64_t index) {
    return static_cast<std::size_t>(std::ranges::lower_bound(pieces, index, {}, &UnitRange::begin) -
                                    pieces.begin());
  };
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  spans.reserve(ranges.size());
  Lists lists;
  lists.begin.assign(pieces.size() + 1, 0);
  for (const OwnedRange& range : ranges) {
    const auto [first, last] = spans.emplace_back(first_from(range.units.begin), first_from(range.units.end));
    for (std::size_t piece = first; piece < last; ++piece) ++lists.begin[piece + 1];
  }
  std::partial_sum(lists.begin.begin(), lists.begin.end(), lists.begin.begin());
  lists.items.resize(lists.begin.back());
  std::vector<std::size_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (std::size_t piece = spans[i].first; piece < spans[i].second; ++piece) {
      lists.items[next[piece]++] = ranges[i].rank;
    }
  }
  return lists;
}

// ---- the choice of sources ----

// Who sent the piece that a rank got last, and where that piece ends.
struct LastSource {
  std::int64_t end = -1;
  int rank = 0;
};

constexpr std::size_t kNoEdge = std::numeric_limits<std::size_t>::max();

// Ranges to send over one network, ascending: each wanter lacks the whole of it, and may get it from any of
// the holders. An edge is a pair of a demand and one of its holders, numbered as in `holders.items`.
struct Demands {
  std::vector<UnitRange> units;
  Lists wanters;
  Lists holders;  // ascending

  void add(const UnitRange& range, std::span<const int> to, std::span<const int> from) {
    units.push_back(range);
    wanters.push_back(to);
    holders.push_back(from);
  }
  [[nodiscard]] std::int64_t amount(std::size_t demand) const {
    return units[demand].size() * static_cast<std::int64_t>(wanters[demand].size());
  }
  // With which the source that has sent what lies before the demand goes on.
  [[nodiscard]] std::size_t edge_to_continue(std::size_t demand, const LastSource& last) const {
    if (last.end != units[demand].begin) return kNoEdge;
    const auto found = std::ranges::lower_bound(holders[demand], last.rank);
    if (found == holders[demand].end() || *found != last.rank) return kNoEdge;
    return holders.begin[demand] + static_cast<std::size_t>(found - holders[demand].begin());
  }
};

std::int64_t max_received(const Demands& demands, std::size_t ranks) {
  std::vector<std::int64_t> received(ranks, 0);
  std::int64_t most = 0;
  for (std::size_t demand = 0; demand < demands.units.size(); ++demand) {
    for (const int wanter : demands.wanters[demand]) {
      received[at(wanter)] += demands.units[demand].size();
      most = std::max(most, received[at(wanter)]);
    }
  }
  return most;
}

// How much each holder sends for each demand, so that the bottleneck is least. Nodes of the flow network are
// the demands and, after them, the ranks.
class SourceChoice {
 public:
  SourceChoice(const Demands& demands, std::size_t ranks);

  /// By edge.
  [[nodiscard]] const std::vector<std::int64_t>& sent() const { return sent_; }
  [[nodiscard]] std::int64_t max_sent() const { return load_.empty() ? 0 : std::ranges::max(load_); }
  /// The least capacity of the ranks that serves all demands, if it is more than what some rank receives.
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }

 private:
  [[nodiscard]] bool is_rank(std::size_t node) const { return node >= rest_.size(); }
  [[nodiscard]] std::size_t rank_of(std::size_t edge) const { return at(demands_.holders.items[edge]); }
  /// The other end of an edge.
  [[nodiscard]] std::size_t beyond(std::size_t node, std::size_t edge) const {
    return is_rank(node) ? demand_of_[edge] : rest_.size() + rank_of(edge);
  }
  [[nodiscard]] std::int64_t room(std::size_t node) const { return capacity_ - load_[node - rest_.size()]; }
  /// Can more flow from the node over the edge? A rank passes on only what a demand has given it.
  [[nodiscard]] bool is_open(std::size_t node, std::size_t edge) const {
    return !is_rank(node) || sent_[edge] > 0;
  }

  void index_edges();
  void send(std::size_t edge, std::int64_t amount);
  void choose_greedily();
  void choose_greedily(std::size_t demand, std::vector<LastSource>& last);
  [[nodiscard]] bool find_levels();
  void push_from(std::size_t demand);
  void send_along_path();
  void raise_capacity();

  struct Step {
    std::size_t node = 0;
    std::size_t edge = 0;
  };

  const Demands& demands_;
  std::int64_t capacity_;
  std::vector<std::int64_t> rest_;  // demand -> what no holder sends yet
  std::vector<std::int64_t> sent_;  // by edge
  std::vector<std::int64_t> load_;  // by rank

  std::vector<std::size_t> demand_of_;    // by edge
  std::vector<std::size_t> edges_;        // by node
  std::vector<std::size_t> edges_begin_;  // node -> its first edge; one more entry than nodes

  static constexpr int kNoLevel = -1;
  std::vector<int> level_;          // by node: distance from a demand that is not served
  std::vector<std::size_t> queue_;  // nodes with a level
  std::vector<std::size_t> next_;   // node -> the edge to try next
  std::vector<Step> path_;
};

SourceChoice::SourceChoice(const Demands& demands, std::size_t ranks)
    : demands_(demands), capacity_(max_received(demands, ranks)), load_(ranks, 0) {
  for (std::size_t demand = 0; demand < demands.units.size(); ++demand) {
    rest_.push_back(demands.amount(demand));
  }
  sent_.assign(demands.holders.items.size(), 0);
  choose_greedily();
  const auto unserved = [](std::int64_t rest) { return rest > 0; };
  if (std::ranges::none_of(rest_, unserved)) return;
  index_edges();
  while (std::ranges::any_of(rest_, unserved)) {
    if (find_levels()) {
      for (std::size_t demand = 0; demand < rest_.size(); ++demand) push_from(demand);
    } else {
      raise_capacity();
      choose_greedily();
    }
  }
}

void SourceChoice::index_edges() {
  const std::size_t demand_count = rest_.size();
  const std::size_t edge_count = sent_.size();
  demand_of_.resize(edge_count);
  edges_.resize(2 * edge_count);
  edges_begin_ = demands_.holders.begin;
  edges_begin_.resize(demand_count + load_.size() + 1, 0);
  for (std::size_t edge = 0; edge < edge_count; ++edge) ++edges_begin_[demand_count + rank_of(edge) + 1];
  std::partial_sum(edges_begin_.begin() + static_cast<std::ptrdiff_t>(demand_count), edges_begin_.end(),
                   edges_begin_.begin() + static_cast<std::ptrdiff_t>(demand_count));
  next_ = edges_begin_;
  for (std::size_t demand = 0; demand < demand_count; ++demand) {
    for (std::size_t edge = edges_begin_[demand]; edge < demands_.holders.begin[demand + 1]; ++edge) {
      demand_of_[edge] = demand;
      edges_[edge] = edge;
      edges_[next_[demand_count + rank_of(edge)]++] = edge;
    }
  }
}

void SourceChoice::send(std::size_t edge, std::int64_t amount) {
  sent_[edge] += amount;
  load_[rank_of(edge)] += amount;
}

void SourceChoice::choose_greedily() {
  std::vector<LastSource> last(load_.size());  // by wanter
  for (std::size_t demand = 0; demand < rest_.size(); ++demand) {
    if (rest_[demand] > 0) choose_greedily(demand, last);
  }
}

// One copy after the other, from the source of what lies before it, else from the least loaded holder.
void SourceChoice::choose_greedily(std::size_t demand, std::vector<LastSource>& last) {
  const UnitRange& units = demands_.units[demand];
  std::vector<int> others;
  for (const int wanter : demands_.wanters[demand]) {
    const std::size_t edge = demands_.edge_to_continue(demand, last[at(wanter)]);
    if (edge == kNoEdge || std::min(capacity_ - load_[rank_of(edge)], rest_[demand]) < units.size()) {
      others.push_back(wanter);
      continue;
    }
    send(edge, units.size());
    rest_[demand] -= units.size();
    last[at(wanter)].end = units.end;
  }
  if (rest_[demand] == 0) return;
  using Choice = std::pair<std::int64_t, std::size_t>;  // load and edge
  std::vector<Choice> choices;
  for (std::size_t edge = demands_.holders.begin[demand]; edge < demands_.holders.begin[demand + 1]; ++edge) {
    choices.emplace_back(load_[rank_of(edge)], edge);
  }
  std::priority_queue<Choice, std::vector<Choice>, std::greater<>> least_loaded(std::greater<>(),
                                                                                std::move(choices));
  auto wanter = others.begin();
  while (rest_[demand] > 0 && least_loaded.top().first < capacity_) {
    const auto [load, edge] = least_loaded.top();
    least_loaded.pop();
    const std::int64_t amount = std::min({rest_[demand], units.size(), capacity_ - load});
    send(edge, amount);
    rest_[demand] -= amount;
    least_loaded.emplace(load + amount, edge);
    if (wanter != others.end()) last[at(*wanter++)] = {units.end, demands_.holders.items[edge]};
  }
}

// Breadth first from the demands that are not served, as far as the nearest ranks with room; false when none
// is in reach.
bool SourceChoice::find_levels() {
  level_.assign(rest_.size() + load_.size(), kNoLevel);
  next_.assign(edges_begin_.begin(), edges_begin_.end() - 1);
  queue_.clear();
  for (std::size_t demand = 0; demand < rest_.size(); ++demand) {
    if (rest_[demand] == 0) continue;
    level_[demand] = 0;
    queue_.push_back(demand);
  }
  int last = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < queue_.size() && level_[queue_[i]] < last; ++i) {
    const std::size_t node = queue_[i];
    for (std::size_t k = edges_begin_[node]; k < edges_begin_[node + 1]; ++k) {
      const std::size_t other = beyond(node, edges_[k]);
      if (level_[other] != kNoLevel || !is_open(node, edges_[k])) continue;
      level_[other] = level_[node] + 1;
      queue_.push_back(other);
      if (is_rank(other) && room(other) > 0) last = level_[other];
    }
  }
  return last != std::numeric_limits<int>::max();
}

// Depth first along rising levels, to all ranks with room that the demand reaches. A node from which no path
// leads on loses its level.
void SourceChoice::push_from(std::size_t demand) {
  path_.clear();
  std::size_t node = demand;
  while (rest_[demand] > 0 && level_[demand] != kNoLevel) {
    if (is_rank(node) && room(node) > 0) {
      send_along_path();
      path_.clear();
      node = demand;
      continue;
    }
    const auto leads_on = [this, node](std::size_t edge) {
      return is_open(node, edge) && level_[beyond(node, edge)] == level_[node] + 1;
    };
    while (next_[node] < edges_begin_[node + 1] && !leads_on(edges_[next_[node]])) ++next_[node];
    if (next_[node] < edges_begin_[node + 1]) {
      path_.push_back({node, edges_[next_[node]]});
      node = beyond(node, path_.back().edge);
      continue;
    }
    level_[node] = kNoLevel;
    if (path_.empty()) return;
    node = path_.back().node;
    path_.pop_back();
  }
}

// Along the path, ranks hand demands on to other ranks; the last has room.
void SourceChoice::send_along_path() {
  const std::size_t first = path_.front().node;
  std::int64_t amount = std::min(rest_[first], room(beyond(path_.back().node, path_.back().edge)));
  for (const Step& step : path_) {
    if (is_rank(step.node)) amount = std::min(amount, sent_[step.edge]);
  }
  for (const Step& step : path_) send(step.edge, is_rank(step.node) ? -amount : amount);
  rest_[first] -= amount;
}

// The demands in reach have no holders but the ranks in reach, and these are full.
void SourceChoice::raise_capacity() {
  std::int64_t amount = 0;
  std::int64_t ranks = 0;
  for (const std::size_t node : queue_) {
    if (is_rank(node)) {
      ++ranks;
    } else {
      amount += demands_.amount(node);
    }
  }
  const std::int64_t bound = max_units(amount, ranks);
  invariant(bound > capacity_, "a flow that falls short has a cut above its capacity");
  capacity_ = bound;
}

// ---- the plan ----

class Planner {
 public:
  Planner(const Placement& have, const Placement& want, const MoveOptions& options)
      : options_(options),
        comparison_(compare(have, want)),
        ranks_(all_ranks(have.ranges(), comparison_.missing)) {
    const std::vector<OwnedRange> holders = renumbered(have.ranges(), ranks_);
    const std::vector<OwnedRange> wanters = renumbered(comparison_.missing, ranks_);
    const std::vector<UnitRange> pieces = pieces_of(holders, wanters);
    const Lists holders_of = ranks_over(pieces, holders);
    const Lists wanters_of = ranks_over(pieces, wanters);
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      route(pieces[piece], wanters_of[piece], holders_of[piece]);
    }
  }

  MovePlan plan() && {
    MovePlan plan;
    plan.kept = std::move(comparison_.kept);
    (options_.checkpoint_available ? plan.checkpoint_reads : plan.lost) = std::move(unheld_);
    plan.within_domains = choose_sources(within_, plan.transfers);
    plan.across_domains = choose_sources(across_, plan.transfers);
    std::ranges::sort(plan.transfers, {}, [](const Transfer& t) { return std::pair(t.to, t.units.begin); });
    return plan;
  }

 private:
  void route(const UnitRange& units, std::span<const int> wanters, std::span<const int> holders);
  void add_unheld(const UnitRange& units, std::span<const int> wanters);
  [[nodiscard]] std::vector<int> by_domain(std::span<const int> ranks) const;
  [[nodiscard]] int domain_of(int rank) const { return options_.domain_of[at(ranks_[at(rank)])]; }
  MoveTraffic choose_sources(const Demands& demands, std::vector<Transfer>& transfers) const;
  void append_transfers(const Demands& demands, const SourceChoice& choice,
                        std::vector<Transfer>& transfers) const;

  const MoveOptions& options_;
  Comparison comparison_;
  std::vector<int> ranks_;
  Demands within_;
  Demands across_;
  std::vector<WantedRange> unheld_;
};

// Decides over which network each wanter gets a piece.
void Planner::route(const UnitRange& units, std::span<const int> wanters, std::span<const int> holders) {
  if (holders.empty()) return add_unheld(units, wanters);
  if (options_.domain_of.empty()) return across_.add(units, wanters, holders);
  const auto domain = [this](int rank) { return domain_of(rank); };
  const std::vector<int> to = by_domain(wanters);
  const std::vector<int> from = by_domain(holders);
  std::vector<int> far;
  for (auto first = to.begin(); first != to.end();) {
    const auto last = std::ranges::upper_bound(first, to.end(), domain_of(*first), {}, domain);
    const auto near = std::ranges::equal_range(from, domain_of(*first), {}, domain);
    if (near.empty()) {
      far.insert(far.end(), first, last);
    } else {
      within_.add(units, {first, last}, near);
    }
    first = last;
  }
  if (!far.empty()) across_.add(units, far, holders);
}

void Planner::add_unheld(const UnitRange& units, std::span<const int> wanters) {
  WantedRange wanted{units, {}};
  for (const int wanter : wanters) wanted.ranks.push_back(ranks_[at(wanter)]);
  if (!unheld_.empty() && unheld_.back().units.end == units.begin && unheld_.back().ranks == wanted.ranks) {
    unheld_.back().units.end = units.end;
  } else {
    unheld_.push_back(std::move(wanted));
  }
}

std::vector<int> Planner::by_domain(std::span<const int> ranks) const {
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted, {}, [this](int rank) { return std::pair(domain_of(rank), rank); });
  return sorted;
}

MoveTraffic Planner::choose_sources(const Demands& demands, std::vector<Transfer>& transfers) const {
  const SourceChoice choice(demands, ranks_.size());
  append_transfers(demands, choice, transfers);
  MoveTraffic traffic;
  for (std::size_t demand = 0; demand < demands.units.size(); ++demand) {
    traffic.total += demands.amount(demand);
  }
  traffic.max_sent = choice.max_sent();
  traffic.max_received = max_received(demands, ranks_.size());
  traffic.lower_bound = choice.capacity();
  return traffic;
}

// Deals what the holders send out to the wanters: first to those that go on with the same source, so that
// transfers become long.
void Planner::append_transfers(const Demands& demands, const SourceChoice& choice,
                               std::vector<Transfer>& transfers) const {
  std::vector<LastSource> last(ranks_.size());       // by wanter
  std::vector<std::size_t> transfer(ranks_.size());  // by wanter: what it gets from there
  std::vector<std::int64_t> left = choice.sent();
  const auto deal = [&](std::size_t edge, int wanter, const UnitRange& units) {
    const int holder = demands.holders.items[edge];
    const std::int64_t end = units.begin + std::min(left[edge], units.size());
    if (end == units.begin) return end;
    if (last[at(wanter)].end == units.begin && last[at(wanter)].rank == holder) {
      transfers[transfer[at(wanter)]].units.end = end;
    } else {
      transfer[at(wanter)] = transfers.size();
      transfers.push_back({ranks_[at(holder)], ranks_[at(wanter)], {units.begin, end}});
    }
    last[at(wanter)] = {end, holder};
    left[edge] -= end - units.begin;
    return end;
  };
  std::vector<OwnedRange> others;
  for (std::size_t demand = 0; demand < demands.units.size(); ++demand) {
    others.clear();
    for (const int wanter : demands.wanters[demand]) {
      UnitRange units = demands.units[demand];
      const std::size_t edge = demands.edge_to_continue(demand, last[at(wanter)]);
      if (edge != kNoEdge) units.begin = deal(edge, wanter, units);
      if (units.size() > 0) others.push_back({units, wanter});
    }
    std::size_t edge = demands.holders.begin[demand];
    for (auto& [units, wanter] : others) {
      while (units.size() > 0) {
        while (left[edge] == 0) ++edge;
        units.begin = deal(edge, wanter, units);
      }
    }
  }
}

bool covers(std::span<const int> domain_of, const Placement& placement) {
  return domain_of.empty() || placement.ranges().empty() ||
         at(placement.ranges().back().rank) < domain_of.size();
}

}  // namespace

Placement::Placement(std::int64_t size, std::vector<OwnedRange> ranges)
    : size_(size), ranges_(std::move(ranges)) {}

Result<Placement> Placement::from_ranges(std::int64_t size, std::vector<OwnedRange> ranges) {
  std::ranges::sort(ranges, {}, by_rank);
  Diagnostics errors = errors_of(size, ranges);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  std::vector<OwnedRange> merged;
  merged.reserve(ranges.size());
  for (const OwnedRange& range : ranges) {
    if (!merged.empty() && merged.back().rank == range.rank && merged.back().units.end == range.units.begin) {
      merged.back().units.end = range.units.end;
    } else {
      merged.push_back(range);
    }
  }
  return Placement(size, std::move(merged));
}

std::span<const OwnedRange> Placement::ranges_of(int rank) const {
  const auto found = std::ranges::equal_range(ranges_, rank, {}, &OwnedRange::rank);
  return {found.begin(), found.end()};
}

Placement Placement::without(std::span<const int> ranks) const {
  std::vector<int> gone(ranks.begin(), ranks.end());
  std::ranges::sort(gone);
  std::vector<OwnedRange> left;
  left.reserve(ranges_.size());
  std::ranges::copy_if(ranges_, std::back_inserter(left), [&gone](const OwnedRange& range) {
    return !std::ranges::binary_search(gone, range.rank);
  });
  return {size_, std::move(left)};
}

Result<Placement> replicated(std::span<const ReplicaShards> replicas, std::int64_t unit_elements) {
  Diagnostics errors;
  if (replicas.empty()) {
    add_error(errors, "found no replica, expected at least one");
    return tl::unexpected(std::move(errors));
  }
  const std::int64_t units = replicas.front().layout.units();
  errors = scale_errors(units, unit_elements);
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    const ShardLayout& layout = replicas[r].layout;
    check_ranks(errors, r, replicas[r].ranks, layout.degree());
    if (layout.units() == units) continue;
    add_error(errors, "replica " + std::to_string(r) + ": found " + std::to_string(layout.units()) +
                          " units, expected " + std::to_string(units) + " as in the first replica");
  }
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  std::vector<OwnedRange> ranges;
  for (const ReplicaShards& replica : replicas) {
    append_replica(ranges, replica.layout, replica.ranks, unit_elements);
  }
  return Placement::from_ranges(units * unit_elements, std::move(ranges));
}

Result<Placement> replicated(const ShardLayout& layout, std::span<const std::vector<int>> ranks,
                             std::int64_t unit_elements) {
  Diagnostics errors = scale_errors(layout.units(), unit_elements);
  for (std::size_t r = 0; r < ranks.size(); ++r) check_ranks(errors, r, ranks[r], layout.degree());
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  std::vector<OwnedRange> ranges;
  ranges.reserve(ranks.size() * layout.ranges().size());
  for (const std::vector<int>& replica : ranks) append_replica(ranges, layout, replica, unit_elements);
  return Placement::from_ranges(layout.units() * unit_elements, std::move(ranges));
}

Result<Placement> distributed_optimizer(const ShardLayout& sync, std::span<const std::vector<int>> ranks,
                                        std::int64_t unit_elements) {
  Diagnostics errors = scale_errors(sync.units(), unit_elements);
  for (std::size_t d = 0; d < ranks.size(); ++d) check_ranks(errors, d, ranks[d], sync.degree());
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  std::vector<OwnedRange> ranges;
  for (int position = 0; position < sync.degree() && !ranks.empty(); ++position) {
    append_pieces(ranges, sync.ranges_of(position), ranks, position, unit_elements);
  }
  return Placement::from_ranges(sync.units() * unit_elements, std::move(ranges));
}

Result<MovePlan> MovePlan::make(const Placement& have, const Placement& want, const MoveOptions& options) {
  Diagnostics errors;
  if (have.size() != want.size()) {
    add_error(errors, "want: found a placement of " + std::to_string(want.size()) + " indices, expected " +
                          std::to_string(have.size()) + " as in the one to move from");
  }
  for (const Placement* placement : {&have, &want}) {
    if (covers(options.domain_of, *placement)) continue;
    add_error(errors, "domain_of: found domains of " + std::to_string(options.domain_of.size()) +
                          " ranks, expected one of rank " + std::to_string(placement->ranges().back().rank) +
                          " too");
  }
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return plan_moves(have, want, options);
}

MovePlan plan_moves(const Placement& have, const Placement& want, const MoveOptions& options) {
  invariant(have.size() == want.size(), "both placements are of the same tensor");
  invariant(covers(options.domain_of, have) && covers(options.domain_of, want), "every rank has a domain");
  return Planner(have, want, options).plan();
}

std::string describe_lost(std::span<const WantedRange> lost, std::string_view noun) {
  if (lost.empty()) return "";
  std::vector<UnitRange> ranges;
  for (const WantedRange& wanted : lost) {
    if (!ranges.empty() && ranges.back().end == wanted.units.begin) {
      ranges.back().end = wanted.units.end;
    } else {
      ranges.push_back(wanted.units);
    }
  }
  constexpr std::size_t kNamed = 8;
  const std::size_t named = std::min(ranges.size(), kNamed);
  std::string words(noun);
  for (std::size_t i = 0; i < named; ++i) {
    const std::string_view before = i == 0 ? " " : i + 1 == ranges.size() ? " and " : ", ";
    words.append(before).append(text(ranges[i]));
  }
  if (named < ranges.size()) words += " and " + std::to_string(ranges.size() - named) + " more ranges";
  return words + " have no surviving copy";
}

}  // namespace ntpsim::plan
