#include "ntpsim/analysis/search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/layer_cost.h"
#include "ntpsim/models/layer_weights.h"
#include "ntpsim/models/pipeline_layout.h"
#include "ntpsim/models/replica_groups.h"

#include "ordered_parallel.h"

namespace ntpsim::analysis {
namespace {

using models::LayerKind;
using models::Recompute;
using models::TrainingSpec;

constexpr std::int64_t kFewestTokens = 1024;  // of a sequence on a context-parallel rank
constexpr std::array<std::int64_t, 4> kMicrobatches = {1, 2, 4, 8};

double real(std::int64_t value) {
  return static_cast<double>(value);
}

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> result;
  for (std::int64_t each = 1; each <= std::min(number, most); ++each) {
    if (number % each == 0) result.push_back(each);
  }
  return result;
}

/// What is searched, and on what.
struct Job {
  const sim::ClusterSpec* cluster;
  const models::TransformerSpec* model;
  const TrainingSpec* training;
};

// Layouts.

bool cuts_evenly(const models::TransformerSpec& model, std::int64_t tp) {
  const auto cuts = [tp](std::int64_t columns) { return columns % tp == 0; };
  const std::int64_t groups = model.num_query_groups;
  if (!cuts(groups) && tp % groups != 0) return false;
  for (const bool moe : {false, true}) {
    if (!cuts(models::mlp_columns(model, {.moe = moe, .windowed = false}))) return false;
  }
  return true;
}

std::vector<std::int64_t> tensor_degrees(const Job& job) {
  auto degrees = divisors(job.model->num_attention_heads, job.cluster->system.domain_size);
  std::erase_if(degrees, [&](std::int64_t tp) { return !cuts_evenly(*job.model, tp); });
  return degrees;
}

std::vector<std::int64_t> context_degrees(const Job& job) {
  std::vector<std::int64_t> degrees = {1};
  const std::int64_t tokens = job.training->seq_length;
  // Each rank takes an early and a late piece of the sequence.
  for (std::int64_t cp = 2; tokens / cp >= kFewestTokens && tokens % (2 * cp) == 0; cp *= 2) {
    degrees.push_back(cp);
  }
  return degrees;
}

/// How experts are spread and cut.
struct ExpertLayout {
  std::int64_t ep = 1;
  std::int64_t etp = 1;
};

std::vector<ExpertLayout> expert_layouts(const models::TransformerSpec& model, std::int64_t tp) {
  if (!model.experts) return {ExpertLayout{}};
  std::vector<ExpertLayout> layouts;
  for (const std::int64_t ep : divisors(model.experts->num_experts, model.experts->num_experts)) {
    layouts.push_back({.ep = ep, .etp = 1});
    if (tp > 1 && model.experts->ffn_hidden_size % tp == 0) layouts.push_back({.ep = ep, .etp = tp});
  }
  return layouts;
}

std::vector<std::int64_t> virtual_stages(const models::TransformerSpec& model, std::int64_t pp) {
  std::vector<std::int64_t> stages = {1};
  const std::int64_t layers = model.num_layers + 2 * model.mtp_num_layers;
  for (std::int64_t vp = 2; pp > 1 && vp * pp <= model.num_layers + 2; ++vp) {
    const std::int64_t chunks = pp * vp;
    const std::int64_t left_over = layers % chunks;
    // Equal, or short of a layer where the embedding and the output are.
    if (left_over == 0 || chunks - left_over <= 2) stages.push_back(vp);
  }
  return stages;
}

/// TP groups that the cluster holds; none spans domains.
std::int64_t tensor_groups(const sim::ClusterSpec& cluster, std::int64_t tp) {
  return cluster.domains() * (cluster.system.domain_size / tp);
}

/// Layouts up to PP: those that price a layer alike lie together, so that it is priced once for all of them.
std::vector<TrainingSpec> layer_layouts(const Job& job) {
  std::vector<TrainingSpec> layouts;
  TrainingSpec training = *job.training;
  training.decoder_first_pipeline_num_layers = training.decoder_last_pipeline_num_layers = 0;
  const bool sequence_parallel = training.sequence_parallel || training.tensor_model_parallel_size == 1;
  for (const std::int64_t tp : tensor_degrees(job)) {
    training.tensor_model_parallel_size = tp;
    training.sequence_parallel = sequence_parallel && tp > 1;
    for (const std::int64_t cp : context_degrees(job)) {
      if (tensor_groups(*job.cluster, tp) % cp != 0) continue;
      training.context_parallel_size = cp;
      for (const ExpertLayout& experts : expert_layouts(*job.model, tp)) {
        training.expert_model_parallel_size = experts.ep;
        training.expert_tensor_parallel_size = experts.etp;
        for (const std::int64_t sequences : kMicrobatches) {
          training.micro_batch_size = sequences;
          layouts.push_back(training);
        }
      }
    }
  }
  return layouts;
}

/// What refuses a layout before its memory is known.
std::optional<Refusal> refusal(const TrainingSpec& training) {
  if (training.global_batch_size % (training.data_parallel_size * training.micro_batch_size) != 0) {
    return Refusal::kBatch;
  }
  if (training.virtual_pipeline_model_parallel_size > 1 &&
      training.microbatches() % training.pipeline_model_parallel_size != 0) {
    return Refusal::kInterleaving;
  }
  const std::int64_t together = training.replicas_per_expert_group();
  invariant(together > 0, "degrees are positive");
  if (training.data_parallel_size % together != 0) return Refusal::kExpertGroups;
  return std::nullopt;
}

// The estimate.

/// Seconds of a microbatch and weights of a layer, or of several.
struct Piece {
  double forward_s = 0;
  double backward_s = 0;
  models::RankWeights weights;
  std::int64_t layers = 0;

