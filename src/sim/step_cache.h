#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "ntpsim/sim/policy.h"
#include "ntpsim/sim/step_model.h"

namespace ntpsim::sim {

// Seconds of a step of every distinct replica shape, simulated once. Of shapes whose stages are all alike.
class StepCache {
 public:
  explicit StepCache(const StepModel& model) : model_(&model) {}

  [[nodiscard]] double step_s(const ReplicaShape& shape) {
    ++use_.asked;
    const auto [entry, fresh] = seconds_.try_emplace(
        {shape.tp_degree, shape.sync_degree, shape.microbatches, shape.compute_speed}, 0.0);
    if (fresh) {
      entry->second = model_->step(shape).total_s();
      ++use_.simulated;
    }
    return entry->second;
  }

  [[nodiscard]] ReplicaShape healthy_shape() const { return model_->healthy_shape(); }
  [[nodiscard]] StepUse use() const { return use_; }

 private:
  const StepModel* model_;
  std::map<std::tuple<int, int, std::int64_t, double>, double> seconds_;
  StepUse use_;
};

}  // namespace ntpsim::sim
