#include "ntpsim/sim/policy_table.h"

#include <algorithm>
#include <array>
#include <span>

#include "policies.h"

namespace ntpsim::sim {
namespace {

constexpr std::array<std::string_view, 5> kElasticBoost = {"/recovery/reconfigure", "/recovery/reshard",
                                                           "/recovery/elastic_restore", "/recovery/restore",
                                                           "/power/boost_limit"};
constexpr std::span kElastic = std::span(kElasticBoost).first<4>();  // all but the boost
constexpr std::array<std::string_view, 3> kColdRestart = {"/recovery/scheduling", "/recovery/restart",
                                                          "/recovery/restore"};
constexpr std::array<std::string_view, 2> kHotSpares = {"/recovery/in_job_restart", "/recovery/restore"};

constexpr std::array kPolicies = {
    PolicyInfo{.name = "dp_drop",
               .description = "go on without the data-parallel replicas that the lost TP groups make up",
               .settings = kElastic,
               .make = make_dp_drop},
    PolicyInfo{.name = "checkpoint_restart",
               .description = "restart from the last checkpoint, on a smaller job of whole replicas",
               .settings = kColdRestart,
               .make = make_checkpoint_restart},
    PolicyInfo{
        .name = "hot_spares",
        .description =
            "swap spares in and restart within the job from the last checkpoint; shrink when none is left",
        .settings = kHotSpares,
        .lives_on_spares = true,
        .make = make_hot_spares},
    PolicyInfo{.name = "ntp",
               .description =
                   "Nonuniform Tensor Parallelism: pack hurt TP groups into the fewest replicas, each at its "
                   "reduced TP degree with the largest local batch that does not hold back the others",
               .settings = kElastic,
               .reduces_tp = true,
               .make = make_ntp},
    PolicyInfo{.name = "ntp_pw",
               .description =
                   "NTP with power boost: hurt TP groups get more power, up to the boost limit, to keep the "
                   "full local batch",
               .settings = kElasticBoost,
               .reduces_tp = true,
               .boosts = true,
               .make = make_ntp_pw},
};

}  // namespace

std::span<const PolicyInfo> policy_table() {
  return kPolicies;
}

const PolicyInfo* find_policy(std::string_view name) {
  const auto* const info = std::ranges::find(kPolicies, name, &PolicyInfo::name);
  return info == kPolicies.end() ? nullptr : info;
}

}  // namespace ntpsim::sim
