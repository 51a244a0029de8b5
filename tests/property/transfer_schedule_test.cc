#include "ntpsim/plan/transfer_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

#include "draw.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::plan::chunk;
using ntpsim::plan::color_rounds;
using ntpsim::plan::group_all_to_all;
using ntpsim::plan::merged;
using ntpsim::plan::Message;
using ntpsim::plan::node_rounds;
using ntpsim::plan::Piece;
using ntpsim::plan::Rounds;
using ntpsim::plan::Traffic;
using ntpsim::plan::weighted_rounds;
using ntpsim::plan::WeightedOptions;
using ntpsim::testing::draw;

int draw_int(RandomStream& random, int low, int high) {
  return static_cast<int>(draw(random, low, high));
}

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

Traffic make(int ranks, std::vector<Message> messages) {
  auto traffic = Traffic::from_messages(ranks, std::move(messages));
  REQUIRE(traffic.has_value());
  return *traffic;
}

Message random_message(RandomStream& random, int ranks, std::int64_t most_bytes) {
  Message message;
  message.from = draw_int(random, 0, ranks - 1);
  message.to = (message.from + draw_int(random, 1, ranks - 1)) % ranks;
  message.bytes = draw(random, 1, most_bytes);
  return message;
}

template <class T>
void shuffle(RandomStream& random, std::vector<T>& values) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.next_index(i)]);
}

// Messages at random; of a few pairs only; or such that every rank sends and receives equally many, which
// leaves no room for a wrong turn. All of them may have parallel messages.
Traffic random_traffic(RandomStream& random, int most_ranks, int most_messages, std::int64_t most_bytes) {
  const int ranks = draw_int(random, 2, most_ranks);
  const int count = draw_int(random, 0, most_messages);
  std::vector<Message> messages;
  switch (draw_int(random, 0, 2)) {
    case 0:
      for (int i = 0; i < count; ++i) messages.push_back(random_message(random, ranks, most_bytes));
      break;
    case 1:
      while (std::cmp_less(messages.size(), count)) {
        const Message message = random_message(random, ranks, most_bytes);
        for (int copies = draw_int(random, 1, 20); copies > 0; --copies) messages.push_back(message);
      }
      break;
    default:
      for (int round = 0; round < count / ranks; ++round) {
        const int shift = draw_int(random, 1, ranks - 1);
        for (int from = 0; from < ranks; ++from) {
          messages.push_back({from, (from + shift) % ranks, draw(random, 1, most_bytes)});
        }
      }
      shuffle(random, messages);
  }
  return make(ranks, std::move(messages));
}

struct Degrees {
  std::map<int, int> sends;
  std::map<int, int> receives;

  void count(int from, int to) {
    ++sends[from];
    ++receives[to];
  }
  [[nodiscard]] int most() const {
    int most = 0;
    for (const auto& [key, count] : sends) most = std::max(most, count);
    for (const auto& [key, count] : receives) most = std::max(most, count);
    return most;
  }
};

int max_degree(const Traffic& traffic) {
  Degrees degrees;
  for (const Message& message : traffic.messages()) degrees.count(message.from, message.to);
  return degrees.most();
}

void require_one_message_a_rank(const Traffic& traffic, const Rounds& rounds) {
  for (int index = 0; index < rounds.size(); ++index) {
    Degrees degrees;
    int last = -1;
    for (const Piece& piece : rounds.round(index)) {
      const Message& message = traffic.messages()[at(piece.message)];
      degrees.count(message.from, message.to);
      REQUIRE(piece.message > last);
      last = piece.message;
    }
    REQUIRE(degrees.most() <= 1);
  }
}

// Every message once and whole; `times` counts how often each was seen.
void count_whole_messages(const Traffic& traffic, const Rounds& rounds, std::vector<int>& times) {
  for (const Piece& piece : rounds.pieces) {
    REQUIRE(piece.offset == 0);
    REQUIRE(piece.bytes == traffic.messages()[at(piece.message)].bytes);
    ++times[at(piece.message)];
  }
}

