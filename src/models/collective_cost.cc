#include "ntpsim/models/collective_cost.h"

#include <algorithm>
#include <bit>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

constexpr double kDirectShare = 0.71;
constexpr double kNicShare = 0.96;
/// LL128's step over Simple's.
constexpr double kLowLatencyStep = 1.0 / 3;
/// The GPUs whose NVLink switches stand in one host.
constexpr int kHostGpus = 8;

/// What NCCL attains on a generation; shares are of NVLink bandwidth.
struct Attained {
  double ring_share;
  double low_latency_bytes_per_s;
  double switch_share;       ///< zero where the switch cannot reduce
  double rack_switch_share;  ///< of domains larger than a host
  double nvls_channels;
  double nvls_latency_s;
};

constexpr Attained kAmpere = {0.772, 115e9, 0, 0, 0, 0};
constexpr Attained kHopper = {0.811, 115e9, 0.680, 0.680, 16, 27.5e-6};
constexpr Attained kBlackwell = {0.755, 150e9, 0.598, 0.485, 24, 80e-6};

const Attained& attained_by(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kAmpere:
      return kAmpere;
    case GpuGeneration::kHopper:
      return kHopper;
    case GpuGeneration::kBlackwell:
      return kBlackwell;
  }
  return kBlackwell;
}

constexpr double kKibi = 1024;

/// Bytes of one chunk when `blocks` of them make a round: NCCL's ladder for NVLS, which keeps rounds small
/// beside the tensor. Never falls with bytes.
double chunk_bytes(double bytes, double blocks) {
  if (bytes < 2 * blocks * 32 * kKibi) return 16 * kKibi;
  if (bytes < 8 * blocks * 64 * kKibi) return 32 * kKibi;
  if (bytes < 64 * blocks * 128 * kKibi) return 64 * kKibi;
  return 128 * kKibi;
}

/// Channels of a tree and the chunks that each works in: NCCL wants 8 for every hop, within these bounds.
constexpr double kTreeChannels = 24;
constexpr double kTreeChunksPerHop = 8;
constexpr double kTreeMinChunk = 32 * kKibi;
constexpr double kTreeMaxChunk = 512 * kKibi;

}  // namespace

/// A span in the numbers that the equations take.
struct CollectiveCost::Shape {
  explicit Shape(GroupSpan span)
      : ranks(static_cast<double>(span.size)), inside(static_cast<double>(span.per_domain)) {
    const std::int64_t count = (span.size + span.per_domain - 1) / span.per_domain;
    domains = static_cast<double>(count);
    fewest = static_cast<double>(span.size - (count - 1) * span.per_domain);
    tree_depth = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - 1;
  }

  [[nodiscard]] bool one_domain() const { return domains == 1; }

  double ranks;
  double inside;  ///< ranks in a domain, but for the last
  double domains;
  double fewest;   ///< ranks in the last domain
  int tree_depth;  ///< of a tree of domains
};

GroupSpan span_of(std::int64_t size, std::int64_t stride, std::int64_t domain_size) {
  invariant(size >= 1 && stride >= 1 && domain_size >= 1, "a group, its stride and the domain are positive");
  return {size, std::clamp<std::int64_t>(domain_size / stride, 1, size)};
}

std::string_view to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return "RING";
    case CollectiveAlgorithm::kTree:
      return "TREE";
    case CollectiveAlgorithm::kNvls:
      return "NVLS";
    case CollectiveAlgorithm::kNvlsTree:
      return "NVLS_TREE";
  }
  return "";
}

CollectiveCost::CollectiveCost(const SystemSpec& system)
    : nic_(kNicShare * system.nic_bandwidth.value()),
      nvlink_latency_s_(system.nvlink_latency.seconds()),
      nic_latency_s_(system.nic_latency.seconds()) {
  const Attained& attained = attained_by(generation_of(system.gpu));
  const double nvlink = system.nvlink_bandwidth.value();
  ring_ = attained.ring_share * nvlink;
  direct_ = kDirectShare * nvlink;
  low_latency_ = attained.low_latency_bytes_per_s;
  switch_reduce_ =
      (system.domain_size > kHostGpus ? attained.rack_switch_share : attained.switch_share) * nvlink;
  nvls_channels_ = attained.nvls_channels;
  nvls_latency_s_ = attained.nvls_latency_s;
}

