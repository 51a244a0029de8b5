#pragma once

#include <memory>

#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/specs.h"

namespace ntpsim::sim {

// Makers for the policy table.
[[nodiscard]] std::unique_ptr<Policy> make_dp_drop(const ClusterSpec&, const JobSpec&, const PolicySpec&);
[[nodiscard]] std::unique_ptr<Policy> make_checkpoint_restart(const ClusterSpec&, const JobSpec&,
                                                              const PolicySpec&);
[[nodiscard]] std::unique_ptr<Policy> make_hot_spares(const ClusterSpec&, const JobSpec&, const PolicySpec&);
[[nodiscard]] std::unique_ptr<Policy> make_ntp(const ClusterSpec&, const JobSpec&, const PolicySpec&);
[[nodiscard]] std::unique_ptr<Policy> make_ntp_pw(const ClusterSpec&, const JobSpec&, const PolicySpec&);

}  // namespace ntpsim::sim
