#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ntpsim/analysis/throughput_table.h"

namespace ntpsim::analysis {

/// Told of a column and what is wrong with it.
using RunProblem = std::function<void(std::string_view column, std::string message)>;

/// Can the run be run as stated? One rule for all rows: degrees divide the GPUs, and the batch divides into
/// microbatches on every replica; a remainder is refused. What the row leaves open is taken as 1 here.
/// REQUIRES: all stated numbers positive and within the reader's limits.
void check_run(const MeasuredRun& run, const RunProblem& problem);

}  // namespace ntpsim::analysis
