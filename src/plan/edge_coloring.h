#pragma once

#include <span>
#include <vector>

namespace ntpsim::plan {

/// An edge of a bipartite multigraph with the ranks as senders on one side and as receivers on the other.
struct Edge {
  int from = 0;
  int to = 0;
};

/// Ranks in groups, each of which may send `limit` edges of one color and receive as many.
struct PortLimits {
  std::vector<int> group_of;  ///< rank -> group, any numbers
  int limit = 0;
};

/// A color in [0, colors) for each edge, such that a rank sends at most one edge of a color and receives at
/// most one, and a group sends at most `limit` edges of a color and receives at most as many.
///
/// Such colors exist whenever the requirements hold: for ranks alone by Koenig's theorem (1916), for groups
/// by de Werra's on balanced colorings of laminar families (1971). Edges take the first color that is free at
/// both ends, in the order given; where there is none, a chain of two alternating colors makes one free.
///
/// Memory O(edges + ranks + colors). An edge costs O(colors / 64), and where it needs a chain O(ranks) steps
/// at worst, in groups at their limit O(group) a step. Chains are rare unless nearly all ranks have as many
/// edges as there are colors, and then a few dozen steps long on average. REQUIRES: no rank sends or receives
/// more than `colors` edges, and no group more than limit * colors.
[[nodiscard]] std::vector<int> color_edges(std::span<const Edge> edges, const PortLimits& groups, int colors);

}  // namespace ntpsim::plan
