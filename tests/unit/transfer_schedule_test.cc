#include "ntpsim/plan/transfer_schedule.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"

namespace {

using ntpsim::Diagnostics;
using ntpsim::plan::chunk;
using ntpsim::plan::color_rounds;
using ntpsim::plan::group_all_to_all;
using ntpsim::plan::GroupedAllToAll;
using ntpsim::plan::kMaxPieces;
using ntpsim::plan::merged;
using ntpsim::plan::Message;
using ntpsim::plan::node_rounds;
using ntpsim::plan::Piece;
using ntpsim::plan::Rounds;
using ntpsim::plan::Traffic;
using ntpsim::plan::weighted_rounds;
using ntpsim::testing::aborts;
using Messages = std::vector<Message>;
using Pieces = std::vector<Piece>;

Traffic make(int ranks, Messages messages) {
  auto traffic = Traffic::from_messages(ranks, std::move(messages));
  REQUIRE(traffic.has_value());
  return *traffic;
}

Messages list(std::span<const Message> messages) {
  return {messages.begin(), messages.end()};
}

Pieces list(std::span<const Piece> pieces) {
  return {pieces.begin(), pieces.end()};
}

std::vector<std::string> errors_of(const Diagnostics& diagnostics) {
  std::vector<std::string> messages;
  for (const auto& item : diagnostics.items()) messages.push_back(item.message);
  return messages;
}

std::vector<std::string> errors_of(int ranks, Messages messages) {
  const auto traffic = Traffic::from_messages(ranks, std::move(messages));
  REQUIRE_FALSE(traffic.has_value());
  return errors_of(traffic.error());
}

Traffic all_to_all(int ranks, std::int64_t bytes) {
  Messages messages;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to) messages.push_back({from, to, bytes});
    }
  }
  return make(ranks, std::move(messages));
}

TEST_CASE("traffic sums up its messages") {
  const Traffic traffic = make(4, {{0, 1, 5}, {0, 2, 7}, {3, 2, 1}, {0, 1, 2}});
  CHECK(traffic.ranks() == 4);
  CHECK(std::vector(traffic.sent().begin(), traffic.sent().end()) == std::vector<std::int64_t>{14, 0, 0, 1});
  CHECK(std::vector(traffic.received().begin(), traffic.received().end()) ==
        std::vector<std::int64_t>{0, 7, 8, 0});
  CHECK(traffic.total() == 15);
  CHECK(traffic.bottleneck() == 14);
  CHECK(traffic.max_degree() == 3);
}

TEST_CASE("everything wrong with messages is said at once") {
  CHECK(errors_of(4, {{0, 1, 5}, {-1, 4, 5}, {2, 2, 1}, {1, 0, 0}}) ==
        std::vector<std::string>{"message 1: found sender -1, expected a rank from 0 to 3",
                                 "message 1: found receiver 4, expected a rank from 0 to 3",
                                 "message 2: found rank 2 as sender and receiver, expected another receiver",
                                 "message 3: found 0 bytes, expected at least 1"});
  CHECK(errors_of(0, {}) == std::vector<std::string>{"found 0 ranks, expected 1 to 16777216"});
  CHECK(errors_of(Traffic::kMaxRanks + 1, {}) ==
        std::vector<std::string>{"found 16777217 ranks, expected 1 to 16777216"});
}

TEST_CASE("byte sums cannot overflow") {
  CHECK(make(3, {{0, 1, Traffic::kMaxBytes - 1}, {1, 2, 1}}).total() == Traffic::kMaxBytes);
  const std::vector<std::string> too_many = {
      "messages: found more than 1152921504606846976 bytes in all, expected at most so many"};
  CHECK(errors_of(3, {{0, 1, Traffic::kMaxBytes}, {1, 2, 1}}) == too_many);
  CHECK(errors_of(3, {{0, 1, INT64_MAX}, {1, 2, INT64_MAX}, {2, 0, INT64_MAX}}) == too_many);
}

TEST_CASE("a grouped all-to-all lists each pair once, for its sender and for its receiver") {
  const Traffic traffic = make(4, {{3, 2, 1}, {0, 2, 7}, {0, 1, 5}, {2, 0, 4}, {0, 1, 2}});
  CHECK(list(merged(traffic).messages()) == Messages{{0, 1, 7}, {0, 2, 7}, {2, 0, 4}, {3, 2, 1}});
  const GroupedAllToAll group = group_all_to_all(traffic);
  CHECK(list(group.sends_of(0)) == Messages{{0, 1, 7}, {0, 2, 7}});
  CHECK(group.sends_of(1).empty());
  CHECK(list(group.sends_of(3)) == Messages{{3, 2, 1}});
  CHECK(list(group.receives_of(0)) == Messages{{2, 0, 4}});
  CHECK(list(group.receives_of(2)) == Messages{{0, 2, 7}, {3, 2, 1}});
  CHECK(group.receives_of(3).empty());
  CHECK(group.bottleneck == 14);
  CHECK(aborts([&] { static_cast<void>(group.sends_of(4)); }));
  CHECK(aborts([&] { static_cast<void>(group.receives_of(-1)); }));
}

