#include "ntpsim/sim/step_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/layer_cost.h"
#include "ntpsim/models/pipeline_layout.h"

namespace ntpsim::sim {
namespace {

constexpr double kWeightBytes = 2;
constexpr double kActivationBytes = 2;
// Reads gradient, master weight and two moments in FP32; writes the latter three and the 16-bit weight.
constexpr double kOptimizerBytes = 4 * 4 + 3 * 4 + 2;

/// What one pipeline rank does and holds.
struct Stage {
  models::PieceTime time;
  models::RankWeights synced;  ///< weights of a core rank
  double resharded = 0;        ///< weights that its busiest rank sends or receives
  std::int64_t layers = 0;
};

/// The stages of one replica at one degree and speed.
class Pipeline {
 public:
  Pipeline(const models::TransformerSpec& model, const models::TrainingSpec& training,
           const models::LayerCost& cost, const ReplicaShape& shape)
      : model_(&model), training_(&training), cost_(&cost), shape_(shape) {
    stages_.resize(static_cast<std::size_t>(training.pipeline_model_parallel_size));
    place_layers();
    place_vocabulary();
  }

  [[nodiscard]] const std::vector<Stage>& stages() const { return stages_; }

 private:
  void place_layers() {
    std::size_t index = 0;
    for (const models::ChunkLayers& chunk : models::chunk_layers(*model_, *training_)) {
      Stage& stage = stages_[index++ % stages_.size()];
      for (std::int64_t i = 0; i < chunk.count; ++i) {
        const bool recomputed = training_->recompute_granularity == models::Recompute::kFull ||
                                (training_->recompute_granularity == models::Recompute::kBlock &&
                                 i < training_->recompute_num_layers);
        add(stage, priced(models::kind_of(*model_, chunk.first + i), recomputed));
      }
      stage.layers += chunk.count;
    }
  }

  const Stage& priced(models::LayerKind kind, bool recomputed) {
    std::optional<Stage>& stage = kinds_.at((recomputed ? 4U : 0U) + index_of(kind));
    if (!stage) stage = price(kind, recomputed);
    return *stage;
  }

  void place_vocabulary() {
    const models::RankWeights synced = models::vocabulary_weights(*model_, shape_.sync_degree);
    const double resharded =
        models::vocabulary_reshard_weights(*model_, shape_.tp_degree, shape_.sync_degree);
    add(stages_.front(), {.time = cost_->embedding(), .synced = synced, .resharded = resharded, .layers = 0});
    // Tied weights are one tensor when both ends are on one rank.
    const bool own = stages_.size() > 1 || model_->untie_embeddings_and_output_weights;
    add(stages_.back(), {.time = cost_->output(),
                         .synced = own ? synced : models::RankWeights{},
                         .resharded = own ? resharded : 0,
                         .layers = 0});
  }

  [[nodiscard]] static std::size_t index_of(models::LayerKind kind) {
    return (kind.moe ? 2U : 0U) + (kind.windowed ? 1U : 0U);
  }

  [[nodiscard]] Stage price(models::LayerKind kind, bool recomputed) const {
    return {.time = cost_->layer(kind, recomputed),
            .synced = models::layer_weights(*model_, *training_, kind, shape_.sync_degree),
            .resharded = models::layer_reshard_weights(*model_, *training_, kind, shape_.tp_degree,
                                                       shape_.sync_degree),
            .layers = 1};
  }

  static void add(Stage& stage, const Stage& piece) {
    stage.time += piece.time;
    stage.synced += piece.synced;
    stage.resharded += piece.resharded;
  }

  const models::TransformerSpec* model_;
  const models::TrainingSpec* training_;
  const models::LayerCost* cost_;
  ReplicaShape shape_;
  std::vector<Stage> stages_;
  std::array<std::optional<Stage>, 8> kinds_;
};

/// Data-parallel communication and the optimizer step of one stage.
class DataParallelSync {
 public:
  DataParallelSync(const models::SystemSpec& system, const models::TrainingSpec& training)
      : system_(&system), training_(&training), collectives_(system), passes_(passes(training)) {}

  /// Seconds exposed after the pipeline has drained and before the next step starts.
  [[nodiscard]] double exposed_s(const Stage& stage) const {
    if (training_->use_fsdp) return 0;
    const bool sharded = training_->use_distributed_optimizer;
    const double reshard_gradients = reshard_s(stage.resharded * training_->gradient_bytes());
    const double reshard_back = sharded ? reshard_s(stage.resharded * kWeightBytes) : reshard_gradients;
    const double reduce = group_s(stage.synced, [&](double weights, models::GroupSpan span) {
      return sharded ? collectives_.reduce_scatter_s(weights * training_->gradient_bytes(), span)
                     : collectives_.all_reduce_s(weights * training_->gradient_bytes(), span);
    });
    const double gradients = reshard_gradients + reduce + (sharded ? 0 : reshard_back);
    double exposed = training_->overlap_grad_reduce
                         ? behind(gradients, passes_ * stage.time.backward.total_s(), stage.layers)
                         : gradients;
    if (!sharded) return exposed;
    const double weights = reshard_back + group_s(stage.synced, [&](double count, models::GroupSpan span) {
                             return collectives_.all_gather_s(count * kWeightBytes, span);
                           });
    exposed += training_->overlap_param_gather
                   ? behind(weights, passes_ * stage.time.forward.total_s(), stage.layers)
                   : weights;
    return exposed;
  }