  [[nodiscard]] double total_s() const { return forward_s + backward_s; }
  Piece& operator+=(const Piece& other) {
    forward_s += other.forward_s;
    backward_s += other.backward_s;
    weights += other.weights;
    layers += other.layers;
    return *this;
  }
};

/// The pieces of a model at one layout of its layers, each priced when first asked for.
class PiecePrices {
 public:
  PiecePrices(const Job& job, const TrainingSpec& training)
      : job_(job),
        training_(training),
        degree_(static_cast<int>(training.tensor_model_parallel_size)),
        cost_(job.cluster->system, *job.model, training_, degree_, 1),
        embedding_(piece(cost_.embedding(), models::vocabulary_weights(*job.model, degree_))),
        output_(piece(cost_.output(), models::vocabulary_weights(*job.model, degree_))) {}
  PiecePrices(const PiecePrices&) = delete;
  PiecePrices& operator=(const PiecePrices&) = delete;

  [[nodiscard]] const Piece& layer(LayerKind kind, bool recomputed) {
    const std::size_t at = (recomputed ? 4U : 0U) + (kind.moe ? 2U : 0U) + (kind.windowed ? 1U : 0U);
    std::optional<Piece>& layer = layers_.at(at);
    if (!layer) {
      layer =
          piece(cost_.layer(kind, recomputed), models::layer_weights(*job_.model, training_, kind, degree_));
      layer->layers = 1;
    }
    return *layer;
  }
  [[nodiscard]] const Piece& embedding() const { return embedding_; }
  [[nodiscard]] const Piece& output() const { return output_; }

  /// Do layers cost the same in this layout?
  [[nodiscard]] bool serve(const TrainingSpec& training) const {
    return is_selective(training) == is_selective(training_) &&
           (!training.use_fsdp || training.data_parallel_size == training_.data_parallel_size);
  }

 private:
  static bool is_selective(const TrainingSpec& training) {
    return training.recompute_granularity == Recompute::kSelective;
  }

  static Piece piece(const models::PieceTime& time, const models::RankWeights& weights) {
    return {.forward_s = time.forward.total_s(),
            .backward_s = time.backward.total_s(),
            .weights = weights,
            .layers = 0};
  }

