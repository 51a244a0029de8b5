#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ntpsim::testing {

/// How Megatron Core (megatron/core/distributed/nonuniform_tp.py, its ntp_map; semantics restated) deals the
/// units of a tensor out: contiguous chunks of ceil(units / core ranks) for the core ranks, from whose ends
/// the spare ranks take floor(units / tp_base) units each, one core rank after the other in turn.
struct MegatronSplit {
  std::vector<std::int64_t> computed;           ///< units by rank
  std::vector<std::vector<std::int64_t>> sent;  ///< units from a rank to a core rank before the sync
};

/// Nothing where the rule leaves a core rank without a chunk.
inline std::optional<MegatronSplit> megatron_split(std::int64_t units, int tp_base, int tp_spares) {
  const int core_ranks = tp_base - tp_spares;
  const std::int64_t chunk = (units + core_ranks - 1) / core_ranks;
  if ((core_ranks - 1) * chunk >= units) return std::nullopt;
  const auto ranks = static_cast<std::size_t>(tp_base);
  std::vector<std::vector<std::int64_t>> parts(ranks);
  for (std::int64_t unit = 0; unit < units; ++unit)
    parts[static_cast<std::size_t>(unit / chunk)].push_back(unit);
  MegatronSplit split;
  split.sent.assign(ranks, std::vector<std::int64_t>(ranks));
  std::size_t core = 0;
  for (auto spare = static_cast<std::size_t>(core_ranks); spare < ranks; ++spare) {
    for (std::int64_t taken = 0; taken < units / tp_base; ++taken) {
      if (parts[core].empty()) return std::nullopt;
      parts[spare].push_back(parts[core].back());
      parts[core].pop_back();
      ++split.sent[spare][core];
      core = (core + 1) % static_cast<std::size_t>(core_ranks);
    }
  }
  for (const auto& part : parts) split.computed.push_back(static_cast<std::int64_t>(part.size()));
  return split;
}

}  // namespace ntpsim::testing
