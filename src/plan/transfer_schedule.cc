#include "ntpsim/plan/transfer_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "edge_coloring.h"
#include "preemptive_rounds.h"

namespace ntpsim::plan {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

std::int64_t divided_up(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

Diagnostics errors_of(int ranks, std::span<const Message> messages) {
  Diagnostics errors;
  const auto error = [&errors](std::string message) { errors.error("", "", std::move(message)); };
  if (ranks < 1 || ranks > Traffic::kMaxRanks) {
    error("found " + std::to_string(ranks) + " ranks, expected 1 to " + std::to_string(Traffic::kMaxRanks));
    return errors;
  }
  if (messages.size() > Traffic::kMaxMessages) {
    error("found " + std::to_string(messages.size()) + " messages, expected at most " +
          std::to_string(Traffic::kMaxMessages));
    return errors;
  }
  std::int64_t room = Traffic::kMaxBytes;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const auto name = [i] { return "message " + std::to_string(i) + ": "; };
    const auto check_rank = [&](const char* role, int rank) {
      if (rank >= 0 && rank < ranks) return;
      error(name() + "found " + role + " " + std::to_string(rank) + ", expected a rank from 0 to " +
            std::to_string(ranks - 1));
    };
    check_rank("sender", message.from);
    check_rank("receiver", message.to);
    if (message.from == message.to) {
      error(name() + "found rank " + std::to_string(message.to) +
            " as sender and receiver, expected another receiver");
    }
    if (message.bytes < 1) {
      error(name() + "found " + std::to_string(message.bytes) + " bytes, expected at least 1");
    } else if (room >= 0) {
      room = message.bytes > room ? -1 : room - message.bytes;
    }
  }
  if (room < 0) {
    error("messages: found more than " + std::to_string(Traffic::kMaxBytes) +
          " bytes in all, expected at most so many");
  }
  return errors;
}

// Rank -> the first of its messages, which are ordered by that rank.
std::vector<std::size_t> begins(std::span<const Message> messages, int Message::* rank_of, int ranks) {
  std::vector<std::size_t> begin(at(ranks) + 1, 0);
  for (const Message& message : messages) ++begin[at(message.*rank_of) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  return begin;
}

std::vector<Edge> edges_of(const Traffic& traffic, std::span<const int> messages) {
  std::vector<Edge> edges;
  edges.reserve(messages.size());
  for (const int index : messages) {
    const Message& message = traffic.messages()[at(index)];
    edges.push_back({message.from, message.to});
  }
  return edges;
}

void sort_by_bytes(const Traffic& traffic, std::vector<int>& messages) {
  std::vector<std::pair<std::int64_t, int>> keys;
  keys.reserve(messages.size());
  for (const int index : messages) keys.emplace_back(-traffic.messages()[at(index)].bytes, index);
  std::ranges::sort(keys);
  std::ranges::transform(keys, messages.begin(), [](const auto& key) { return key.second; });
}

// Some of the messages in exactly `count` rounds, the largest first.
Rounds rounds_of(const Traffic& traffic, std::vector<int> messages, const PortLimits& groups, int count) {
  sort_by_bytes(traffic, messages);
  const std::vector<int> colors = color_edges(edges_of(traffic, messages), groups, count);
  std::vector<int> round_of(traffic.messages().size(), -1);
  Rounds rounds;
  rounds.objective = count;
  rounds.lower_bound = count;
  rounds.round_begin.assign(at(count) + 1, 0);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    round_of[at(messages[i])] = colors[i];
    ++rounds.round_begin[at(colors[i]) + 1];
  }
  std::partial_sum(rounds.round_begin.begin(), rounds.round_begin.end(), rounds.round_begin.begin());
  std::vector<std::size_t> next = rounds.round_begin;
  rounds.pieces.resize(messages.size());
  for (std::size_t i = 0; i < round_of.size(); ++i) {
    if (round_of[i] < 0) continue;
    rounds.pieces[next[at(round_of[i])]++] = {static_cast<int>(i), 0, traffic.messages()[i].bytes};
  }
  return rounds;
}

PortLimits no_groups(int ranks) {
  return {std::vector<int>(at(ranks), 0), std::numeric_limits<int>::max()};
}

// The most edges that one group of ranks sends or receives.
std::int64_t max_degree(std::span<const Edge> edges, std::span<const int> group_of) {
  std::vector<std::int64_t> sent(group_of.size(), 0);
  std::vector<std::int64_t> received(group_of.size(), 0);
  std::int64_t most = 0;
  for (const Edge& edge : edges) {
    most = std::max(most, ++sent[at(group_of[at(edge.from)])]);
    most = std::max(most, ++received[at(group_of[at(edge.to)])]);
  }
  return most;
}

Diagnostics node_errors(int ranks, std::span<const int> node_of, int nics_per_node) {
  Diagnostics errors;
  const auto error = [&errors](std::string message) { errors.error("", "", std::move(message)); };
  if (nics_per_node < 1) {
    error("found " + std::to_string(nics_per_node) + " NICs per node, expected at least 1");
  }
  if (node_of.size() != at(ranks)) {
    error("found nodes of " + std::to_string(node_of.size()) + " ranks, expected " + std::to_string(ranks));
  }
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    if (node_of[rank] >= 0 && node_of[rank] < ranks) continue;
    error("rank " + std::to_string(rank) + ": found node " + std::to_string(node_of[rank]) +
          ", expected one from 0 to " + std::to_string(ranks - 1));
  }
  return errors;
}

}  // namespace