  Job job_;
  TrainingSpec training_;  // what cost_ points to
  int degree_;
  models::LayerCost cost_;
  Piece embedding_;
  Piece output_;
  std::array<std::optional<Piece>, 8> layers_;
};

std::vector<Piece> pipeline_stages(const Job& job, const TrainingSpec& training, PiecePrices& prices) {
  std::vector<Piece> stages(static_cast<std::size_t>(training.pipeline_model_parallel_size));
  std::int64_t recomputed = 0;
  if (training.recompute_granularity == Recompute::kFull) recomputed = job.model->num_layers;
  if (training.recompute_granularity == Recompute::kBlock) recomputed = training.recompute_num_layers;
  std::size_t turn = 0;
  for (const models::ChunkLayers& chunk : models::chunk_layers(*job.model, training)) {
    Piece& stage = stages[turn++ % stages.size()];
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      stage += prices.layer(models::kind_of(*job.model, chunk.first + i), i < recomputed);
    }
  }
  stages.front() += prices.embedding();
  stages.back() += prices.output();
  return stages;
}

/// Exposed data-parallel sync and the optimizer step (sim/step_model.h) of one stage.
class SyncEstimate {
 public:
  SyncEstimate(const Job& job, const TrainingSpec& training)
      : training_(&training),
        collectives_(job.cluster->system),
        groups_(models::replica_groups(training, job.cluster->system.domain_size)),
        memory_rate_(models::efficiency_of(job.cluster->system.gpu).gpu.memory *
                     job.cluster->system.gpu.memory_bandwidth.value()) {
    const double chunks = real(training.virtual_pipeline_model_parallel_size);
    passes_ = 1 + (real(training.pipeline_model_parallel_size) - 1) * (chunks - 1) / chunks;
  }

  [[nodiscard]] double exposed_s(const Piece& stage) const {
    if (training_->use_fsdp) return 0;
    const double gradients =
        reduce_s(stage.weights.dense, groups_.dense) + reduce_s(stage.weights.experts, groups_.experts);
    const double reduce =
        training_->overlap_grad_reduce ? behind(gradients, stage.backward_s, stage) : gradients;
    if (!training_->use_distributed_optimizer) return reduce;
    const double weights =
        gather_s(stage.weights.dense, groups_.dense) + gather_s(stage.weights.experts, groups_.experts);
    return reduce + (training_->overlap_param_gather ? behind(weights, stage.forward_s, stage) : weights);
  }

  [[nodiscard]] double optimizer_s(const Piece& stage) const {
    constexpr double kBytes = 30;  // moved for a weight
    const bool shared = training_->use_distributed_optimizer || training_->use_fsdp;
    const double owned = stage.weights.dense / (shared ? real(groups_.dense.size) : 1) +
                         stage.weights.experts / (shared ? real(groups_.experts.size) : 1);
    return owned * kBytes / memory_rate_;
  }

 private:
  [[nodiscard]] double reduce_s(double weights, models::GroupSpan span) const {
    const double bytes = weights * training_->gradient_bytes();
    if (bytes == 0) return 0;
    return training_->use_distributed_optimizer ? collectives_.reduce_scatter_s(bytes, span)
                                                : collectives_.all_reduce_s(bytes, span);
  }

  [[nodiscard]] double gather_s(double weights, models::GroupSpan span) const {
    constexpr double kWeightBytes = 2;
    return weights == 0 ? 0 : collectives_.all_gather_s(weights * kWeightBytes, span);
  }

  [[nodiscard]] double behind(double sync_s, double pass_s, const Piece& stage) const {
    return std::max(sync_s / real(std::max<std::int64_t>(stage.layers, 1)), sync_s - passes_ * pass_s);
  }

  const TrainingSpec* training_;
  models::CollectiveCost collectives_;
  models::ReplicaGroups groups_;
  double memory_rate_;
  double passes_ = 1;
};

