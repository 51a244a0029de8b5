#pragma once

#include <cstdint>
#include <string_view>

#include "ntpsim/models/hardware.h"

// Seconds of collectives as NCCL runs them: the best of its algorithms and protocols, each a latency, a rate
// and, where it works through buffers, the time to fill its pipeline.
//
// A group of n ranks keeps k of them in each of N = ceil(n / k) scale-up domains; the last domain holds what
// is left, r <= k ranks, and its r NICs bound what every other domain can exchange with it. B is the bytes of
// the whole tensor (gathered, or before the reduction); v and w are the bandwidth of NVLink and of a NIC per
// GPU and direction; "alpha" is the latency of a step, within a domain or between two.
//
//   ring            sum of the alphas of n - 1 steps (N - 1 of them between domains) + B (n-1)/n / rate,
//                   the quicker of two protocols. Simple takes alpha and runs at min(e_ring v, r e_nic w);
//                   LL128 takes alpha / 3 and runs at no more than b_ll. All-gathers and reduce-scatters are
//                   one ring; an all-reduce is two.
//   tree            all-reduce over several domains whose switches cannot reduce, or that hold one rank each:
//                   a double tree of domains, a chain within each, d = k - 1 + floor(log2 N) hops deep.
//                   2 ((k-1) alpha + floor(log2 N) alpha_net) + (2 d F + B) / rate, at half a ring's rate; F,
//                   what 24 channels have in flight on a hop, is 24 x max(32 KiB, min(512 KiB, B / (24 x 8
//                   d))). LL128 as above, and with no F.
//   NVLS            all-reduce in the switch of one domain: a_nvls + (2 F + B) / s, s = e_nvls v / (1 + 1/n).
//                   A GPU's link carries its tensor and, as 1/n of the ranks, the reduced shard. F is one
//                   round of the buffers: NVLS channels x k x the chunk that NCCL picks for B; scattering and
//                   gathering of a round do not overlap with its reduction.
//   NVLS tree       the same over several domains, each with its NICs in a tree: (2 + 2 floor(log2 N)) F
//                   instead of 2 F, 2 floor(log2 N) alpha_net more, and s over the children of a tree node (1
//                   up to three domains, then 2), but no faster than the NICs, r e_nic w N / (2 (N-1)).
//   all-to-all      the longer of alpha + B (k-1)/n / (e_direct v) and alpha_net + B (n-r)/n / (e_nic w)
//   point to point  alpha + B / rate of one ring link
//
// Sources. The chunk ladder and the channels of NVLS in one domain (16 on Hopper, 24 on Blackwell) are NCCL's
// (src/enqueue.cc, src/transport/nvls.cc). For an NVLS tree NCCL has another ladder and, on Blackwell, 32
// channels; those of one domain stand in for them. Its stages and the halving from 4 domains on are read off
// 2 and 20 racks of GB200 alone. The ceilings and latencies are read off nccl-tests runs of 8 A100, H100,
// H200 and B200 and of 4 and 72 GB200 (tests/validation/collectives_test.cc), so the errors below are those
// of a fit. Each is shared by all sizes and group sizes:
//
//                  Ampere   Hopper   Blackwell
//   e_ring         0.772    0.811    0.755       large rings of 8 A100, 4..8 H200, 4 GB200 and 4..8 B200
//   b_ll, GB/s     115      115      150         8 A100 and 4 GB200 at 1..8 MiB; Hopper's taken from Ampere
//   e_nvls         -        0.680    0.598       5..8 H200, 6..8 B200; 0.485 in domains of more than 8 GPUs,
//                                                72 GB200
//   a_nvls, us     -        27.5     80          8 H100 and H200 at 1..2 MiB, 8 B200 at 16..64 MiB
//
//   e_nic 0.96 (48 of 50 GB/s), e_direct 0.71 (210, 320 and 640 of 300, 450 and 900 GB/s); alpha and
//   alpha_net are the system's (src/models/hardware_catalog.cc).
//
// Reached, as bandwidth modelled over measured (ctest -R validation.collectives prints every row): one host
// from 1 MiB up, 86 rows, at most 19.0%, mean 6.1%; 1, 2 and 20 racks of 72 GB200 from 1 GiB up, 12 rows, at
// most 6.1%, mean 2.2% (at 512 MiB 13.6, 14.7 and 33.7% too fast); large messages of 4 to 8 GPUs, all-gather,
// reduce-scatter, all-to-all and one NIC, 28 rows, at most 5.0%, mean 0.7%. 8 H200 of two sources differ by
// up to 33% between 1 and 4 MiB. Not covered by measurements: trees, rings over several domains, latencies of
// all-to-all, Hopper's rings below the largest sizes. Networks are taken as full bisection without other
// traffic.

