#include "ntpsim/models/memory.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/layer_weights.h"
#include "ntpsim/models/pipeline_layout.h"
#include "ntpsim/plan/shard_layout.h"

namespace ntpsim::models {
namespace {

constexpr double kHalf = 2;  // bytes of a 16-bit number
constexpr double kSingle = 4;
constexpr double kOptimizerBytes = 3 * kSingle;  // master weight, first and second moment
constexpr double kScoreBytes = 5;                // softmax, its dropout mask and the result
constexpr double kRouterBytes = 3 * kSingle;     // logits, scores and probabilities
constexpr double kLogitBytes = kHalf;            // fused cross entropy
constexpr double kUnfusedLogitBytes = kHalf + kSingle;
constexpr double kWorkspaceBytes = 2 * 32 * 1024.0 * 1024;  // cuBLAS, of PyTorch and of Transformer Engine

double real(std::int64_t value) {
  return static_cast<double>(value);
}

/// Layers of one kind in a row of them: how many, and how many of these are recomputed whole.
struct LayerCount {
  std::int64_t all = 0;
  std::int64_t recomputed = 0;

  [[nodiscard]] double whole() const { return real(all - recomputed); }
};

/// Layers of a chunk by kind.
struct ChunkCount {
  LayerCount dense;
  LayerCount experts;
};

/// What one layer holds for one microbatch.
struct LayerBytes {
  double input = 0;
  double core = 0;      ///< of attention: what selective recomputation does not keep
  double rest = 0;      ///< input included
  double backward = 0;  ///< in work during its backward pass
};

/// Memory of one job at one degree: what layers hold is found once and summed up for any stage. Keeps
/// pointers: the specs must outlive it.
class JobMemory {
 public:
  JobMemory(const TransformerSpec& model, const TrainingSpec& training, int degree);

  [[nodiscard]] MemoryBreakdown stage(std::int64_t stage, const RecomputeChoice& recompute) const;
  [[nodiscard]] MemoryBreakdown fullest_stage(const RecomputeChoice& recompute) const;
  /// Layers of the largest chunk.
  [[nodiscard]] std::int64_t most_layers() const;

 private:
  /// Weights of a stage, and those of the largest unit that FSDP gathers.
  struct StageWeights {
    RankWeights all;
    double unit = 0;
  };

  [[nodiscard]] LayerBytes layer_bytes(bool experts) const;
  void add_attention(LayerBytes& bytes) const;
  void add_mlp(LayerBytes& bytes, double columns) const;
  void add_experts(LayerBytes& bytes) const;
  [[nodiscard]] ChunkCount count_layers(const ChunkLayers& chunk, const RecomputeChoice& recompute) const;
  void add_extra_layers(ChunkCount& count, const RecomputeChoice& recompute) const;
  [[nodiscard]] double extra_layer_inputs() const;
  [[nodiscard]] std::int64_t in_flight(std::int64_t stage, std::int64_t turn) const;
  [[nodiscard]] bool is_last(std::int64_t stage) const { return stage == ranks_ - 1; }
  [[nodiscard]] bool has_embedding(std::int64_t stage) const;
  [[nodiscard]] bool has_output(std::int64_t stage) const;
  [[nodiscard]] double kept(const LayerBytes& bytes, bool selective) const;
  [[nodiscard]] double kept(const ChunkCount& count, bool selective) const;
  [[nodiscard]] StageWeights weights(const LayerCount& dense, const LayerCount& experts,
                                     std::int64_t stage) const;
  [[nodiscard]] double sharded(const RankWeights& weights, double bytes) const;
  [[nodiscard]] double output_working() const;
  [[nodiscard]] double buffers(bool dense, bool experts, std::int64_t stage) const;

