#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ntpsim/analysis/plan_results.h"
#include "ntpsim/analysis/table.h"

#include "text_format.h"

namespace ntpsim::analysis {
namespace {

using Align = Table::Align;

// The first of them, when there are many.
std::string elided(const std::vector<std::string>& parts) {
  constexpr std::size_t kMostShown = 2;
  if (parts.size() <= kMostShown) return fmt::format("{}", fmt::join(parts, ", "));
  return fmt::format("{} and {} more", parts.front(), parts.size() - 1);
}

// "0-3, 120": units, both ends included.
std::string ranges_text(std::span<const plan::UnitRange> ranges) {
  if (ranges.empty()) return "-";
  std::vector<std::string> parts;
  for (const plan::UnitRange& range : ranges) {
    parts.push_back(range.size() == 1 ? fmt::format("{}", range.begin)
                                      : fmt::format("{}-{}", range.begin, range.end - 1));
  }
  return elided(parts);
}

std::string count(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string tensor_table(const TensorPlan& plan) {
  Table table({{"tensor of a layer", Align::kLeft},
               {"unit", Align::kLeft},
               {"units"},
               {"layers"},
               {"TP"},
               {"max"},
               {"load"},
               {"moves"},
               {"sent"},
               {"received"},
               {"gap"}});
  for (const PlannedTensor& planned : plan.tensors) {
    const PlannedCut& cut = plan.cuts[planned.cut];
    table.add_row({std::string(planned.tensor.name), cut.unit, grouped(cut.units), grouped(planned.layers),
                   fmt::format("{}", cut.plan.compute().degree()), grouped(cut.max_units_per_rank),
                   fmt::format("{:.3f}", cut.load), grouped(cut.moves),
                   bytes_text(cut.moved.max_sent * planned.unit_bytes),
                   bytes_text(cut.moved.max_received * planned.unit_bytes),
                   percent(gap_of(cut.moved.bottleneck(), cut.bound))});
  }
  return table.to_string();
}

std::string summary_table(const TensorPlan& plan) {
  Table table({{"whole model", Align::kLeft},
               {"load"},
               {"moves"},
               {"sent"},
               {"received"},
               {"in all"},
               {"bound"},
               {"gap"}});
  for (const DegreeSummary& sum : plan.summary) {
    table.add_row({fmt::format("TP {}", sum.degree), fmt::format("{:.3f}", sum.load), grouped(sum.moves),
                   bytes_text(sum.sent_bytes_max), bytes_text(sum.received_bytes_max),
                   bytes_text(sum.total_bytes), bytes_text(sum.lower_bound_bytes),
                   percent(gap_of(sum.bottleneck_bytes, sum.lower_bound_bytes))});
  }
  return table.to_string();
}

/// A rank's units as a bar: "#" stays, "+" comes from extra ranks before the sync, "-" goes to core ranks.
class Bar {
 public:
  explicit Bar(std::int64_t longest) : longest_(std::max<std::int64_t>(longest, 1)) {}

  [[nodiscard]] std::string draw(std::int64_t kept, std::int64_t received, std::int64_t sent) const {
    return std::string(length(kept), '#') + std::string(length(received), '+') +
           std::string(length(sent), '-');
  }

 private:
  [[nodiscard]] std::size_t length(std::int64_t units) const {
    constexpr std::int64_t kWidth = 20;
    if (units == 0 || longest_ <= kWidth) return static_cast<std::size_t>(units);
    return static_cast<std::size_t>(std::max<std::int64_t>(1, units * kWidth / longest_));
  }

  std::int64_t longest_;
};

std::string moves_of(const plan::ReshardPlan& pre_sync, int rank) {
  std::vector<std::string> parts;
  for (const plan::Transfer& transfer : pre_sync.transfers()) {
    const std::string units = grouped(transfer.units.size());
    if (transfer.from == rank) parts.push_back(fmt::format("{} to {}", units, transfer.to));
    if (transfer.to == rank) parts.push_back(fmt::format("{} from {}", units, transfer.from));
  }
  return elided(parts);
}

// Does the rank look like the one before it: as many units, in messages of the same sizes with the same
// ranks?
bool like_the_one_before(const PlannedCut& cut, int rank) {
  const plan::SyncPlan& plan = cut.plan;
  return rank > 0 && (rank < plan.sync().degree()) == (rank - 1 < plan.sync().degree()) &&
         plan.compute().units_of(rank) == plan.compute().units_of(rank - 1) &&
         moves_of(plan.pre_sync(), rank) == moves_of(plan.pre_sync(), rank - 1);
}

// Which rank of a TP group holds what, and what moves before the sync. Of ranks alike, the first and the
// last.
std::string drawing(const PlannedCut& cut) {
  const plan::SyncPlan& plan = cut.plan;
  const int ranks = plan.compute().degree();
  Table table({{"rank"},
               {"computes on", Align::kLeft},
               {"", Align::kLeft},
               {"syncs", Align::kLeft},
               {"moves before the sync, and back after it", Align::kLeft}});
  const Bar bar(plan.sync().max_units());
  bool skipping = false;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool within_run =
        like_the_one_before(cut, rank) && rank + 1 < ranks && like_the_one_before(cut, rank + 1);
    if (within_run) {
      if (!skipping) table.add_row({"...", "", "", "", ""});
      skipping = true;
      continue;
    }
    skipping = false;
    const bool core = rank < plan.sync().degree();
    const std::int64_t sent = plan.pre_sync().sent(rank);
    table.add_row({fmt::format("{}", rank), ranges_text(plan.compute().ranges_of(rank)),
                   bar.draw(plan.compute().units_of(rank) - sent, plan.pre_sync().received(rank), sent),
                   core ? ranges_text(plan.sync().ranges_of(rank)) : "-", moves_of(plan.pre_sync(), rank)});
  }
  return fmt::format("TP {}, {} of unit \"{}\":\n{}", ranks, grouped(cut.units), cut.unit, table.to_string());
}

std::string degrees_line(const TensorPlan& plan) {
  const bool copies =
      std::ranges::any_of(plan.cuts, [](const PlannedCut& cut) { return cut.heads_per_group > 0; });
  std::string text = plan.degrees.size() == 1
                         ? fmt::format("every TP group is whole, at TP {}: no reshards\n", plan.full_degree)
                         : fmt::format("TP groups of {}; gradients sync over {} core ranks\n",
                                       fmt::join(plan.degrees, ", "), plan.sync_degree);
  if (copies)
    text += "KV groups that several ranks hold are summed within each TP group, in a whole job too\n";
  return text;
}

std::string drawings(const TensorPlan& plan) {
  std::string text;
  for (const PlannedCut& cut : plan.cuts) {
    if (cut.heads_per_group > 0 || cut.moved.total == 0) continue;
    text += "\n" + drawing(cut);
  }
  return text;
}

std::string tables(const TensorPlan& plan) {
  return "\n" + tensor_table(plan) + "\n" + summary_table(plan) + drawings(plan);
}

std::string placement_line(const JobPlan& plan) {
  const plan::RankPlacement& placement = plan.placement;
  const auto idle_of = [&placement](plan::IdleReason reason) {
    return std::ranges::count(placement.idle(), reason, &plan::IdleGpu::reason);
  };
  return fmt::format(
      "policy {} with {} failed: {} of {} replicas, {} of {} sequences a step\n"
      "{} GPUs at work; idle: {} spare, {} of TP groups without a replica, {} beside a smaller "
      "context-parallel slice\n",
      plan.policy, count(placement.failed().count(), "GPU"), grouped(std::ssize(placement.replicas())),
      grouped(plan.replicas_wanted), grouped(plan.sequences), grouped(plan.global_batch_size),
      grouped(std::ssize(placement.ranks())), grouped(idle_of(plan::IdleReason::kSpare)),
      grouped(idle_of(plan::IdleReason::kLeftoverGroup)), grouped(idle_of(plan::IdleReason::kUnequalSlices)));
}

std::string left_out_line(const JobPlan& plan) {
  if (plan.replicas_left_out == 0) return "";
  return fmt::format("{} leaves out {}: not worth the longer steps of all others\n", plan.policy,
                     count(plan.replicas_left_out, "hurt replica"));
}

bool is_hurt(const plan::PlacedGroup& group) {
  return !group.non_active.empty();
}

std::string hurt_groups(const plan::RankPlacement& placement) {
  constexpr std::size_t kMostShown = 40;
  Table table(
      {{"dp"}, {"pp"}, {"cp"}, {"domain"}, {"TP"}, {"first rank"}, {"local slots not active", Align::kLeft}});
  std::size_t hurt = 0;
  for (std::size_t dp = 0; dp < placement.replicas().size(); ++dp) {
    const auto& groups = placement.replicas()[dp].groups;
    for (std::size_t index = 0; index < groups.size(); ++index) {
      const plan::PlacedGroup& group = groups[index];
      if (!is_hurt(group) || ++hurt > kMostShown) continue;
      const auto cp = static_cast<std::size_t>(placement.shape().cp);
      table.add_row({fmt::format("{}", dp), fmt::format("{}", index / cp), fmt::format("{}", index % cp),
                     fmt::format("{}", group.domain), fmt::format("{}", group.degree),
                     fmt::format("{}", group.first_rank),
                     fmt::format("{}", fmt::join(group.non_active, ","))});
    }
  }
  if (hurt == 0) return "";
  std::string text = fmt::format("\n{} at a reduced TP degree:\n{}",
                                 count(static_cast<std::int64_t>(hurt), "TP group"), table.to_string());
  if (hurt > kMostShown) text += fmt::format("and {} more\n", hurt - kMostShown);
  return text;
}

std::string state_table(const JobPlan& plan, std::span<const StateChange> state) {
  if (plan.placement.failed().count() == 0) return "";
  if (state.empty()) {
    return fmt::format("\nstate to move: not planned for clusters of more than {} GPUs\n",
                       grouped(kMostGpusOfStateChange));
  }
  Table table({{"state to move", Align::kLeft},
               {"within domains"},
               {"busiest GPU"},
               {"bound"},
               {"across domains"},
               {"busiest GPU"},
               {"bound"},
               {"from a checkpoint"}});
  for (const StateChange& change : state) {
    std::vector<std::string> row = {std::string(change.what)};
    for (const StateTraffic& traffic : {change.within_domains, change.across_domains}) {
      row.push_back(bytes_text(traffic.total_bytes));
      row.push_back(bytes_text(traffic.bottleneck_bytes));
      row.push_back(bytes_text(traffic.lower_bound_bytes));
    }
    row.push_back(bytes_text(change.without_copy_bytes));
    table.add_row(std::move(row));
  }
  return "\n" + table.to_string();
}

std::string parity_line(const plan::RankPlacement& placement) {
  const plan::MegatronParity parity = plan::megatron_parity(placement);
  if (parity.idled_gpus == 0) return "";
  return fmt::format(
      "Megatron Core has one reduced degree: --format megatron idles {} more, and numbers ranks without "
      "them\n",
      count(parity.idled_gpus, "GPU"));
}

}  // namespace

std::string plan_text(const ModelPlan& plan) {
  return fmt::format("{}: ", plan.model) + degrees_line(plan.tensors) +
         parity_line(placement_of(plan.tensors)) + tables(plan.tensors);
}

std::string plan_text(const JobPlan& plan, std::span<const StateChange> state,
                      const scenario::LoadedScenario& loaded) {
  return headline(loaded.scenario) + placement_line(plan) + left_out_line(plan) +
         parity_line(plan.placement) + hurt_groups(plan.placement) + state_table(plan, state) + "\n" +
         degrees_line(plan.tensors) + tables(plan.tensors);
}

}  // namespace ntpsim::analysis