double exposed_sends_s(const Job& job, const TrainingSpec& training) {
  if (training.pipeline_model_parallel_size == 1) return 0;
  constexpr double kActivationBytes = 2;
  const models::SystemSpec& system = job.cluster->system;
  const models::CollectiveCost collectives(system);
  const bool one_domain = training.gpus_per_replica() * training.data_parallel_size <= system.domain_size;
  const double tp = real(training.tensor_model_parallel_size);
  const double whole = real(training.micro_batch_size * training.seq_length * job.model->hidden_size) /
                       real(training.context_parallel_size) * kActivationBytes;
  double send_s = collectives.point_to_point_s(whole / tp, one_domain);
  if (!training.sequence_parallel) {
    send_s += collectives.all_gather_s(
        whole, models::span_of(training.tensor_model_parallel_size, 1, system.domain_size));
  }
  const bool interleaved = training.virtual_pipeline_model_parallel_size > 1;
  const std::int64_t sends =
      training.pipeline_model_parallel_size - 1 + (interleaved ? 0 : training.microbatches());
  return 2 * real(sends) * send_s;
}

/// Seconds of a step in closed form, by which layouts are ranked before the step model plays the best:
///
///   T = m t + (sum of t_i - t) / v + sends + sync + optimizer
///
/// with the terms of sim/step_model.h. O(layers).
double estimated_step_s(const Job& job, const TrainingSpec& training, PiecePrices& prices) {
  const SyncEstimate sync(job, training);
  double longest_s = 0;
  double sum_s = 0;
  double sync_s = 0;
  double optimizer_s = 0;
  for (const Piece& stage : pipeline_stages(job, training, prices)) {
    longest_s = std::max(longest_s, stage.total_s());
    sum_s += stage.total_s();
    sync_s = std::max(sync_s, sync.exposed_s(stage));
    optimizer_s = std::max(optimizer_s, sync.optimizer_s(stage));
  }
  const double chunks = real(training.virtual_pipeline_model_parallel_size);
  return real(training.microbatches()) * longest_s + (sum_s - longest_s) / chunks +
         exposed_sends_s(job, training) + sync_s + optimizer_s;
}

// The search.

struct Candidate {
  TrainingSpec training;
  double estimated_s = 0;
};

/// What came of some of the layouts.
struct Tally {
  std::int64_t considered = 0;
  std::array<std::int64_t, kRefusals> refused{};
  std::int64_t priced = 0;
  std::vector<Candidate> best;
};

/// The first of equals stays first, so that the outcome is that of the order of the layouts.
void keep_fastest(std::vector<Candidate>& candidates, std::size_t most) {
  std::ranges::stable_sort(candidates, {}, &Candidate::estimated_s);
  if (candidates.size() > most) candidates.resize(most);
}

/// All pipelines over one layout of the layers.
class PipelineSearch {
 public:
  PipelineSearch(const Job& job, const TrainingSpec& training, const SearchOptions& options)
      : job_(job), training_(training), options_(&options) {}

  Tally search() {
    const std::int64_t groups =
        tensor_groups(*job_.cluster, training_.tensor_model_parallel_size) / training_.context_parallel_size;
    for (const std::int64_t pp : divisors(groups, job_.model->num_layers)) {
      training_.pipeline_model_parallel_size = pp;
      training_.data_parallel_size = groups / pp;
      for (const std::int64_t vp : virtual_stages(*job_.model, pp)) {
        training_.virtual_pipeline_model_parallel_size = vp;
        if (is_wanted()) consider();
      }
    }
    keep_fastest(tally_.best, options_->finalists);
    return std::move(tally_);
  }

 private:
  [[nodiscard]] bool is_wanted() const {
    return std::ranges::all_of(options_->fixed, [this](const FixedSetting& fixed) {
      return training_.*fixed.setting == fixed.value;
    });
  }

  void consider() {
    ++tally_.considered;
    if (const auto reason = refusal(training_)) return refuse(*reason);
    const auto recompute = models::least_recompute(*job_.model, training_, job_.cluster->system.gpu.memory);
    if (!recompute) return refuse(Refusal::kMemory);
    training_.recompute_granularity = recompute->granularity;
    training_.recompute_num_layers = recompute->num_layers;
    ++tally_.priced;
    tally_.best.push_back({training_, estimated_step_s(job_, training_, prices())});
  }

  void refuse(Refusal reason) { ++tally_.refused.at(static_cast<std::size_t>(reason)); }

