#include "ntpsim/models/memory.h"

#include <algorithm>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/layer_cost.h"

namespace ntpsim::models {
namespace {

constexpr double kWeightAndGradientBytes = 2 + 4;
constexpr double kOptimizerBytes = 3 * 4;

double state_bytes(double weights, std::int64_t holders, const TrainingSpec& training) {
  const double sharers = training.use_distributed_optimizer ? static_cast<double>(holders) : 1;
  return weights * (kWeightAndGradientBytes + kOptimizerBytes / sharers);
}

}  // namespace

Bytes model_state_per_gpu(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  invariant(degree >= 1 && degree <= training.tensor_model_parallel_size, "degree within the TP group");
  RankWeights weights;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    weights += layer_weights(model, training, kind_of(model, layer), degree);
  }
  weights += vocabulary_weights(model, degree);
  if (model.untie_embeddings_and_output_weights) weights += vocabulary_weights(model, degree);

  const std::int64_t dense_holders = training.data_parallel_size * training.context_parallel_size;
  const std::int64_t expert_ranks =
      training.expert_model_parallel_size * training.expert_tensor_parallel_size;
  const std::int64_t expert_holders =
      std::max<std::int64_t>(1, dense_holders * training.tensor_model_parallel_size / expert_ranks);
  const double all_stages = state_bytes(weights.dense, dense_holders, training) +
                            state_bytes(weights.experts, expert_holders, training);
  return Bytes(all_stages / static_cast<double>(training.pipeline_model_parallel_size));
}

}  // namespace ntpsim::models
