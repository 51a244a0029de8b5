// Gradient sync plans against Megatron Core's own split tables.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "ntpsim/plan/sync_plan.h"

#include "megatron_rule.h"

namespace ntpsim::plan {
namespace {

using Json = nlohmann::json;
using Table = std::vector<std::vector<std::int64_t>>;

std::optional<Json> split_tables() {
  std::ifstream file(NTPSIM_SHARED_DATA "/megatron_ntp/split_tables.json");
  if (!file) return std::nullopt;
  return Json::parse(file);
}

struct Totals {
  std::vector<std::int64_t> sent;      // by rank
  std::vector<std::int64_t> received;  // by rank

  [[nodiscard]] std::int64_t most() const {
    return std::max(*std::ranges::max_element(sent), *std::ranges::max_element(received));
  }
  bool operator==(const Totals&) const = default;
};

Totals totals_of(const Table& sent) {
  Totals totals;
  totals.received.resize(sent.size());
  for (const auto& row : sent) {
    totals.sent.push_back(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
    for (std::size_t to = 0; to < row.size(); ++to) totals.received[to] += row[to];
  }
  return totals;
}

Totals totals_of(const SyncPlan& plan, std::int64_t shard_size) {
  Totals totals;
  for (int rank = 0; rank < plan.pre_sync().ranks(); ++rank) {
    totals.sent.push_back(plan.pre_sync().sent(rank) * shard_size);
    totals.received.push_back(plan.pre_sync().received(rank) * shard_size);
  }
  return totals;
}

TEST_CASE("every rank sends and receives as much as under Megatron's rule, where that can run") {
  const auto tables = split_tables();
  if (!tables) {
    MESSAGE("SKIPPED: no " NTPSIM_SHARED_DATA "/megatron_ntp/split_tables.json");
    return;
  }
  int supported = 0;
  int unsupported = 0;
  for (const Json& each : (*tables)["cases"]) {
    const int tp = each["tp_base"];
    const int core_ranks = tp - each["tp_spares"].get<int>();
    const std::int64_t units = each["num_shards"];
    const std::int64_t size = each["shard_size"];
    CAPTURE(tp);
    CAPTURE(core_ranks);
    CAPTURE(units);
    const SyncPlan plan(units, tp, tp, core_ranks);
    const Totals ours = totals_of(plan, size);
    CHECK(plan.compute().max_units() == max_units(units, tp));
    CHECK(plan.sync().max_units() == max_units(units, core_ranks));
    CHECK(plan.objective() == plan.lower_bound());
    if (each["upstream_supports"].get<bool>()) {
      const Totals theirs = totals_of(each["send_splits"].get<Table>());
      CHECK(ours == theirs);
      const auto most_units = each["compute_units_core"].get<std::vector<std::int64_t>>();
      CHECK(plan.compute().max_units() <= std::ranges::max(most_units));
      ++supported;
      MESSAGE("TP " << tp << " syncing over " << core_ranks << ", " << units << " units: at most "
                    << ours.most() << " (Megatron " << theirs.most() << "), at most "
                    << plan.compute().max_units() << " units a rank (Megatron "
                    << std::ranges::max(most_units) << ")");
    } else {
      ++unsupported;
      MESSAGE("TP " << tp << " syncing over " << core_ranks << ", " << units << " units: at most "
                    << ours.most() << ", " << plan.sync().max_units()
                    << " units a rank (Megatron cannot run it)");
    }
  }
  CHECK(supported == 14);
  CHECK(unsupported == 2);
}

TEST_CASE("the restated rule reproduces Megatron's tables") {
  const auto tables = split_tables();
  if (!tables) {
    MESSAGE("SKIPPED: no " NTPSIM_SHARED_DATA "/megatron_ntp/split_tables.json");
    return;
  }
  for (const Json& each : (*tables)["cases"]) {
    const auto split = testing::megatron_split(each["num_shards"], each["tp_base"], each["tp_spares"]);
    REQUIRE(split.has_value() == each["upstream_supports"].get<bool>());
    if (!split) continue;
    Table scaled = split->sent;
    for (auto& row : scaled) {
      for (std::int64_t& units : row) units *= each["shard_size"].get<std::int64_t>();
    }
    CHECK(scaled == each["send_splits"].get<Table>());
  }
}

TEST_CASE("over all degrees and many sizes no rank moves more than under Megatron's rule") {
  int compared = 0;
  int cannot = 0;
  for (const int tp : {4, 8, 16, 32, 64, 72}) {
    for (int core_ranks = tp / 2; core_ranks < tp; ++core_ranks) {
      for (const std::int64_t units : {8, 64, 96, 128, 480, 4096, 10080, 28672, 53248, 81920, 128256}) {
        if (units % tp != 0) continue;  // the rule needs as many units on every rank of a whole group
        const auto theirs = testing::megatron_split(units, tp, tp - core_ranks);
        if (!theirs) {
          ++cannot;
          continue;
        }
        ++compared;
        const SyncPlan plan(units, tp, tp, core_ranks);
        CAPTURE(tp);
        CAPTURE(core_ranks);
        CAPTURE(units);
        CHECK(totals_of(plan, 1).most() <= totals_of(theirs->sent).most());
        CHECK(plan.compute().max_units() <= std::ranges::max(theirs->computed));
      }
    }
  }
  MESSAGE(compared << " cases compared; " << cannot << " that Megatron's rule cannot run");
  CHECK(compared > 400);
}

}  // namespace
}  // namespace ntpsim::plan