  PiecePrices& prices() {
    const bool selective = training_.recompute_granularity == Recompute::kSelective;
    std::optional<PiecePrices>& prices = prices_.at(selective ? 1 : 0);
    if (!prices || !prices->serve(training_)) prices.emplace(job_, training_);
    return *prices;
  }

  Job job_;
  TrainingSpec training_;
  const SearchOptions* options_;
  Tally tally_;
  std::array<std::optional<PiecePrices>, 2> prices_;
};

/// Lets the step model play the candidates, and keeps the fastest.
std::vector<FoundLayout> played(const Job& job, std::span<const Candidate> candidates,
                                const SearchOptions& options) {
  std::vector<FoundLayout> found;
  const auto play = [&](std::int64_t at) {
    const Candidate& candidate = candidates[static_cast<std::size_t>(at)];
    const sim::StepModel model(job.cluster->system, *job.model, candidate.training);
    return FoundLayout{
        .training = candidate.training,
        .estimated_s = candidate.estimated_s,
        .step = model.step(model.healthy_shape()),
        .memory = models::memory_per_gpu(*job.model, candidate.training,
                                         static_cast<int>(candidate.training.tensor_model_parallel_size))};
  };
  ordered_parallel(std::ssize(candidates), options.threads, {}, play,
                   [&](const FoundLayout& layout) { found.push_back(layout); });
  std::ranges::stable_sort(found, {}, [](const FoundLayout& layout) { return layout.step.total_s(); });
  if (found.size() > options.most_found) found.resize(options.most_found);
  return found;
}

}  // namespace

std::string_view name_of(Refusal refusal) {
  static constexpr std::array<std::string_view, kRefusals> kNames = {
      "batch_not_divisible", "interleaving_not_divisible", "expert_groups_not_divisible", "memory"};
  return kNames.at(static_cast<std::size_t>(refusal));
}

std::string_view reason_of(Refusal refusal) {
  static constexpr std::array<std::string_view, kRefusals> kReasons = {
      "do not divide the batch", "interleave without a multiple of PP microbatches",
      "do not divide DP into expert-parallel groups", "do not fit into memory"};
  return kReasons.at(static_cast<std::size_t>(refusal));
}

double LayoutSearch::tokens_per_s_per_gpu(const FoundLayout& layout) const {
  const TrainingSpec& training = layout.training;
  return real(training.global_batch_size * training.seq_length) /
         (layout.step.total_s() * real(cluster.gpus));
}

double LayoutSearch::model_flops_per_s_per_gpu(const FoundLayout& layout) const {
  return tokens_per_s_per_gpu(layout) * models::model_flops_per_token(model, layout.training.seq_length);
}

double LayoutSearch::mfu(const FoundLayout& layout) const {
  const auto peak = cluster.system.gpu.peak(layout.training.precision);
  invariant(peak.has_value(), "the GPU has the precision");
  return model_flops_per_s_per_gpu(layout) / peak->value();
}

LayoutSearch search_layouts(const sim::ClusterSpec& cluster, const models::TransformerSpec& model,
                            const TrainingSpec& job_training, const SearchOptions& options) {
  invariant(cluster.gpus > 0 && cluster.gpus % cluster.system.domain_size == 0, "whole domains");
  const Job job{.cluster = &cluster, .model = &model, .training = &job_training};
  const std::vector<TrainingSpec> layouts = layer_layouts(job);
  LayoutSearch search;
  search.cluster = cluster;
  search.model = model;
  std::vector<Candidate> candidates;
  ordered_parallel(
      std::ssize(layouts), options.threads, options.progress,
      [&](std::int64_t at) {
        return PipelineSearch(job, layouts[static_cast<std::size_t>(at)], options).search();
      },
      [&](const Tally& tally) {
        search.considered += tally.considered;
        search.priced += tally.priced;
        for (std::size_t i = 0; i < kRefusals; ++i) search.refused.at(i) += tally.refused.at(i);
        candidates.insert(candidates.end(), tally.best.begin(), tally.best.end());
        keep_fastest(candidates, options.finalists);
      });
  search.best = played(job, candidates, options);
  return search;
}

}  // namespace ntpsim::analysis