TEST_CASE("nothing to send takes no rounds") {
  const Traffic nothing = make(3, {});
  for (const Rounds& rounds : {color_rounds(nothing), weighted_rounds(nothing),
                               node_rounds(nothing, std::vector<int>{0, 1, 1}, 1)->across}) {
    CHECK(rounds == Rounds{});
    CHECK(rounds.size() == 0);
    CHECK(rounds.length() == 0);
    CHECK(rounds.gap() == 0);
  }
  CHECK(chunk(nothing, 1)->empty());
  CHECK(group_all_to_all(nothing).sends_of(2).empty());
}

TEST_CASE("an all-to-all of n ranks takes n - 1 rounds") {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Rounds rounds = color_rounds(all_to_all(ranks, 10));
    CHECK(rounds.size() == ranks - 1);
    CHECK(rounds.objective == ranks - 1);
    CHECK(rounds.lower_bound == ranks - 1);
    CHECK(rounds.gap() == 0);
    CHECK(rounds.length() == 10 * (ranks - 1));
    for (int round = 0; round < rounds.size(); ++round) CHECK(rounds.round(round).size() == ranks);
  }
}

TEST_CASE("parallel messages take one round each, and others share those rounds") {
  Messages messages(1000, {0, 1, 8});
  messages.insert(messages.end(), 400, {2, 3, 8});
  const Rounds rounds = color_rounds(make(4, std::move(messages)));
  CHECK(rounds.size() == 1000);
  CHECK(rounds.round(0).size() == 2);
  CHECK(rounds.round(999).size() == 1);
}

