#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ntpsim/core/diagnostics.h"

// In which order messages between ranks go over the wire.
//
// Ports are full duplex: a rank sends and receives at once, and at each moment one message either way.
// Messages of the same pair of ranks are allowed, and nothing is said about how long a byte takes. Every
// schedule reports its objective beside a lower bound that no schedule can beat.

namespace ntpsim::plan {

/// Bytes from one rank to another.
struct Message {
  int from = 0;
  int to = 0;
  std::int64_t bytes = 0;

  bool operator==(const Message&) const = default;
};

/// Messages that can be scheduled, in the order given. A value.
class Traffic {
 public:
  static constexpr int kMaxRanks = 1 << 24;
  static constexpr std::size_t kMaxMessages = std::size_t{1} << 30;
  static constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

  /// An error names each message with a rank outside [0, ranks), to its own sender, or without bytes, and
  /// says if there are too many ranks, messages or bytes in all. O(messages + ranks).
  [[nodiscard]] static Result<Traffic> from_messages(int ranks, std::vector<Message> messages);

  [[nodiscard]] int ranks() const { return static_cast<int>(sent_.size()); }
  [[nodiscard]] std::span<const Message> messages() const { return messages_; }
  /// Bytes by rank.
  [[nodiscard]] std::span<const std::int64_t> sent() const { return sent_; }
  [[nodiscard]] std::span<const std::int64_t> received() const { return received_; }
  /// Bytes of all messages.
  [[nodiscard]] std::int64_t total() const { return total_; }
  /// The most bytes that one rank sends or receives: no schedule is shorter.
  [[nodiscard]] std::int64_t bottleneck() const { return bottleneck_; }
  /// The most messages that one rank sends or receives: no schedule of whole messages has fewer rounds.
  [[nodiscard]] int max_degree() const { return max_degree_; }

  bool operator==(const Traffic&) const = default;

 private:
  Traffic(int ranks, std::vector<Message> messages);

  std::vector<Message> messages_;
  std::vector<std::int64_t> sent_;
  std::vector<std::int64_t> received_;
  std::int64_t total_ = 0;
  std::int64_t bottleneck_ = 0;
  int max_degree_ = 0;
};

/// The same bytes with one message a pair of ranks, ordered by sender and then receiver. O(n log n).
[[nodiscard]] Traffic merged(const Traffic& traffic);

/// What each rank passes to one grouped all-to-all (between ncclGroupStart and ncclGroupEnd): the library
/// orders the transfers. Its time follows `bottleneck`, in bytes, which is also the lower bound.
struct GroupedAllToAll {
  std::vector<Message> sends;              ///< one a pair, ordered by sender and then receiver
  std::vector<Message> receives;           ///< the same, ordered by receiver and then sender
  std::vector<std::size_t> send_begin;     ///< rank -> its first send; one more entry than ranks
  std::vector<std::size_t> receive_begin;  ///< rank -> its first receive; one more entry than ranks
  std::int64_t bottleneck = 0;

  /// REQUIRES: 0 <= rank < ranks of the traffic.
  [[nodiscard]] std::span<const Message> sends_of(int rank) const;
  [[nodiscard]] std::span<const Message> receives_of(int rank) const;
};

/// O(n log n).
[[nodiscard]] GroupedAllToAll group_all_to_all(const Traffic& traffic);

/// Consecutive bytes of one message.
struct Piece {
  int message = 0;  ///< index in `Traffic::messages`
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  bool operator==(const Piece&) const = default;
};

/// Rounds that follow one another; within a round every rank sends and receives at most one piece.
struct Rounds {
  std::vector<Piece> pieces;                   ///< round by round, within a round ordered by message
  std::vector<std::size_t> round_begin = {0};  ///< round -> its first piece; one more entry than rounds
  std::int64_t objective = 0;                  ///< the unit is that of the function that planned the rounds
  std::int64_t lower_bound = 0;                ///< of the objective over all schedules

  [[nodiscard]] int size() const { return static_cast<int>(round_begin.size()) - 1; }
  /// REQUIRES: 0 <= index < size().
  [[nodiscard]] std::span<const Piece> round(int index) const;
  /// Bytes of the largest piece of each round, summed: as long as the rounds take at a byte a tick.
  [[nodiscard]] std::int64_t length() const;
  /// objective / lower_bound - 1; 0 when there is nothing to send.
  [[nodiscard]] double gap() const;
  bool operator==(const Rounds&) const = default;
};

/// Whole messages in the fewest rounds: exactly `max_degree` of them, so objective == lower_bound, in rounds.
/// An edge coloring of a bipartite multigraph (Koenig 1916) by alternating chains, the largest messages
/// first, so that they share the first rounds. Time as in src/plan/edge_coloring.h: near linear unless the
/// traffic is built to defeat it, O(messages * ranks) then.
[[nodiscard]] Rounds color_rounds(const Traffic& traffic);

struct WeightedOptions {
  std::int64_t quantum = 1;  ///< messages are cut at multiples of so many bytes; at least 1
  double max_gap = 0;        ///< how much longer than the bound the schedule may be; from 0 to 1
};

/// Messages of any size in rounds that are as long as their largest piece, cut so that the sum of the lengths
/// comes near the bound; objective and lower bound are in bytes. With b = `bottleneck`, d = `max_degree` the
/// length is at most b (1 + max_gap), or b + d * quantum where that is more; with quantum 1 and max_gap 0 it
/// is exactly b (preemptive open shop: Gonzalez and Sahni 1976; Birkhoff 1946). It is never longer than
/// `color_rounds`, whose rounds are taken, uncut, if they are short enough.
///
/// There are at most messages + 2 ranks rounds, and at most 2 d (1 + 1 / max_gap): a gap saves rounds and
/// pieces. A round costs O(ranks), and up to O(messages) for each sender or receiver whose partner changes;
/// merge parallel messages first if there are many.
/// REQUIRES: options within their ranges.
[[nodiscard]] Rounds weighted_rounds(const Traffic& traffic, const WeightedOptions& options = {});

/// Most pieces that `chunk` makes.
inline constexpr std::int64_t kMaxPieces = std::int64_t{1} << 26;

/// The messages in their order, each cut into the fewest pieces of at most `chunk_bytes`, all multiples of
/// `quantum` except a message's last and none more than a quantum larger than another of its message. An
/// error says so if there would be more than `kMaxPieces`. O(pieces).
/// REQUIRES: 1 <= quantum <= chunk_bytes.
[[nodiscard]] Result<std::vector<Piece>> chunk(const Traffic& traffic, std::int64_t chunk_bytes,
                                               std::int64_t quantum = 1);

/// Messages between nodes, which go through NICs, and messages within a node, which go over the fast fabric
/// beside them. Objectives and lower bounds are in rounds.
struct NodeRounds {
  Rounds across;
  Rounds within;
};

/// Whole messages in the fewest rounds, in each of which a node has at most `nics_per_node` messages on their
/// way out to other nodes and as many on their way in. Both kinds reach their lower bounds: of the messages
/// within nodes the most that one rank sends or receives, of those across also the most that one node sends
/// or receives / nics_per_node, rounded up. For the latter see src/plan/edge_coloring.h.
///
/// `node_of` gives each rank its node. An error names each node outside [0, ranks), and says if it has other
/// than one entry a rank or a node has no NIC.
[[nodiscard]] Result<NodeRounds> node_rounds(const Traffic& traffic, std::span<const int> node_of,
                                             int nics_per_node);

}  // namespace ntpsim::plan
