#pragma once

#include <cstdint>

#include "ntpsim/models/hardware.h"

// Seconds of collectives by the alpha-beta model, hierarchical over two levels.
//
// A group of n ranks keeps k of them in each scale-up domain, so it touches N = ceil(n / k) domains. For a
// tensor of B bytes (gathered size) per rank:
//
//   all-gather, reduce-scatter:
//     t0 + (k-1) a_v + B (k-1)/k / (e_v v) + (N-1) a_n + B/k (N-1)/N / (e_n w)
//   all-reduce:
//     twice that, or one pass through the switch inside a domain where that is faster:
//     t0 + a_s + B / (e_s v)
//   all-to-all:
//     t0 + the longer of a_v + B (k-1)/n / (e_v v) and a_n + B (n-k)/n / (e_n w)
//   point to point:
//     t0 + a + B / (e x link)
//
// with v and w the NVLink and NIC bandwidth per GPU and direction, a_v and a_n the latency of one step.
// Efficiencies and t0 come from published nccl-tests runs: all-gather and reduce-scatter on 8 H200 and 8 B200
// reach 0.80 to 0.82 of unidirectional NVLink on any number of ranks (e_v = 0.81); a 400 Gbit/s NIC carries
// 48 of 50 GB/s (e_n = 0.96); switch (NVLS) all-reduce of 8 H200, 8 B200 and 72 GB200 has an algorithm
// bandwidth of 0.60, 0.53 and 0.48 of NVLink (e_s = 0.53), from 5 ranks on, on Hopper and later. t0 = 8.4 us
// and a_s = 25 us are NCCL 2.28's tuner figures (base latency of the Simple protocol; NVLS). Holds for
// messages of 1 MB and more over full-bisection networks without other traffic; smaller ones run on other
// protocols, faster than this by up to 30 us.

namespace ntpsim::models {

/// Where the ranks of a group are.
struct GroupSpan {
  std::int64_t size = 1;        ///< ranks
  std::int64_t per_domain = 1;  ///< of them in one scale-up domain

  bool operator==(const GroupSpan&) const = default;
};

/// The span of `size` ranks whose global numbers lie `stride` apart, with domains of `domain_size`
/// consecutive ranks. REQUIRES: all positive.
[[nodiscard]] GroupSpan span_of(std::int64_t size, std::int64_t stride, std::int64_t domain_size);

/// Prices collectives on one system. All results in seconds, not negative, zero for a group of one rank;
/// O(1).
class CollectiveCost {
 public:
  explicit CollectiveCost(const SystemSpec& system);

  /// `bytes` is the gathered tensor; every rank brings 1/size of it.
  [[nodiscard]] double all_gather_s(double bytes, GroupSpan span) const;
  /// `bytes` is the tensor before the reduction; every rank keeps 1/size of it.
  [[nodiscard]] double reduce_scatter_s(double bytes, GroupSpan span) const;
  /// `bytes` is the tensor that every rank brings and gets.
  [[nodiscard]] double all_reduce_s(double bytes, GroupSpan span) const;
  /// `bytes` is what every rank brings; it sends 1/size of it to each rank and keeps its own part.
  [[nodiscard]] double all_to_all_s(double bytes, GroupSpan span) const;
  /// One message of `bytes` to a rank of the same domain, or of another one.
  [[nodiscard]] double point_to_point_s(double bytes, bool within_domain) const;

 private:
  double nvlink_;  // attainable bytes/s
  double nic_;     // attainable bytes/s
  double nvlink_latency_s_;
  double nic_latency_s_;
  double switch_reduce_;  // attainable bytes/s of all-reduce in the switch; 0: the switch cannot
};

}  // namespace ntpsim::models
