#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ntpsim {

/// A stream of random numbers that is a pure function of (seed, replication, stream name, unit): no state is
/// shared between streams, so results do not depend on the order in which consumers draw, nor on threads.
///
/// Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11) from Random123, keyed
/// by (seed, replication) with the counter (block, unit, hash of the name, 0).
class RandomStream {
 public:
  /// `name` says who consumes the stream ("failures/hardware"); `unit` tells apart the many units of one
  /// consumer.
  RandomStream(std::uint64_t seed, std::uint64_t replication, std::string_view name, std::uint64_t unit = 0);

  using Block = std::array<std::uint64_t, 4>;

  /// The block with this index: random access, 4 words for one Philox evaluation.
  [[nodiscard]] Block block(std::uint64_t index) const { return block(index, unit_); }
  /// The block with this index of another unit of the same consumer.
  [[nodiscard]] Block block(std::uint64_t index, std::uint64_t unit) const;

  /// The next word of the sequence block(0)[0], block(0)[1], ...
  std::uint64_t next();
  /// The next word as a real number strictly between 0 and 1.
  double next_uniform() { return to_uniform(next()); }
  /// The next word as an index in [0, n). REQUIRES: n > 0.
  std::uint64_t next_index(std::uint64_t n) { return to_index(next(), n); }

  /// 52 random bits in the middle of their interval: never 0 and never 1, so a quantile of it is finite.
  /// (With 53 bits the middle of the last interval would round to 1.)
  static constexpr double to_uniform(std::uint64_t word) {
    constexpr double kStep = 0x1p-52;
    return (static_cast<double>(word >> 12U) + 0.5) * kStep;
  }
  /// Maps a word to [0, n) by the high half of the product; the bias is below n / 2^64.
  static std::uint64_t to_index(std::uint64_t word, std::uint64_t n);

 private:
  std::array<std::uint64_t, 2> key_;
  std::uint64_t name_hash_;
  std::uint64_t unit_;
  std::uint64_t position_ = 0;
  Block buffer_{};
};

/// FNV-1a, 64 bits: the same on every machine and in every version.
[[nodiscard]] std::uint64_t stable_hash(std::string_view text);

}  // namespace ntpsim