TEST_CASE("many messages of one rank need no room for each rank in each round") {
  Messages messages;
  for (int to = 1; to <= 100'000; ++to) messages.push_back({0, to, 8});
  const Traffic star = make(100'001, std::move(messages));
  CHECK(color_rounds(star).size() == 100'000);
  CHECK(weighted_rounds(star).size() == 100'000);
  std::vector<int> node_of(100'001);
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) node_of[rank] = static_cast<int>(rank / 2);
  CHECK(node_rounds(star, node_of, 1)->across.size() == 99'999);
}

TEST_CASE("the largest messages share the first rounds") {
  const Traffic traffic = make(4, {{0, 2, 1}, {0, 3, 9}, {1, 2, 8}, {1, 3, 2}});
  const Rounds rounds = color_rounds(traffic);
  REQUIRE(rounds.size() == 2);
  CHECK(list(rounds.round(0)) == Pieces{{1, 0, 9}, {2, 0, 8}});
  CHECK(list(rounds.round(1)) == Pieces{{0, 0, 1}, {3, 0, 2}});
  CHECK(rounds.length() == 11);
  CHECK(aborts([&] { static_cast<void>(rounds.round(2)); }));
}

// Ranks 0 to 2 send to ranks 3 to 5, 4 bytes each, and 4 bytes arrive at each.
Traffic four_each(std::int64_t unit) {
  return make(6, {{0, 3, 3 * unit},
                  {0, 4, unit},
                  {1, 3, unit},
                  {1, 4, unit},
                  {1, 5, 2 * unit},
                  {2, 4, 2 * unit},
                  {2, 5, 2 * unit}});
}

TEST_CASE("cutting messages keeps the busiest ranks busy all the time") {
  const Traffic traffic = four_each(1);
  CHECK(color_rounds(traffic).length() == 6);  // 3 + 2 + 1: each rank waits for another's message
  const Rounds rounds = weighted_rounds(traffic);
  CHECK(rounds.lower_bound == 4);
  CHECK(rounds.objective == 4);
  CHECK(rounds.length() == 4);
  REQUIRE(rounds.size() == 3);
  CHECK(list(rounds.round(0)) == Pieces{{0, 0, 2}, {4, 0, 2}, {5, 0, 2}});
  CHECK(list(rounds.round(1)) == Pieces{{0, 2, 1}, {3, 0, 1}, {6, 0, 1}});
  CHECK(list(rounds.round(2)) == Pieces{{1, 0, 1}, {2, 0, 1}, {6, 1, 1}});
}

TEST_CASE("the allowed gap is used to cut less") {
  const Traffic traffic = four_each(1);
  const Rounds some = weighted_rounds(traffic, {.max_gap = 0.25});
  CHECK(some.objective == 5);
  CHECK(some.gap() == 0.25);
  CHECK(some.pieces.size() == 8);
  const Rounds whole = weighted_rounds(traffic, {.max_gap = 0.5});
  CHECK(whole.gap() == 0.5);
  CHECK(whole.pieces == color_rounds(traffic).pieces);
}

TEST_CASE("cuts stay at multiples of the quantum") {
  const Rounds rounds = weighted_rounds(four_each(100), {.quantum = 30});
  CHECK(rounds.objective == 430);  // messages of 4, 7 and 10 quanta, 14 for the busiest rank
  CHECK(list(rounds.round(0)) == Pieces{{0, 0, 210}, {4, 0, 200}, {5, 0, 200}});
  CHECK(list(rounds.round(1)) == Pieces{{0, 210, 90}, {3, 0, 100}, {6, 0, 120}});
  CHECK(list(rounds.round(2)) == Pieces{{1, 0, 100}, {2, 0, 100}, {6, 120, 80}});
  const Rounds whole = weighted_rounds(four_each(100), {.quantum = INT64_MAX});
  CHECK(whole.pieces == color_rounds(four_each(100)).pieces);
  CHECK(whole.objective == 600);
}

TEST_CASE("weighted rounds require sane options") {
  const Traffic traffic = four_each(1);
  CHECK(aborts([&] { static_cast<void>(weighted_rounds(traffic, {.quantum = 0})); }));
  CHECK(aborts([&] { static_cast<void>(weighted_rounds(traffic, {.max_gap = -0.1})); }));
  CHECK(aborts([&] { static_cast<void>(weighted_rounds(traffic, {.max_gap = 1.1})); }));
}

TEST_CASE("chunks of a message are of nearly one size") {
  const Traffic traffic = make(3, {{0, 1, 10}, {2, 1, 4}, {0, 2, 1}});
  CHECK(*chunk(traffic, 4) == Pieces{{0, 0, 3}, {0, 3, 3}, {0, 6, 4}, {1, 0, 4}, {2, 0, 1}});
  CHECK(*chunk(traffic, 10) == Pieces{{0, 0, 10}, {1, 0, 4}, {2, 0, 1}});
  // At most four bytes, and so two quanta of 2 bytes.
  CHECK(*chunk(traffic, 5, 2) == Pieces{{0, 0, 2}, {0, 2, 4}, {0, 6, 4}, {1, 0, 4}, {2, 0, 1}});
  CHECK(chunk(make(2, {{0, 1, INT64_C(1) << 60}}), INT64_MAX, INT64_MAX)->size() == 1);
}

TEST_CASE("too many chunks are refused") {
  const Traffic traffic = make(2, {{0, 1, kMaxPieces}, {1, 0, 1}});
  const auto chunks = chunk(traffic, 1);
  REQUIRE_FALSE(chunks.has_value());
  CHECK(errors_of(chunks.error()) ==
        std::vector<std::string>{"chunks of 1 bytes: found 67108865 of them, expected at most 67108864"});
  CHECK(aborts([&] { static_cast<void>(chunk(traffic, 0)); }));
  CHECK(aborts([&] { static_cast<void>(chunk(traffic, 4, 5)); }));
  CHECK(aborts([&] { static_cast<void>(chunk(traffic, 4, 0)); }));
}

TEST_CASE("messages between nodes wait for NICs, messages within a node do not") {
  const Traffic traffic = all_to_all(8, 10);
  const std::vector<int> node_of = {0, 0, 0, 0, 1, 1, 1, 1};
  // A node sends 16 messages to the other one.
  CHECK(node_rounds(traffic, node_of, 1)->across.size() == 16);
  CHECK(node_rounds(traffic, node_of, 2)->across.size() == 8);
  CHECK(node_rounds(traffic, node_of, 3)->across.size() == 6);
  CHECK(node_rounds(traffic, node_of, 4)->across.size() == 4);
  CHECK(node_rounds(traffic, node_of, 100)->across.size() == 4);  // each rank has four messages to send
  const auto rounds = node_rounds(traffic, node_of, 2);
  CHECK(rounds->within.size() == 3);
  CHECK(rounds->across.gap() == 0);
  CHECK(rounds->within.gap() == 0);
  CHECK(rounds->across.pieces.size() == 32);
  CHECK(rounds->within.pieces.size() == 24);
  for (int round = 0; round < 8; ++round) CHECK(rounds->across.round(round).size() == 4);
}

TEST_CASE("a rank with many messages leaves NICs idle") {
  const Traffic traffic = make(4, {{0, 2, 5}, {0, 3, 5}, {0, 2, 5}, {1, 3, 5}});
  CHECK(node_rounds(traffic, std::vector<int>{0, 0, 1, 1}, 2)->across.size() == 3);
  CHECK(node_rounds(traffic, std::vector<int>{0, 0, 1, 1}, 1)->across.size() == 4);
}

TEST_CASE("everything wrong with nodes is said at once") {
  const auto errors = [](const std::vector<int>& node_of, int nics) {
    const auto rounds = node_rounds(make(3, {{0, 1, 5}}), node_of, nics);
    REQUIRE_FALSE(rounds.has_value());
    return errors_of(rounds.error());
  };
  CHECK(errors({0, 3, -1}, 0) == std::vector<std::string>{"found 0 NICs per node, expected at least 1",
                                                          "rank 1: found node 3, expected one from 0 to 2",
                                                          "rank 2: found node -1, expected one from 0 to 2"});
  CHECK(errors({0, 1}, 1) == std::vector<std::string>{"found nodes of 2 ranks, expected 3"});
}

}  // namespace
