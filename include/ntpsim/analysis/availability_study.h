#pragma once

#include <cstdint>
#include <vector>

#include "ntpsim/analysis/progress.h"
#include "ntpsim/analysis/statistics.h"
#include "ntpsim/scenario/scenario.h"

namespace ntpsim::analysis {

struct AvailabilityPoint {
  double failed_fraction = 0;
  std::int64_t failed_gpus = 0;  ///< of the cluster, spare domains left out
  std::size_t policy = 0;        ///< index into the scenario's policies
  /// Share of the healthy job's training rate that is missing; recovery does not enter.
  Estimate loss;
  /// Share of the cluster's GPUs that lie in domains without any failed GPU.
  Estimate domain_availability;
};

struct AvailabilityOptions {
  std::vector<double> failed_fractions;  ///< each in [0, 1]
  std::int64_t draws = 1000;             ///< at least 1
};

/// What a given share of failed GPUs costs: each draw fails round(share * GPUs) GPUs of the cluster, all
/// alike likely, and each GPU of a spare domain with that probability, and lets every policy configure the
/// job on the rest. Draws are common to policies, do not depend on which other policies there are, and within
/// a draw a higher share fails all that a lower one does. Points by share, then by policy.
[[nodiscard]] std::vector<AvailabilityPoint> run_availability_study(const scenario::Scenario& scenario,
                                                                    const AvailabilityOptions& availability,
                                                                    const StudyOptions& options);

}  // namespace ntpsim::analysis