void require_right_coloring(const Traffic& traffic) {
  const Rounds rounds = color_rounds(traffic);
  REQUIRE(rounds.size() == max_degree(traffic));
  REQUIRE(rounds.objective == rounds.size());
  REQUIRE(rounds.lower_bound == rounds.size());
  REQUIRE(rounds.round_begin.back() == rounds.pieces.size());
  require_one_message_a_rank(traffic, rounds);
  std::vector<int> times(traffic.messages().size(), 0);
  count_whole_messages(traffic, rounds, times);
  REQUIRE(std::ranges::all_of(times, [](int count) { return count == 1; }));
}

TEST_CASE("whole messages take exactly as many rounds as the busiest rank has messages") {
  RandomStream random(1, 0, "test/transfer_schedule");
  for (int i = 0; i < 6000; ++i) require_right_coloring(random_traffic(random, 12, 80, 3));
  for (int i = 0; i < 30; ++i) require_right_coloring(random_traffic(random, 100, 2000, 1000));
}

// Can the messages from `next` on be put into the rounds without a rank twice in one?
bool fits(const Traffic& traffic, std::size_t next, std::vector<Degrees>& rounds) {
  if (next == traffic.messages().size()) return true;
  const Message& message = traffic.messages()[next];
  for (Degrees& round : rounds) {
    if (round.sends[message.from] > 0 || round.receives[message.to] > 0) continue;
    round.count(message.from, message.to);
    if (fits(traffic, next + 1, rounds)) return true;
    --round.sends[message.from];
    --round.receives[message.to];
  }
  return false;
}

TEST_CASE("no schedule of whole messages has fewer rounds") {
  RandomStream random(2, 0, "test/transfer_schedule");
  for (int i = 0; i < 600; ++i) {
    const Traffic traffic = random_traffic(random, 5, 8, 1);
    if (traffic.messages().size() > 9) continue;  // the search is exponential
    int fewest = 0;
    for (std::vector<Degrees> rounds; !fits(traffic, 0, rounds); rounds.assign(at(fewest), {})) ++fewest;
    REQUIRE(color_rounds(traffic).size() == fewest);
  }
}

// The bytes of each message are in its pieces, one after the other in the order of rounds.
void require_all_bytes(const Traffic& traffic, const Rounds& rounds, std::int64_t quantum) {
  std::vector<std::int64_t> done(traffic.messages().size(), 0);
  for (const Piece& piece : rounds.pieces) {
    const std::int64_t total = traffic.messages()[at(piece.message)].bytes;
    REQUIRE(piece.bytes >= 1);
    REQUIRE(piece.offset == done[at(piece.message)]);
    REQUIRE(piece.offset % quantum == 0);
    done[at(piece.message)] += piece.bytes;
    REQUIRE((piece.bytes % quantum == 0 || piece.offset + piece.bytes == total));
  }
  for (std::size_t i = 0; i < done.size(); ++i) REQUIRE(done[i] == traffic.messages()[i].bytes);
}

std::int64_t busiest(const Traffic& traffic) {
  std::map<int, std::int64_t> sent;
  std::map<int, std::int64_t> received;
  std::int64_t most = 0;
  for (const Message& message : traffic.messages()) {
    most = std::max({most, sent[message.from] += message.bytes, received[message.to] += message.bytes});
  }
  return most;
}

std::int64_t length_of(const Rounds& rounds) {
  std::int64_t length = 0;
  for (int index = 0; index < rounds.size(); ++index) {
    length += std::ranges::max(rounds.round(index), {}, &Piece::bytes).bytes;
  }
  return length;
}