namespace ntpsim::models {

/// Where the ranks of a group are.
struct GroupSpan {
  std::int64_t size = 1;        ///< ranks
  std::int64_t per_domain = 1;  ///< of them in one scale-up domain; the last domain may hold fewer

  bool operator==(const GroupSpan&) const = default;
};

/// The span of `size` ranks whose global numbers lie `stride` apart, with domains of `domain_size`
/// consecutive ranks. REQUIRES: all positive.
[[nodiscard]] GroupSpan span_of(std::int64_t size, std::int64_t stride, std::int64_t domain_size);

/// How ranks exchange the parts of an all-reduce.
enum class CollectiveAlgorithm : unsigned char { kRing, kTree, kNvls, kNvlsTree };

/// NCCL's name: "RING", "TREE", "NVLS", "NVLS_TREE".
[[nodiscard]] std::string_view to_string(CollectiveAlgorithm algorithm);

/// Prices collectives on one system. All results in seconds, not negative, zero for a group of one rank,
/// never falling with bytes; O(1). `bytes` is not negative; spans are positive with per_domain <= size.
class CollectiveCost {
 public:
  explicit CollectiveCost(const SystemSpec& system);

  /// `bytes` is the gathered tensor; every rank brings 1/size of it.
  [[nodiscard]] double all_gather_s(double bytes, GroupSpan span) const;
  /// `bytes` is the tensor before the reduction; every rank keeps 1/size of it.
  [[nodiscard]] double reduce_scatter_s(double bytes, GroupSpan span) const;
  /// `bytes` is the tensor that every rank brings and gets. At most a reduce-scatter and an all-gather.
  [[nodiscard]] double all_reduce_s(double bytes, GroupSpan span) const;
  /// The one that all_reduce_s prices; all-gathers and reduce-scatters are rings.
  [[nodiscard]] CollectiveAlgorithm all_reduce_algorithm(double bytes, GroupSpan span) const;
  /// `bytes` is what every rank brings; it sends 1/size of it to each rank and keeps its own part.
  [[nodiscard]] double all_to_all_s(double bytes, GroupSpan span) const;
  /// One message of `bytes` to a rank of the same domain, or of another one.
  [[nodiscard]] double point_to_point_s(double bytes, bool within_domain) const;

 private:
  struct Shape;
  struct Choice {
    CollectiveAlgorithm algorithm;
    double seconds;
  };

  [[nodiscard]] double ring_s(double bytes, const Shape& shape) const;
  [[nodiscard]] double tree_s(double bytes, const Shape& shape) const;
  [[nodiscard]] double nvls_s(double bytes, const Shape& shape) const;
  [[nodiscard]] Choice all_reduce(double bytes, GroupSpan span) const;
  /// Of a ring that crosses the span's links.
  [[nodiscard]] double ring_rate(const Shape& shape) const;

  // Attainable rates in bytes/s.
  double ring_;
  double low_latency_;
  double direct_;
  double nic_;
  double switch_reduce_;  // zero where the switch cannot reduce
  double nvls_channels_;
  double nvls_latency_s_;
  double nvlink_latency_s_;
  double nic_latency_s_;
};

}  // namespace ntpsim::models
