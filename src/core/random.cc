#include "ntpsim/core/random.h"

#include <Random123/philox.h>

#include "ntpsim/core/invariant.h"

namespace ntpsim {

std::uint64_t stable_hash(std::string_view text) {
  constexpr std::uint64_t kOffset = 0xcbf29ce484222325U;
  constexpr std::uint64_t kPrime = 0x100000001b3U;
  std::uint64_t hash = kOffset;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= kPrime;
  }
  return hash;
}

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t replication, std::string_view name,
                           std::uint64_t unit)
    : key_{seed, replication}, name_hash_(stable_hash(name)), unit_(unit) {}

RandomStream::Block RandomStream::block(std::uint64_t index, std::uint64_t unit) const {
  const r123::Philox4x64 philox;
  const r123::Philox4x64::ctr_type counter = {{index, unit, name_hash_, 0}};
  const r123::Philox4x64::key_type key = {{key_[0], key_[1]}};
  const auto words = philox(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

std::uint64_t RandomStream::next() {
  const std::uint64_t word = position_ % buffer_.size();
  if (word == 0) buffer_ = block(position_ / buffer_.size());
  ++position_;
  return buffer_[word];
}

std::uint64_t RandomStream::to_index(std::uint64_t word, std::uint64_t n) {
  invariant(n > 0, "an index needs at least one choice");
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(word) * n) >> 64U);
}

}  // namespace ntpsim