// In no round are a sender and a receiver idle that have bytes of a message yet to exchange.
void require_no_idle_pair(const Traffic& traffic, const Rounds& rounds) {
  std::vector<std::int64_t> left;
  for (const Message& message : traffic.messages()) left.push_back(message.bytes);
  for (int index = 0; index < rounds.size(); ++index) {
    Degrees busy;
    for (const Piece& piece : rounds.round(index)) {
      const Message& message = traffic.messages()[at(piece.message)];
      busy.count(message.from, message.to);
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      const Message& message = traffic.messages()[i];
      REQUIRE((left[i] == 0 || busy.sends.contains(message.from) || busy.receives.contains(message.to)));
    }
    for (const Piece& piece : rounds.round(index)) left[at(piece.message)] -= piece.bytes;
  }
}

TEST_CASE("weighted rounds keep their promises") {
  RandomStream random(3, 0, "test/transfer_schedule");
  for (int i = 0; i < 4000; ++i) {
    const std::int64_t most_bytes = draw(random, 0, 2) == 0 ? 5 : INT64_C(1) << draw(random, 3, 45);
    const Traffic traffic = random_traffic(random, 10, 60, most_bytes);
    WeightedOptions options;
    if (draw(random, 0, 1) == 1) options.quantum = draw(random, 1, 2 * most_bytes);
    if (draw(random, 0, 1) == 1)
      options.max_gap = random.next_uniform() * (draw(random, 0, 1) == 1 ? 1 : 0.1);
    const Rounds rounds = weighted_rounds(traffic, options);
    require_one_message_a_rank(traffic, rounds);
    require_all_bytes(traffic, rounds, options.quantum);
    if (rounds.pieces != color_rounds(traffic).pieces) require_no_idle_pair(traffic, rounds);

    const std::int64_t bound = busiest(traffic);
    const std::int64_t degree = max_degree(traffic);
    const std::int64_t length = length_of(rounds);
    REQUIRE(rounds.lower_bound == bound);
    REQUIRE(rounds.objective == length);
    REQUIRE(rounds.length() == length);
    REQUIRE(length >= bound);
    REQUIRE(length <= length_of(color_rounds(traffic)));
    if (options.quantum == 1 && options.max_gap == 0) REQUIRE(length == bound);
    const double most = static_cast<double>(bound) * (1 + options.max_gap);
    REQUIRE((static_cast<double>(length) <= most || length <= bound + degree * options.quantum));
    REQUIRE(rounds.size() <= static_cast<int>(traffic.messages().size()) + 2 * traffic.ranks());
    REQUIRE(rounds.size() * options.max_gap <= 2 * static_cast<double>(degree) * (1 + options.max_gap));
  }
}

TEST_CASE("weighted rounds of large irregular traffic are exact, and few with a gap") {
  RandomStream random(4, 0, "test/transfer_schedule");
  std::vector<Message> messages;
  for (int from = 0; from < 40; ++from) {
    for (int to = 0; to < 40; ++to) {
      if (from != to) messages.push_back({from, to, draw(random, 1, INT64_C(1) << 30)});
    }
  }
  const Traffic traffic = make(40, std::move(messages));
  const Rounds exact = weighted_rounds(traffic);
  require_one_message_a_rank(traffic, exact);
  require_all_bytes(traffic, exact, 1);
  REQUIRE(length_of(exact) == busiest(traffic));
  const Rounds near = weighted_rounds(traffic, {.max_gap = 0.05});
  require_one_message_a_rank(traffic, near);
  require_all_bytes(traffic, near, 1);
  REQUIRE(static_cast<double>(length_of(near)) <= 1.05 * static_cast<double>(busiest(traffic)));
  // Exact plans of such traffic take 7.5 rounds for each message of the busiest rank, near ones 1.8.
  REQUIRE(exact.size() < 8 * max_degree(traffic));
  REQUIRE(near.size() < 3 * max_degree(traffic));
}

struct Nodes {
  std::vector<int> node_of;
  int nics = 1;
};

