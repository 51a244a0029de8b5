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

// "0-3, 120": units, both ends included.
std::string ranges_text(std::span<const plan::UnitRange> ranges) {
  if (ranges.empty()) return "-";
  std::vector<std::string> parts;
  for (const plan::UnitRange& range : ranges) {
    parts.push_back(range.size() == 1 ? fmt::format("{}", range.begin)
                                      : fmt::format("{}-{}", range.begin, range.end - 1));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string count(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string tensor_table(const TensorPlan& plan) {
  Table table({{"gradient of one layer", Align::kLeft},
               {"unit", Align::kLeft},
               {"units"},
               {"layers"},
               {"TP"},
               {"max a rank"},
               {"load"},
               {"moves"},
               {"rounds"},
               {"sent"},
               {"received"},
               {"bound"},
               {"gap"}});
  for (const PlannedTensor& planned : plan.tensors) {
    const PlannedCut& cut = plan.cuts[planned.cut];
    table.add_row({std::string(planned.tensor.name), cut.unit, grouped(cut.units), grouped(planned.layers),
                   fmt::format("{}", cut.plan.compute().degree()), grouped(cut.max_units_per_rank),
                   fmt::format("{:.3f}", cut.load), grouped(cut.moves), grouped(cut.rounds),
                   bytes_text(cut.moved.max_sent * planned.unit_bytes),
                   bytes_text(cut.moved.max_received * planned.unit_bytes),
                   bytes_text(cut.bound * planned.unit_bytes),
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
  constexpr std::size_t kMostShown = 4;
  if (parts.size() <= kMostShown) return fmt::format("{}", fmt::join(parts, ", "));
  return fmt::format("{}, {}, ..., {} ({} in all)", parts[0], parts[1], parts.back(), parts.size());
}

// Which rank of a TP group holds what, and what moves before the sync.
std::string drawing(const PlannedCut& cut) {
  const plan::SyncPlan& plan = cut.plan;
  const int core_ranks = plan.sync().degree();
  Table table({{"rank"},
               {"computes on", Align::kLeft},
               {"", Align::kLeft},
               {"syncs", Align::kLeft},
               {"moves before the sync, and back after it", Align::kLeft}});
  const Bar bar(plan.sync().max_units());
  for (int rank = 0; rank < plan.compute().degree(); ++rank) {
    const bool core = rank < core_ranks;
    const std::int64_t sent = plan.pre_sync().sent(rank);
    table.add_row({fmt::format("{}", rank), ranges_text(plan.compute().ranges_of(rank)),
                   bar.draw(plan.compute().units_of(rank) - sent, plan.pre_sync().received(rank), sent),
                   core ? ranges_text(plan.sync().ranges_of(rank)) : "-", moves_of(plan.pre_sync(), rank)});
  }
  return fmt::format("TP {}, {} of unit \"{}\":\n{}", plan.compute().degree(), grouped(cut.units), cut.unit,
                     table.to_string());
}

std::string degrees_line(const TensorPlan& plan) {
  if (plan.degrees.size() == 1) {
    return fmt::format("every TP group is whole, at TP {}: nothing moves before the sync\n",
                       plan.full_degree);
  }
  return fmt::format("TP groups of {}; gradients sync over {} core ranks\n", fmt::join(plan.degrees, ", "),
                     plan.sync_degree);
}

std::string drawings(const TensorPlan& plan) {
  std::string text;
  for (const PlannedCut& cut : plan.cuts) {
    if (cut.heads_per_group > 0 || cut.moved.total == 0) continue;
    text += "\n" + drawing(cut);
  }
  return text;
}

std::string tensors_text(const TensorPlan& plan) {
  return degrees_line(plan) + "\n" + tensor_table(plan) + "\n" + summary_table(plan) + drawings(plan);
}

std::string placement_line(const JobPlan& plan) {
  const plan::RankPlacement& placement = plan.placement;
  const auto idle_of = [&placement](plan::IdleReason reason) {
    return std::ranges::count(placement.idle(), reason, &plan::IdleGpu::reason);
  };
  return fmt::format(
      "policy {} with {} failed: {} of {} replicas, {} of {} sequences a step\n"
      "{} GPUs at work; idle: {} spare, {} of TP groups without a replica, {} beside a smaller slice\n",
      plan.policy, count(placement.failed().count(), "GPU"), grouped(std::ssize(placement.replicas())),
      grouped(plan.replicas_wanted), grouped(plan.sequences), grouped(plan.global_batch_size),
      grouped(std::ssize(placement.ranks())), grouped(idle_of(plan::IdleReason::kSpare)),
      grouped(idle_of(plan::IdleReason::kLeftoverGroup)), grouped(idle_of(plan::IdleReason::kUnequalSlices)));
}

std::string left_out_line(const JobPlan& plan) {
  if (plan.replicas_left_out == 0) return "";
  return fmt::format("{} leaves out {}: they would lengthen every step by more than they train\n",
                     plan.policy, count(plan.replicas_left_out, "hurt replica"));
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

std::string state_table(const JobPlan& plan) {
  if (plan.state_change.empty()) return "";
  Table table({{"state to move", Align::kLeft},
               {"from peers"},
               {"busiest rank, within domains"},
               {"busiest rank, across"},
               {"bound of both"},
               {"from a checkpoint"}});
  for (const StateChange& change : plan.state_change) {
    table.add_row({std::string(change.what), bytes_text(change.from_peers_bytes),
                   bytes_text(change.within_domains_bottleneck_bytes),
                   bytes_text(change.across_domains_bottleneck_bytes), bytes_text(change.lower_bound_bytes),
                   bytes_text(change.without_copy_bytes)});
  }
  return "\n" + table.to_string();
}

std::string parity_line(const plan::RankPlacement& placement) {
  const plan::MegatronParity parity = plan::megatron_parity(placement);
  if (parity.idled_gpus == 0) return "";
  return fmt::format("Megatron Core has one reduced degree: it would leave {} more idle\n",
                     count(parity.idled_gpus, "GPU"));
}

}  // namespace

std::string plan_text(const ModelPlan& plan) {
  return fmt::format("{}: ", plan.model) + tensors_text(plan.tensors);
}

std::string plan_text(const JobPlan& plan, const scenario::LoadedScenario& loaded) {
  return headline(loaded.scenario) + placement_line(plan) + left_out_line(plan) +
         parity_line(plan.placement) + hurt_groups(plan.placement) + state_table(plan) + "\n" +
         tensors_text(plan.tensors);
}

}  // namespace ntpsim::analysis
