#include <algorithm>
#include <numeric>

#include "ntpsim/core/invariant.h"
#include "ntpsim/sim/policy.h"

namespace ntpsim::sim {

Transition::Transition(std::initializer_list<Phase> phases) : size_(phases.size()) {
  invariant(size_ <= kMaxPhases, "a transition has few phases");
  std::ranges::copy(phases, phases_.begin());
}

Time Transition::length() const {
  return std::accumulate(begin(), end(), Time(),
                         [](Time sum, const Phase& phase) { return sum + phase.length; });
}

}  // namespace ntpsim::sim