// The rounds that messages between nodes need at least, and how busy nodes are in them.
void require_right_node_rounds(const Traffic& traffic, const Nodes& nodes) {
  const auto result = node_rounds(traffic, nodes.node_of, nodes.nics);
  REQUIRE(result.has_value());
  Degrees within;
  Degrees across;
  Degrees node_degrees;
  std::vector<int> times(traffic.messages().size(), 0);
  for (const Message& message : traffic.messages()) {
    const int from = nodes.node_of[at(message.from)];
    const int to = nodes.node_of[at(message.to)];
    (from == to ? within : across).count(message.from, message.to);
    if (from != to) node_degrees.count(from, to);
  }
  REQUIRE(result->within.size() == within.most());
  REQUIRE(result->across.size() ==
          std::max(across.most(), (node_degrees.most() + nodes.nics - 1) / nodes.nics));
  for (const Rounds& rounds : {result->within, result->across}) {
    REQUIRE(rounds.objective == rounds.size());
    REQUIRE(rounds.lower_bound == rounds.size());
    require_one_message_a_rank(traffic, rounds);
    count_whole_messages(traffic, rounds, times);
  }
  REQUIRE(std::ranges::all_of(times, [](int count) { return count == 1; }));
  for (int index = 0; index < result->across.size(); ++index) {
    Degrees busy;
    for (const Piece& piece : result->across.round(index)) {
      const Message& message = traffic.messages()[at(piece.message)];
      const int from = nodes.node_of[at(message.from)];
      const int to = nodes.node_of[at(message.to)];
      REQUIRE(from != to);
      busy.count(from, to);
    }
    REQUIRE(busy.most() <= nodes.nics);
  }
  for (const Piece& piece : result->within.pieces) {
    const Message& message = traffic.messages()[at(piece.message)];
    REQUIRE(nodes.node_of[at(message.from)] == nodes.node_of[at(message.to)]);
  }
}

TEST_CASE("rounds between nodes respect ranks and NICs, as few as either allows") {
  RandomStream random(5, 0, "test/transfer_schedule");
  for (int i = 0; i < 3000; ++i) {
    const Traffic traffic = random_traffic(random, 12, 100, 3);
    Nodes nodes{{}, draw_int(random, 1, 4)};
    const int count = draw_int(random, 1, std::min(traffic.ranks(), 5));
    for (int rank = 0; rank < traffic.ranks(); ++rank)
      nodes.node_of.push_back(draw_int(random, 0, count - 1));
    require_right_node_rounds(traffic, nodes);
  }
}

// Traffic that no schedule can do in fewer than `rounds` rounds, and that leaves no NIC idle in any of them:
// put together from rounds in which each node sends to one other from as many ranks as it has NICs.
std::vector<Message> busy_rounds(RandomStream& random, const Nodes& nodes, int node_count, int rounds) {
  const int ranks_per_node = static_cast<int>(nodes.node_of.size()) / node_count;
  std::vector<int> senders(at(ranks_per_node));
  std::iota(senders.begin(), senders.end(), 0);
  std::vector<int> receivers = senders;
  std::vector<Message> messages;
  for (int round = 0; round < rounds; ++round) {
    const int shift = draw_int(random, 1, node_count - 1);
    for (int node = 0; node < node_count; ++node) {
      const int from = node * ranks_per_node;
      const int to = (node + shift) % node_count * ranks_per_node;
      shuffle(random, senders);
      shuffle(random, receivers);
      for (int nic = 0; nic < nodes.nics; ++nic) {
        messages.push_back({from + senders[at(nic)], to + receivers[at(nic)], 1});
      }
    }
  }
  shuffle(random, messages);
  return messages;
}