  const TransformerSpec* model_;
  const TrainingSpec* training_;
  double degree_;
  std::int64_t ranks_;
  std::vector<ChunkLayers> chunks_;
  double hidden_;
  double operand_;  // bytes of a GEMM operand
  double ups_;      // up projections of an MLP
  double tokens_;
  double resident_;
  AttentionShard shard_;
  std::array<double, 2> columns_{};  // of the rank: dense MLP, shared experts
  double expert_columns_ = 0;
  double dispatched_ = 0;  // rows of experts
  double dense_holders_;
  double expert_holders_;
  RankWeights dense_weights_;
  RankWeights expert_weights_;
  double vocabulary_weights_;
  LayerBytes dense_;
  LayerBytes experts_;
};

JobMemory::JobMemory(const TransformerSpec& model, const TrainingSpec& training, int degree)
    : model_(&model),
      training_(&training),
      degree_(degree),
      ranks_(training.pipeline_model_parallel_size),
      chunks_(chunk_layers(model, training)),
      hidden_(real(model.hidden_size)),
      operand_(bytes_of(training.precision)),
      ups_(model.mlp_matrices() - 1),
      tokens_(real(training.micro_batch_size * training.seq_length) / real(training.context_parallel_size)),
      resident_(training.sequence_parallel ? tokens_ / degree : tokens_),
      shard_(attention_shard(model, training.tensor_model_parallel_size, degree)),
      dense_weights_(layer_weights(model, training, {.moe = false, .windowed = false}, degree)),
      vocabulary_weights_(vocabulary_weights(model, degree).dense) {
  for (const bool moe : {false, true}) {
    columns_[moe ? 1 : 0] =
        real(plan::max_units(mlp_columns(model, {.moe = moe, .windowed = false}), degree));
  }
  const std::int64_t tp = training.tensor_model_parallel_size;
  const std::int64_t expert_ranks =
      training.expert_model_parallel_size * training.expert_tensor_parallel_size;
  dense_holders_ = real(training.data_parallel_size * training.context_parallel_size);
  expert_holders_ = std::max(1.0, dense_holders_ * real(tp) / real(expert_ranks));
  dense_ = layer_bytes(false);
  if (!model.experts) return;

  expert_weights_ = layer_weights(model, training, {.moe = true, .windowed = false}, degree);
  // Every rank sends its tokens' top-k rows; those of the expert-parallel group are balanced over experts.
  const ExpertShard shard = expert_shard(model, training, degree);
  expert_columns_ = real(shard.columns);
  const double sent = tokens_ / degree_ * real(model.experts->router_topk);
  dispatched_ = sent * real(shard.cut) * shard.ranks * real(shard.experts) / real(model.experts->num_experts);
  experts_ = layer_bytes(true);
}

LayerBytes JobMemory::layer_bytes(bool experts) const {
  LayerBytes bytes;
  bytes.input = kHalf * hidden_ * resident_;
  bytes.rest = 2 * bytes.input;
  if (!training_->fused_attention) bytes.rest += 2 * hidden_ * resident_;  // dropout masks, a byte each
  // The residual's gradient, and the block's, gathered where it is not whole.
  bytes.backward = bytes.input;
  if (resident_ < tokens_) bytes.backward += kHalf * hidden_ * tokens_;
  add_attention(bytes);
  if (experts) add_experts(bytes);
  add_mlp(bytes, columns_[experts ? 1 : 0]);
  return bytes;
}

void JobMemory::add_attention(LayerBytes& bytes) const {
  const double heads = real(shard_.heads);
  const double query = real(model_->query_width());
  const double output = tokens_ * heads * real(model_->value_width());
  if (model_->latent_attention) {
    const auto& latent = *model_->latent_attention;
    bytes.rest += kHalf * (tokens_ * heads * 2 * query + output);
    bytes.rest += (kHalf + operand_) * resident_ * real(latent.q_lora_rank + latent.kv_lora_rank);
  } else {
    bytes.rest += kHalf * tokens_ * query * (heads + 2 * real(shard_.groups));
  }
  bytes.rest += operand_ * hidden_ * resident_;
  bytes.rest += kHalf * output;
  if (operand_ < kHalf) bytes.rest += operand_ * output;
  if (training_->context_parallel_size > 1) bytes.rest += kHalf * output;
  bytes.core = training_->fused_attention ? kSingle * heads * tokens_
                                          : kScoreBytes * heads * tokens_ * real(training_->seq_length);
}

void JobMemory::add_mlp(LayerBytes& bytes, double columns) const {
  if (columns == 0) return;
  bytes.rest += operand_ * hidden_ * resident_;
  bytes.rest += tokens_ * columns * (kHalf * ups_ + operand_);
  bytes.backward += tokens_ * columns * (kHalf * ups_ + kHalf - operand_);
}

void JobMemory::add_experts(LayerBytes& bytes) const {
  // The norm's output is the router's in 16 bits; shared experts read the same tensor, or a cast of it that
  // add_mlp counts.
  const bool shared_reads_it = columns_[1] > 0 && operand_ == kHalf;
  if (!shared_reads_it) bytes.rest += kHalf * hidden_ * resident_;
  bytes.rest += kRouterBytes * real(model_->experts->num_experts) * tokens_ / degree_;
  bytes.rest += dispatched_ * (operand_ * hidden_ + expert_columns_ * (kHalf * ups_ + operand_));
  bytes.backward += dispatched_ * (kHalf * hidden_ + expert_columns_ * (kHalf * ups_ + kHalf - operand_));
}

ChunkCount JobMemory::count_layers(const ChunkLayers& chunk, const RecomputeChoice& recompute) const {
  const std::int64_t end = chunk.first + chunk.count;
  std::int64_t recomputed = 0;
  if (recompute.granularity == Recompute::kFull) recomputed = chunk.count;
  if (recompute.granularity == Recompute::kBlock) recomputed = std::min(chunk.count, recompute.num_layers);
  const std::int64_t first_moe = model_->experts ? model_->experts->dense_layers : model_->num_layers;
  const auto dense_before = [&](std::int64_t layer) {
    return std::clamp(first_moe, chunk.first, layer) - chunk.first;
  };
  ChunkCount count;
  count.dense = {.all = dense_before(end), .recomputed = dense_before(chunk.first + recomputed)};
  count.experts = {.all = chunk.count - count.dense.all, .recomputed = recomputed - count.dense.recomputed};
  return count;
}

/// Layers of multi-token prediction follow the last one, of its kind.
void JobMemory::add_extra_layers(ChunkCount& count, const RecomputeChoice& recompute) const {
  LayerCount& last = model_->experts ? count.experts : count.dense;
  last.all += model_->mtp_num_layers;
  if (recompute.granularity == Recompute::kFull) last.recomputed += model_->mtp_num_layers;
}

/// What the projection of such a layer keeps: the inputs of two norms and their outputs side by side.
double JobMemory::extra_layer_inputs() const {
  return real(model_->mtp_num_layers) * 2 * (kHalf + operand_) * hidden_ * resident_;
}

/// Microbatches of the stage's chunk number `turn` that wait for their backward pass.
std::int64_t JobMemory::in_flight(std::int64_t stage, std::int64_t turn) const {
  const std::int64_t chunks = training_->virtual_pipeline_model_parallel_size;
  const std::int64_t microbatches = std::max<std::int64_t>(1, training_->microbatches());
  if (chunks == 1) return std::min(microbatches, ranks_ - stage);
  const std::int64_t warm_up = (ranks_ - stage - 1) * 2 + (chunks - 1) * ranks_ +
                               (training_->overlap_moe_expert_parallel_comm ? 1 : 0);
  const std::int64_t passes = std::min(microbatches * chunks, warm_up + 1);
  const std::int64_t round = ranks_ * chunks;
  return passes / round * ranks_ + std::clamp<std::int64_t>(passes % round - turn * ranks_, 0, ranks_);
}

/// Multi-token prediction embeds tokens on the last stage.
bool JobMemory::has_embedding(std::int64_t stage) const {
  return stage == 0 || (is_last(stage) && model_->mtp_num_layers > 0);
}

/// Output weights that are tied to an embedding of the same stage are that embedding.
bool JobMemory::has_output(std::int64_t stage) const {
  return is_last(stage) && (model_->untie_embeddings_and_output_weights || !has_embedding(stage));
}

double JobMemory::kept(const LayerBytes& bytes, bool selective) const {
  return bytes.rest + (selective ? 0 : bytes.core);
}

double JobMemory::kept(const ChunkCount& count, bool selective) const {
  return count.dense.whole() * kept(dense_, selective) + count.experts.whole() * kept(experts_, selective) +
         real(count.dense.recomputed + count.experts.recomputed) * dense_.input;
}

JobMemory::StageWeights JobMemory::weights(const LayerCount& dense, const LayerCount& experts,
                                           std::int64_t stage) const {
  StageWeights weights;
  weights.all.dense = real(dense.all) * dense_weights_.dense + real(experts.all) * expert_weights_.dense;
  weights.all.experts = real(experts.all) * expert_weights_.experts;
  const double matrices = (has_embedding(stage) ? 1 : 0) + (has_output(stage) ? 1 : 0);
  weights.all.dense += matrices * vocabulary_weights_;
  if (is_last(stage)) weights.all.dense += real(model_->mtp_num_layers) * 2 * hidden_ * hidden_ / degree_;
  if (dense.all > 0) weights.unit = dense_weights_.dense;
  if (experts.all > 0) weights.unit = std::max(weights.unit, expert_weights_.dense + expert_weights_.experts);
  if (matrices > 0) weights.unit = std::max(weights.unit, vocabulary_weights_);
  return weights;
}

double JobMemory::sharded(const RankWeights& weights, double bytes) const {
  return bytes * (weights.dense / dense_holders_ + weights.experts / expert_holders_);
}

double JobMemory::output_working() const {
  const double logits = training_->fused_attention ? kLogitBytes : kUnfusedLogitBytes;
  const double columns = vocabulary_weights_ / hidden_;
  const double passes = 1 + real(model_->mtp_num_layers);
  double hidden_states = 2 * resident_ + tokens_;
  if (resident_ < tokens_) hidden_states += tokens_ + resident_;
  return passes * logits * tokens_ * columns + kHalf * hidden_ * hidden_states;
}

double JobMemory::buffers(bool dense, bool experts, std::int64_t stage) const {
  if (training_->use_fsdp) return kWorkspaceBytes;
  const double mlp = columns_[0] * hidden_ * model_->mlp_matrices();
  const double attention = dense_weights_.dense - mlp;
  double weights = attention;
  if (dense) weights += mlp;
  if (experts) {
    weights += expert_weights_.dense - attention;
    weights += expert_columns_ * hidden_ * model_->mlp_matrices();
  }
  if (is_last(stage)) weights += vocabulary_weights_;
  return kHalf * weights + kWorkspaceBytes;
}

std::int64_t JobMemory::most_layers() const {
  return std::ranges::max_element(chunks_, {}, &ChunkLayers::count)->count;
}

MemoryBreakdown JobMemory::stage(std::int64_t stage, const RecomputeChoice& recompute) const {
  const bool selective = recompute.granularity == Recompute::kSelective;
  LayerCount dense;
  LayerCount experts;
  double activations = 0;
  double recomputing = 0;  // of the layer that is computed again, less what its chunk has given up by then
  for (std::int64_t turn = 0; turn < training_->virtual_pipeline_model_parallel_size; ++turn) {
    const std::int64_t chunk = turn * ranks_ + stage;
    ChunkCount count = count_layers(chunks_[static_cast<std::size_t>(chunk)], recompute);
    double extra = 0;
    if (chunk + 1 == std::ssize(chunks_)) {
      add_extra_layers(count, recompute);
      extra = extra_layer_inputs();
    }
    activations += real(in_flight(stage, turn)) * (kept(count, selective) + extra);
    dense.all += count.dense.all;
    experts.all += count.experts.all;
    const double given_up =
        count.dense.whole() * kept(dense_, false) + count.experts.whole() * kept(experts_, false);
    if (count.dense.recomputed > 0) {
      recomputing = std::max(recomputing, dense_.backward + kept(dense_, false) - given_up);
    }
    if (count.experts.recomputed > 0) {
      recomputing = std::max(recomputing, experts_.backward + kept(experts_, false) - given_up);
    }
  }

  double working = recomputing;
  if (dense.all > 0) working = std::max(working, dense_.backward);
  if (experts.all > 0) working = std::max(working, experts_.backward);
  if (is_last(stage)) working = std::max(working, output_working());

  const StageWeights held = weights(dense, experts, stage);
  const double total = held.all.dense + held.all.experts;
  const double gradient = training_->gradient_bytes();
  const bool fsdp = training_->use_fsdp;
  if (fsdp) working += held.unit * (2 * kHalf + gradient);
  const bool shares_optimizer = fsdp || training_->use_distributed_optimizer;
  return {.weights = Bytes(fsdp ? sharded(held.all, kHalf) : kHalf * total),
          .gradients = Bytes(fsdp ? sharded(held.all, gradient) : gradient * total),
          .optimizer = Bytes(shares_optimizer ? sharded(held.all, kOptimizerBytes) : kOptimizerBytes * total),
          .activations = Bytes(activations),
          .working = Bytes(working),
          .buffers = Bytes(buffers(dense.all > 0, experts.all > 0, stage))};
}

MemoryBreakdown JobMemory::fullest_stage(const RecomputeChoice& recompute) const {
  MemoryBreakdown fullest = stage(0, recompute);
  for (std::int64_t each = 1; each < ranks_; ++each) {
    const MemoryBreakdown memory = stage(each, recompute);
    if (memory.total() > fullest.total()) fullest = memory;
  }
  return fullest;
}

RecomputeChoice recompute_of(const TrainingSpec& training) {
  return {.granularity = training.recompute_granularity, .num_layers = training.recompute_num_layers};
}

}  // namespace

Bytes MemoryBreakdown::total() const {
  return weights + gradients + optimizer + activations + working + buffers;
}

MemoryBreakdown stage_memory(const TransformerSpec& model, const TrainingSpec& training, int degree,
                             std::int64_t stage) {
  invariant(degree >= 1 && degree <= training.tensor_model_parallel_size, "degree within the TP group");
  invariant(stage >= 0 && stage < training.pipeline_model_parallel_size, "a stage of the pipeline");
  return JobMemory(model, training, degree).stage(stage, recompute_of(training));
}

MemoryBreakdown memory_per_gpu(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  invariant(degree >= 1 && degree <= training.tensor_model_parallel_size, "degree within the TP group");
  return JobMemory(model, training, degree).fullest_stage(recompute_of(training));
}

std::optional<RecomputeChoice> least_recompute(const TransformerSpec& model, const TrainingSpec& training,
                                               Bytes capacity) {
  const JobMemory memory(model, training, static_cast<int>(training.tensor_model_parallel_size));
  const auto fits = [&](const RecomputeChoice& choice) {
    return memory.fullest_stage(choice).total() <= capacity;
  };
  for (const Recompute granularity : {Recompute::kNone, Recompute::kSelective}) {
    if (fits({.granularity = granularity})) return RecomputeChoice{.granularity = granularity};
  }
  for (std::int64_t layers = 1; layers < memory.most_layers(); ++layers) {
    const RecomputeChoice block{.granularity = Recompute::kBlock, .num_layers = layers};
    if (fits(block)) return block;
  }
  const RecomputeChoice full{.granularity = Recompute::kFull};
  return fits(full) ? std::optional(full) : std::nullopt;
}

}  // namespace ntpsim::models
