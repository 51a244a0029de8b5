// Cuts 128 attention heads over the 30 GPUs that are left of a group of 32. Exit status 0: the cut is the one
// expected.
#include <cstdint>
#include <cstdio>

#include "ntpsim/plan/shard_layout.h"

int main() {
  const ntpsim::plan::ShardLayout layout(128, 30);
  std::int64_t next = 0;
  for (int rank = 0; rank < layout.degree(); ++rank) {
    const ntpsim::plan::UnitRange heads = layout.owned_by(rank);
    const std::int64_t expected = rank < 8 ? 5 : 4;
    if (heads.begin != next || heads.size() != expected) {
      std::fprintf(stderr, "rank %d owns [%lld, %lld)\n", rank, static_cast<long long>(heads.begin),
                   static_cast<long long>(heads.end));
      return 1;
    }
    next = heads.end;
  }
  std::printf("128 heads over 30 ranks: at most %lld on one\n", static_cast<long long>(layout.max_units()));
  return next == 128 && layout.max_units() == 5 ? 0 : 1;
}