TEST_CASE("rounds between nodes are found where no NIC may ever be idle") {
  RandomStream random(6, 0, "test/transfer_schedule");
  for (int i = 0; i < 2500; ++i) {
    const int node_count = draw_int(random, 2, 4);
    const int ranks_per_node = draw_int(random, 1, 10);
    const int ranks = node_count * ranks_per_node;
    Nodes nodes{{}, draw_int(random, 1, ranks_per_node)};
    for (int rank = 0; rank < ranks; ++rank) nodes.node_of.push_back(rank / ranks_per_node);
    const int rounds = draw_int(random, 1, 12);
    const Traffic traffic = make(ranks, busy_rounds(random, nodes, node_count, rounds));
    REQUIRE(node_rounds(traffic, nodes.node_of, nodes.nics)->across.size() == rounds);
    require_right_node_rounds(traffic, nodes);
  }
}

TEST_CASE("chunks cover each message with the fewest pieces of nearly one size") {
  RandomStream random(7, 0, "test/transfer_schedule");
  for (int i = 0; i < 2000; ++i) {
    const Traffic traffic = random_traffic(random, 5, 20, INT64_C(1) << draw(random, 0, 12));
    const std::int64_t quantum = draw(random, 1, 20);
    const std::int64_t chunk_bytes = draw(random, std::max<std::int64_t>(quantum, 50), 5000);
    const auto chunks = chunk(traffic, chunk_bytes, quantum);
    REQUIRE(chunks.has_value());
    REQUIRE(std::ranges::is_sorted(*chunks, {}, &Piece::message));
    std::vector<std::vector<Piece>> of(traffic.messages().size());
    for (const Piece& piece : *chunks) of[at(piece.message)].push_back(piece);
    for (std::size_t m = 0; m < of.size(); ++m) {
      const std::int64_t total = traffic.messages()[m].bytes;
      REQUIRE_FALSE(of[m].empty());
      std::int64_t end = 0;
      for (const Piece& piece : of[m]) {
        REQUIRE(piece.offset == end);
        REQUIRE(piece.bytes <= chunk_bytes);
        REQUIRE(piece.offset % quantum == 0);
        end += piece.bytes;
      }
      REQUIRE(end == total);
      const auto [least, most] = std::ranges::minmax(of[m], {}, &Piece::bytes);
      REQUIRE(least.bytes >= 1);
      REQUIRE(most.bytes - least.bytes <= quantum);
      // One piece fewer could not hold the message.
      const auto fewer = static_cast<std::int64_t>(of[m].size()) - 1;
      REQUIRE(fewer * (chunk_bytes / quantum * quantum) < total);
    }
  }
}

TEST_CASE("a grouped all-to-all sends what the messages hold, and both ends agree") {
  RandomStream random(8, 0, "test/transfer_schedule");
  for (int i = 0; i < 1000; ++i) {
    const Traffic traffic = random_traffic(random, 8, 60, 1000);
    std::map<std::pair<int, int>, std::int64_t> expected;
    for (const Message& message : traffic.messages()) expected[{message.from, message.to}] += message.bytes;
    const auto group = group_all_to_all(traffic);
    REQUIRE(group.bottleneck == busiest(traffic));
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (int rank = 0; rank < traffic.ranks(); ++rank) {
      for (const Message& message : group.sends_of(rank)) {
        REQUIRE(message.from == rank);
        sends.push_back(message);
      }
      for (const Message& message : group.receives_of(rank)) {
        REQUIRE(message.to == rank);
        receives.push_back(message);
      }
    }
    const auto pair_of = [](const Message& message) { return std::pair(message.from, message.to); };
    REQUIRE(sends.size() == expected.size());
    REQUIRE(std::ranges::is_sorted(sends, {}, pair_of));
    for (const Message& message : sends) REQUIRE(expected.at(pair_of(message)) == message.bytes);
    REQUIRE(std::ranges::is_sorted(receives, {}, &Message::to));
    std::ranges::sort(receives, {}, pair_of);
    REQUIRE(receives == sends);
    const Traffic pairs = merged(traffic);
    REQUIRE(std::ranges::equal(pairs.messages(), sends));
    REQUIRE(std::ranges::equal(pairs.received(), traffic.received()));
  }
}

}  // namespace
