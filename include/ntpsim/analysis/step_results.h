#pragma once

#include <string>

#include "ntpsim/analysis/results.h"
#include "ntpsim/models/memory.h"
#include "ntpsim/scenario/scenario.h"
#include "ntpsim/sim/step_model.h"

namespace ntpsim::analysis {

/// One step of the healthy job of a scenario.
struct StepStudy {
  sim::ReplicaShape shape;
  sim::StepBreakdown step;
  models::MemoryBreakdown memory;  ///< of the fullest GPU

  /// FLOP/s a GPU in use by the "model FLOPs" convention (models/transformer.h), tokens/s of the job, and
  /// model FLOPs over the dense peak of the job's precision.
  double model_flops_per_s_per_gpu = 0;
  double tokens_per_s = 0;
  double mfu = 0;
};

[[nodiscard]] StepStudy study_step(const scenario::Scenario& scenario);

/// Ready to print. A pure function.
[[nodiscard]] std::string render(const StepStudy& study, const scenario::LoadedScenario& loaded,
                                 Format format);

}  // namespace ntpsim::analysis