  [[nodiscard]] double optimizer_s(const Stage& stage) const {
    double owned = stage.synced.dense + stage.synced.experts;
    if (training_->use_distributed_optimizer || training_->use_fsdp) {
      owned = stage.synced.dense / real(dense_span().size) + stage.synced.experts / real(expert_span().size);
    }
    const double rate = models::efficiency_of(system_->gpu).gpu.memory *
                        system_->gpu.memory_bandwidth.value();
    return owned * kOptimizerBytes / rate;
  }

 private:
  static double real(std::int64_t value) { return static_cast<double>(value); }

  /// Passes of a stage between the first gradients of a step that are ready and its end, in microbatches.
  /// Without interleaving all are ready in the last microbatch only. An interleaved pipeline takes its chunks
  /// in turn for as many microbatches as it has stages, so all chunks but the last are ready that much
  /// earlier.
  static double passes(const models::TrainingSpec& training) {
    const double chunks = real(training.virtual_pipeline_model_parallel_size);
    return 1 + (real(training.pipeline_model_parallel_size) - 1) * (chunks - 1) / chunks;
  }

  /// All but the share of the last layer to be ready (or of the first to be needed) hides behind the pass.
  static double behind(double sync_s, double pass_s, std::int64_t layers) {
    return std::max(sync_s / real(std::max<std::int64_t>(layers, 1)), sync_s - pass_s);
  }

  [[nodiscard]] double reshard_s(double bytes) const {
    return bytes > 0 ? collectives_.point_to_point_s(bytes, true) : 0;
  }

  /// Ranks that hold the same dense weights: TP ranks lie between two of them.
  [[nodiscard]] models::GroupSpan dense_span() const {
    return models::span_of(training_->data_parallel_size * training_->context_parallel_size,
                           training_->tensor_model_parallel_size, system_->domain_size);
  }

  [[nodiscard]] models::GroupSpan expert_span() const {
    const std::int64_t holders =
        training_->expert_model_parallel_size * training_->expert_tensor_parallel_size;
    const std::int64_t ranks = training_->data_parallel_size * training_->context_parallel_size *
                               training_->tensor_model_parallel_size;
    return models::span_of(std::max<std::int64_t>(ranks / holders, 1), holders, system_->domain_size);
  }

  template <class Collective>
  [[nodiscard]] double group_s(const models::RankWeights& weights, const Collective& collective) const {
    return collective(weights.dense, dense_span()) +
           (weights.experts > 0 ? collective(weights.experts, expert_span()) : 0);
  }

  const models::SystemSpec* system_;
  const models::TrainingSpec* training_;
  models::CollectiveCost collectives_;
  double passes_;
};

/// Seconds of one send of a microbatch's activations to the next pipeline rank. What all ranks of a TP group hold
/// is sent in shares, one a rank, and gathered at the other end (Narayanan et al., SC'21, section 4.1).
double send_s(const models::SystemSpec& system, const models::TransformerSpec& model,
              const models::TrainingSpec& training, const models::LayerCost& cost, int degree) {
  const bool one_domain = training.gpus_per_replica() * training.data_parallel_size <= system.domain_size;
  const models::CollectiveCost collectives(system);
  const double whole = cost.tokens() * static_cast<double>(model.hidden_size) * kActivationBytes;
  const double gather_s =
      training.sequence_parallel
          ? 0
          : collectives.all_gather_s(whole, models::span_of(degree, 1, system.domain_size));
  return collectives.point_to_point_s(whole / degree, one_domain) + gather_s;
}

}  // namespace

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
  const models::LayerCost cost(system_, model_, training_, shape.tp_degree, shape.compute_speed);
  const std::vector<Stage> stages = Pipeline(model_, training_, cost, shape).stages();
  const auto time_of = [](const Stage& stage) { return stage.time.total_s(); };
  const Stage& slowest = *std::ranges::max_element(stages, {}, time_of);

  const auto microbatches = static_cast<double>(shape.microbatches);
  models::PassTime both = slowest.time.forward;
  both += slowest.time.backward;
  StepBreakdown result;
  result.compute_s = microbatches * both.compute_s;
  result.exposed_tp_s = microbatches * both.tp_s;
  result.exposed_cp_s = microbatches * both.cp_s;
  result.exposed_ep_s = microbatches * both.ep_s;

  result.exposed_grad_sync_s = microbatches * both.dp_s;
  double others_s = -time_of(slowest);
  for (const Stage& stage : stages) others_s += time_of(stage);
  const bool interleaved = training_.virtual_pipeline_model_parallel_size > 1;
  result.bubble_s =
      std::max(0.0, others_s) / static_cast<double>(training_.virtual_pipeline_model_parallel_size);
  if (stages.size() > 1) {
    const double exposed_sends =
        2 * (static_cast<double>(stages.size() - 1) + (interleaved ? 0 : microbatches));
    result.exposed_pp_s = exposed_sends * send_s(system_, model_, training_, cost, shape.tp_degree);
  }

  const DataParallelSync sync(system_, training_);
  double exposed_sync_s = 0;
  for (const Stage& stage : stages) {
    exposed_sync_s = std::max(exposed_sync_s, sync.exposed_s(stage));
    result.optimizer_s = std::max(result.optimizer_s, sync.optimizer_s(stage));
  }
  result.exposed_grad_sync_s += exposed_sync_s;
  return result;
}

}  // namespace ntpsim::sim
