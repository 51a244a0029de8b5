#include "ntpsim/models/collective_cost.h"

#include <algorithm>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

constexpr double kNvlinkEfficiency = 0.81;
constexpr double kNicEfficiency = 0.96;
constexpr double kSwitchEfficiency = 0.53;
constexpr std::int64_t kSwitchMinRanks = 5;
constexpr double kBaseLatency = 8.4e-6;
constexpr double kSwitchLatency = 25e-6;

}  // namespace

GroupSpan span_of(std::int64_t size, std::int64_t stride, std::int64_t domain_size) {
  invariant(size >= 1 && stride >= 1 && domain_size >= 1, "a group, its stride and the domain are positive");
  return {size, std::clamp<std::int64_t>(domain_size / stride, 1, size)};
}

CollectiveCost::CollectiveCost(const SystemSpec& system)
    : nvlink_(kNvlinkEfficiency * system.nvlink_bandwidth.value()),
      nic_(kNicEfficiency * system.nic_bandwidth.value()),
      nvlink_latency_s_(system.nvlink_latency.seconds()),
      nic_latency_s_(system.nic_latency.seconds()),
      switch_reduce_(generation_of(system.gpu) == GpuGeneration::kAmpere
                         ? 0
                         : kSwitchEfficiency * system.nvlink_bandwidth.value()) {}

double CollectiveCost::all_gather_s(double bytes, GroupSpan span) const {
  if (span.size <= 1) return 0;
  const auto inside = static_cast<double>(span.per_domain);
  const std::int64_t domain_count = (span.size + span.per_domain - 1) / span.per_domain;
  const auto domains = static_cast<double>(domain_count);
  const double within = (inside - 1) * nvlink_latency_s_ + bytes * (inside - 1) / inside / nvlink_;
  const double between = (domains - 1) * nic_latency_s_ + bytes / inside * (domains - 1) / domains / nic_;
  return kBaseLatency + within + between;
}

double CollectiveCost::reduce_scatter_s(double bytes, GroupSpan span) const {
  return all_gather_s(bytes, span);
}

double CollectiveCost::all_reduce_s(double bytes, GroupSpan span) const {
  if (span.size <= 1) return 0;
  const double rings = 2 * all_gather_s(bytes, span);
  const bool in_switch = switch_reduce_ > 0 && span.per_domain == span.size && span.size >= kSwitchMinRanks;
  if (!in_switch) return rings;
  return std::min(rings, kBaseLatency + kSwitchLatency + bytes / switch_reduce_);
}

double CollectiveCost::all_to_all_s(double bytes, GroupSpan span) const {
  if (span.size <= 1) return 0;
  const auto ranks = static_cast<double>(span.size);
  const auto inside = static_cast<double>(span.per_domain);
  const double within = span.per_domain > 1 ? nvlink_latency_s_ + bytes * (inside - 1) / ranks / nvlink_ : 0;
  const double between =
      span.size > span.per_domain ? nic_latency_s_ + bytes * (ranks - inside) / ranks / nic_ : 0;
  return kBaseLatency + std::max(within, between);
}

double CollectiveCost::point_to_point_s(double bytes, bool within_domain) const {
  return kBaseLatency + (within_domain ? nvlink_latency_s_ + bytes / nvlink_ : nic_latency_s_ + bytes / nic_);
}

}  // namespace ntpsim::models