double CollectiveCost::ring_rate(const Shape& shape) const {
  return shape.one_domain() ? ring_ : std::min(ring_, shape.fewest * nic_);
}

double CollectiveCost::ring_s(double bytes, const Shape& shape) const {
  const double latency =
      (shape.ranks - shape.domains) * nvlink_latency_s_ + (shape.domains - 1) * nic_latency_s_;
  const double moved = bytes * (shape.ranks - 1) / shape.ranks;
  const double rate = ring_rate(shape);
  return std::min(latency + moved / rate, kLowLatencyStep * latency + moved / std::min(rate, low_latency_));
}

double CollectiveCost::tree_s(double bytes, const Shape& shape) const {
  const double hops = shape.inside - 1 + shape.tree_depth;
  const double latency = 2 * ((shape.inside - 1) * nvlink_latency_s_ + shape.tree_depth * nic_latency_s_);
  const double chunk =
      std::clamp(bytes / (kTreeChunksPerHop * hops * kTreeChannels), kTreeMinChunk, kTreeMaxChunk);
  const double round = std::min(bytes, kTreeChannels * chunk);
  const double rate = ring_rate(shape) / 2;
  return std::min(latency + (2 * hops * round + bytes) / rate,
                  kLowLatencyStep * latency + bytes / std::min(rate, low_latency_ / 2));
}

double CollectiveCost::nvls_s(double bytes, const Shape& shape) const {
  const double children = shape.domains < 4 ? 1 : 2;
  double rate = switch_reduce_ / (1 + 1 / shape.inside) / children;
  if (!shape.one_domain()) {
    rate = std::min(rate, shape.fewest * nic_ * shape.domains / (2 * (shape.domains - 1)));
  }
  const double blocks = nvls_channels_ * shape.inside;
  const double round = std::min(bytes, blocks * chunk_bytes(bytes, blocks));
  const double stages = 2 + 2 * shape.tree_depth;
  return nvls_latency_s_ + 2 * shape.tree_depth * nic_latency_s_ + (stages * round + bytes) / rate;
}

CollectiveCost::Choice CollectiveCost::all_reduce(double bytes, GroupSpan span) const {
  const Shape shape(span);
  Choice best = {CollectiveAlgorithm::kRing, 2 * ring_s(bytes, shape)};
  const auto consider = [&best](CollectiveAlgorithm algorithm, double seconds) {
    if (seconds < best.seconds) best = {algorithm, seconds};
  };
  if (switch_reduce_ > 0 && span.per_domain > 1) {
    consider(shape.one_domain() ? CollectiveAlgorithm::kNvls : CollectiveAlgorithm::kNvlsTree,
             nvls_s(bytes, shape));
  } else if (!shape.one_domain()) {
    consider(CollectiveAlgorithm::kTree, tree_s(bytes, shape));
  }
  return best;
}

double CollectiveCost::all_gather_s(double bytes, GroupSpan span) const {
  return span.size <= 1 ? 0 : ring_s(bytes, Shape(span));
}

double CollectiveCost::reduce_scatter_s(double bytes, GroupSpan span) const {
  return all_gather_s(bytes, span);
}

double CollectiveCost::all_reduce_s(double bytes, GroupSpan span) const {
  return span.size <= 1 ? 0 : all_reduce(bytes, span).seconds;
}

CollectiveAlgorithm CollectiveCost::all_reduce_algorithm(double bytes, GroupSpan span) const {
  return span.size <= 1 ? CollectiveAlgorithm::kRing : all_reduce(bytes, span).algorithm;
}

double CollectiveCost::all_to_all_s(double bytes, GroupSpan span) const {
  if (span.size <= 1) return 0;
  const Shape shape(span);
  const double part = bytes / shape.ranks;
  const double within = shape.inside > 1 ? nvlink_latency_s_ + part * (shape.inside - 1) / direct_ : 0;
  const double between = shape.one_domain() ? 0 : nic_latency_s_ + part * (shape.ranks - shape.fewest) / nic_;
  return std::max(within, between);
}

double CollectiveCost::point_to_point_s(double bytes, bool within_domain) const {
  return within_domain ? nvlink_latency_s_ + bytes / ring_ : nic_latency_s_ + bytes / nic_;
}

}  // namespace ntpsim::models
