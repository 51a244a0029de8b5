#include "ntpsim/sim/step_model.h"

#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/sim/pipeline.h"

#include "step_pricing.h"

namespace ntpsim::sim {

StepModel::StepModel(models::SystemSpec system, models::TransformerSpec model, models::TrainingSpec training)
    : system_(std::move(system)), model_(std::move(model)), training_(training) {
  invariant(training_.pipeline_model_parallel_size >= 1 &&
                training_.virtual_pipeline_model_parallel_size >= 1 && training_.context_parallel_size >= 1 &&
                training_.data_parallel_size >= 1,
            "parallel sizes are positive");
  invariant(training_.tensor_model_parallel_size >= 1 &&
                training_.tensor_model_parallel_size <= system_.domain_size,
            "a TP group fits a scale-up domain");
}

ReplicaShape StepModel::healthy_shape() const {
  const int degree = static_cast<int>(training_.tensor_model_parallel_size);
  return {.tp_degree = degree,
          .sync_degree = degree,
          .microbatches = training_.microbatches(),
          .compute_speed = 1};
}

StepBreakdown StepModel::step(const ReplicaShape& shape) const {
  invariant(shape.microbatches >= 1, "a step has microbatches");
  const StepPricing pricing(system_, model_, training_, shape);
  const PipelineTime time = play_pipeline(pricing.pipeline());
  models::PassTime passes = pricing.rank_time(time.slowest).forward;
  passes += pricing.rank_time(time.slowest).backward;

  const auto microbatches = static_cast<double>(shape.microbatches);
  StepBreakdown step;
  step.exposed_tp_s = microbatches * passes.tp_s;
  step.exposed_cp_s = microbatches * passes.cp_s;
  step.exposed_ep_s = microbatches * passes.ep_s;
  const double sharding_s = microbatches * passes.dp_s;
  // The remainder of the passes, rounded to whole nanoseconds as they are played.
  step.compute_s =
      time.busy.seconds() - step.exposed_tp_s - step.exposed_cp_s - step.exposed_ep_s - sharding_s;
  step.exposed_pp_s = time.sends.seconds();
  step.bubble_s = time.bubble.seconds();
  step.exposed_grad_sync_s = sharding_s + time.sync.seconds();
  step.optimizer_s = time.optimizer.seconds();
  return step;
}

}  // namespace ntpsim::sim