Result<Traffic> Traffic::from_messages(int ranks, std::vector<Message> messages) {
  Diagnostics errors = errors_of(ranks, messages);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return Traffic(ranks, std::move(messages));
}

Traffic::Traffic(int ranks, std::vector<Message> messages)
    : messages_(std::move(messages)), sent_(at(ranks), 0), received_(at(ranks), 0) {
  std::vector<int> sends(at(ranks), 0);
  std::vector<int> receives(at(ranks), 0);
  for (const Message& message : messages_) {
    sent_[at(message.from)] += message.bytes;
    received_[at(message.to)] += message.bytes;
    total_ += message.bytes;
    max_degree_ = std::max({max_degree_, ++sends[at(message.from)], ++receives[at(message.to)]});
  }
  for (const std::int64_t bytes : sent_) bottleneck_ = std::max(bottleneck_, bytes);
  for (const std::int64_t bytes : received_) bottleneck_ = std::max(bottleneck_, bytes);
}

Traffic merged(const Traffic& traffic) {
  std::vector<Message> sorted(traffic.messages().begin(), traffic.messages().end());
  std::ranges::sort(sorted, {}, [](const Message& message) { return std::pair(message.from, message.to); });
  std::vector<Message> messages;
  for (const Message& message : sorted) {
    if (!messages.empty() && messages.back().from == message.from && messages.back().to == message.to) {
      messages.back().bytes += message.bytes;
    } else {
      messages.push_back(message);
    }
  }
  return *Traffic::from_messages(traffic.ranks(), std::move(messages));
}

GroupedAllToAll group_all_to_all(const Traffic& traffic) {
  const Traffic pairs = merged(traffic);
  GroupedAllToAll group;
  group.sends.assign(pairs.messages().begin(), pairs.messages().end());
  group.receives = group.sends;
  std::ranges::stable_sort(group.receives, {}, &Message::to);
  group.send_begin = begins(group.sends, &Message::from, traffic.ranks());
  group.receive_begin = begins(group.receives, &Message::to, traffic.ranks());
  group.bottleneck = traffic.bottleneck();
  return group;
}

std::span<const Message> GroupedAllToAll::sends_of(int rank) const {
  invariant(rank >= 0 && at(rank) + 1 < send_begin.size(), "rank within the traffic");
  return std::span(sends).subspan(send_begin[at(rank)], send_begin[at(rank) + 1] - send_begin[at(rank)]);
}

std::span<const Message> GroupedAllToAll::receives_of(int rank) const {
  invariant(rank >= 0 && at(rank) + 1 < receive_begin.size(), "rank within the traffic");
  return std::span(receives).subspan(receive_begin[at(rank)],
                                     receive_begin[at(rank) + 1] - receive_begin[at(rank)]);
}

std::span<const Piece> Rounds::round(int index) const {
  invariant(index >= 0 && index < size(), "round within the schedule");
  return std::span(pieces).subspan(round_begin[at(index)],
                                   round_begin[at(index) + 1] - round_begin[at(index)]);
}

std::int64_t Rounds::length() const {
  std::int64_t sum = 0;
  for (int index = 0; index < size(); ++index) {
    std::int64_t longest = 0;
    for (const Piece& piece : round(index)) longest = std::max(longest, piece.bytes);
    sum += longest;
  }
  return sum;
}

double Rounds::gap() const {
  return lower_bound == 0 ? 0
                          : static_cast<double>(objective - lower_bound) / static_cast<double>(lower_bound);
}

Rounds color_rounds(const Traffic& traffic) {
  std::vector<int> all(traffic.messages().size());
  std::iota(all.begin(), all.end(), 0);
  return rounds_of(traffic, std::move(all), no_groups(traffic.ranks()), traffic.max_degree());
}

Rounds weighted_rounds(const Traffic& traffic, const WeightedOptions& options) {
  invariant(options.quantum >= 1, "a quantum has bytes");
  invariant(options.max_gap >= 0 && options.max_gap <= 1, "max_gap from 0 to 1");
  const std::int64_t bound = traffic.bottleneck();
  const auto allowance = static_cast<std::int64_t>(options.max_gap * static_cast<double>(bound));
  const auto in_bytes = [bound](Rounds rounds) {
    rounds.objective = rounds.length();
    rounds.lower_bound = bound;
    return rounds;
  };
  Rounds whole = in_bytes(color_rounds(traffic));
  if (whole.objective <= bound + allowance) return whole;

  // Rounding each message up to units this large uses up no more than the gap.
  const std::int64_t coarse = allowance / traffic.max_degree();
  const std::int64_t unit = std::max(options.quantum, coarse / options.quantum * options.quantum);
  std::vector<std::int64_t> sent(traffic.sent().size(), 0);
  std::vector<std::int64_t> received(traffic.received().size(), 0);
  std::int64_t budget = (bound + allowance) / unit;
  for (const Message& message : traffic.messages()) {
    const std::int64_t units = divided_up(message.bytes, unit);
    budget = std::max({budget, sent[at(message.from)] += units, received[at(message.to)] += units});
  }
  Rounds cut = in_bytes(preemptive_rounds(traffic, unit, budget));
  return cut.objective < whole.objective ? std::move(cut) : std::move(whole);
}

Result<std::vector<Piece>> chunk(const Traffic& traffic, std::int64_t chunk_bytes, std::int64_t quantum) {
  invariant(quantum >= 1 && quantum <= chunk_bytes, "a chunk has at least one quantum of at least one byte");
  const std::int64_t most_quanta = chunk_bytes / quantum;
  const auto chunks_of = [=](const Message& message) {
    return divided_up(divided_up(message.bytes, quantum), most_quanta);
  };
  std::int64_t count = 0;  // no overflow: no more than bytes in all
  for (const Message& message : traffic.messages()) count += chunks_of(message);
  if (count > kMaxPieces) {
    Diagnostics errors;
    errors.error("", "",
                 "chunks of " + std::to_string(chunk_bytes) + " bytes: found " + std::to_string(count) +
                     " of them, expected at most " + std::to_string(kMaxPieces));
    return tl::unexpected(std::move(errors));
  }
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < traffic.messages().size(); ++i) {
    const Message& message = traffic.messages()[i];
    const std::int64_t quanta = divided_up(message.bytes, quantum);
    const std::int64_t chunks = chunks_of(message);
    std::int64_t offset = 0;
    for (std::int64_t c = 0; c < chunks; ++c) {
      // The larger ones last: the end of the message may be short of a quantum.
      const std::int64_t share = quanta / chunks + (c >= chunks - quanta % chunks ? 1 : 0);
      const std::int64_t bytes = c + 1 == chunks ? message.bytes - offset : share * quantum;
      pieces.push_back({static_cast<int>(i), offset, bytes});
      offset += bytes;
    }
  }
  return pieces;
}

Result<NodeRounds> node_rounds(const Traffic& traffic, std::span<const int> node_of, int nics_per_node) {
  Diagnostics errors = node_errors(traffic.ranks(), node_of, nics_per_node);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  std::vector<int> across;
  std::vector<int> within;
  for (std::size_t i = 0; i < traffic.messages().size(); ++i) {
    const Message& message = traffic.messages()[i];
    const bool same_node = node_of[at(message.from)] == node_of[at(message.to)];
    (same_node ? within : across).push_back(static_cast<int>(i));
  }
  std::vector<int> itself(at(traffic.ranks()));
  std::iota(itself.begin(), itself.end(), 0);
  const std::vector<Edge> across_edges = edges_of(traffic, across);
  const auto across_count = static_cast<int>(std::max(
      max_degree(across_edges, itself), divided_up(max_degree(across_edges, node_of), nics_per_node)));
  const auto within_count = static_cast<int>(max_degree(edges_of(traffic, within), itself));
  NodeRounds rounds;
  rounds.across =
      rounds_of(traffic, std::move(across), {{node_of.begin(), node_of.end()}, nics_per_node}, across_count);
  rounds.within = rounds_of(traffic, std::move(within), no_groups(traffic.ranks()), within_count);
  return rounds;
}

}  // namespace ntpsim::plan
