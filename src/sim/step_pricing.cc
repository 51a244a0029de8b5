#include "step_pricing.h"

#include <algorithm>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/replica_groups.h"

namespace ntpsim::sim {
namespace {

using models::Recompute;

constexpr double kWeightBytes = 2;
constexpr double kActivationBytes = 2;
// Reads gradient, master weight and two moments in FP32; writes the latter three and the 16-bit weight.
constexpr double kOptimizerBytes = 4 * 4 + 3 * 4 + 2;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

double real(std::int64_t value) {
  return static_cast<double>(value);
}

Time time_of(double seconds) {
  return Time::from_seconds(seconds);
}

}  // namespace

StepPricing::StepPricing(const models::SystemSpec& system, const models::TransformerSpec& model,
                         const models::TrainingSpec& training, const ReplicaShape& shape)
    : system_(system),
      model_(model),
      training_(training),
      shape_(shape),
      collectives_(system),
      groups_(models::replica_groups(training, system.domain_size)),
      layout_(models::chunk_layers(model, training)) {
  const std::int64_t ranks = training.pipeline_model_parallel_size;
  invariant(shape.stage_degrees.empty() || std::ssize(shape.stage_degrees) == ranks,
            "a degree for every pipeline rank, or none");
  pipeline_.ranks = ranks;
  pipeline_.microbatches = shape.microbatches;
  // Interleaved pipelines send and receive beside their passes; without, Megatron Core sends between them.
  pipeline_.overlap_sends = training.virtual_pipeline_model_parallel_size > 1;
  pipeline_.overlap_gather = training.overlap_param_gather;
  pipeline_.overlap_reduce = training.overlap_grad_reduce;
  rank_times_.resize(at(ranks));
  rank_weights_.resize(at(ranks));
  price_chunks();
  price_optimizer();
}

int StepPricing::degree_of(std::int64_t rank) const {
  return shape_.stage_degrees.empty() ? shape_.tp_degree : shape_.stage_degrees[at(rank)];
}

StepPricing::Degree& StepPricing::at_degree(int degree) {
  std::unique_ptr<Degree>& entry = degrees_[degree];
  if (!entry) {
    entry = std::make_unique<Degree>(
        degree, models::LayerCost(system_, model_, training_, degree, shape_.compute_speed));
  }
  return *entry;
}

bool StepPricing::recomputed(std::int64_t layer_of_chunk) const {
  return training_.recompute_granularity == Recompute::kFull ||
         (training_.recompute_granularity == Recompute::kBlock &&
          layer_of_chunk < training_.recompute_num_layers);
}

const StepPricing::Piece& StepPricing::layer(Degree& degree, std::int64_t layer, bool recomputed) {
  const models::LayerKind kind = models::kind_of(model_, layer);
  const std::size_t index = (recomputed ? 4U : 0U) + (kind.moe ? 2U : 0U) + (kind.windowed ? 1U : 0U);
  std::optional<Piece>& piece = degree.layers.at(index);
  if (!piece) {
    piece = Piece{.time = degree.cost.layer(kind, recomputed),
                  .synced = models::layer_weights(model_, training_, kind, shape_.sync_degree),
                  .resharded = models::layer_reshard_weights(model_, training_, kind, degree.tp_degree,
                                                             shape_.sync_degree)};
  }
  return *piece;
}

void StepPricing::add_vocabulary(Piece& piece, int degree) const {
  piece.synced += models::vocabulary_weights(model_, shape_.sync_degree);
  piece.resharded += models::vocabulary_reshard_weights(model_, degree, shape_.sync_degree);
}

const StepPricing::Piece& StepPricing::embedding(Degree& degree) {
  if (!degree.embedding) {
    degree.embedding = Piece{.time = degree.cost.embedding(), .synced = {}, .resharded = 0};
    add_vocabulary(*degree.embedding, degree.tp_degree);
  }
  return *degree.embedding;
}

const StepPricing::Piece& StepPricing::output(Degree& degree) {
  if (!degree.output) {
    degree.output = Piece{.time = degree.cost.output(), .synced = {}, .resharded = 0};
    // Tied weights are one tensor when both ends are on one rank.
    if (pipeline_.ranks > 1 || model_.untie_embeddings_and_output_weights) {
      add_vocabulary(*degree.output, degree.tp_degree);
    }
    for (std::int64_t extra = 0; extra < model_.mtp_num_layers; ++extra) {
      const Piece& last = layer(degree, model_.num_layers - 1, false);
      degree.output->synced += last.synced;
      degree.output->resharded += last.resharded;
    }
  }
  return *degree.output;
}

void StepPricing::price_chunks() {
  pipeline_.chunks.resize(layout_.size());
  for (std::int64_t chunk = 0; chunk < std::ssize(layout_); ++chunk) price_chunk(chunk);
}

void StepPricing::price_chunk(std::int64_t chunk) {
  const std::int64_t rank = chunk % pipeline_.ranks;
  const bool last = chunk + 1 == std::ssize(layout_);
  Degree& degree = at_degree(degree_of(rank));
  Piece all;
  const auto add = [&all](const Piece& piece) {
    all.time += piece.time;
    all.synced += piece.synced;
    all.resharded += piece.resharded;
  };
  const models::ChunkLayers& layers = layout_[at(chunk)];
  for (std::int64_t i = 0; i < layers.count; ++i) add(layer(degree, layers.first + i, recomputed(i)));
  if (chunk == 0) add(embedding(degree));
  if (last) add(output(degree));
  rank_times_[at(rank)] += all.time;
  rank_weights_[at(rank)] += all.synced;

  PipelineChunk& priced = pipeline_.chunks[at(chunk)];
  priced.forward = time_of(all.time.forward.total_s());
  priced.backward = time_of(all.time.backward.total_s());
  if (!last)
    priced.send_forward = time_of(send_s(degree.tp_degree, degree_of((chunk + 1) % pipeline_.ranks)));
  if (chunk > 0) {
    const std::int64_t before = (chunk - 1) % pipeline_.ranks;
    priced.send_backward = time_of(send_s(degree.tp_degree, degree_of(before)));
  }
  priced.layers = std::max<std::int64_t>(1, layers.count);
  if (training_.use_fsdp) return;  // gathers and reductions are part of the passes
  priced.reduce = time_of(reduce_s(all));
  priced.gather = time_of(gather_s(all));
}

double StepPricing::reduce_s(const Piece& piece) const {
  const double bytes = training_.gradient_bytes();
  const double reshard =
      piece.resharded > 0 ? collectives_.point_to_point_s(piece.resharded * bytes, true) : 0;
  const auto reduced = [&](double weights, models::GroupSpan span) {
    if (weights == 0) return 0.0;
    return training_.use_distributed_optimizer ? collectives_.reduce_scatter_s(weights * bytes, span)
                                               : collectives_.all_reduce_s(weights * bytes, span);
  };
  // Without the distributed optimizer the extra ranks get synced gradients back, else weights (`gather_s`).
  return (training_.use_distributed_optimizer ? 1 : 2) * reshard +
         reduced(piece.synced.dense, groups_.dense) + reduced(piece.synced.experts, groups_.experts);
}

double StepPricing::gather_s(const Piece& piece) const {
  if (!training_.use_distributed_optimizer) return 0;
  const auto gathered = [&](double weights, models::GroupSpan span) {
    return weights > 0 ? collectives_.all_gather_s(weights * kWeightBytes, span) : 0.0;
  };
  const double reshard =
      piece.resharded > 0 ? collectives_.point_to_point_s(piece.resharded * kWeightBytes, true) : 0;
  return reshard + gathered(piece.synced.dense, groups_.dense) +
         gathered(piece.synced.experts, groups_.experts);
}

void StepPricing::price_optimizer() {
  const double rate = models::efficiency_of(system_.gpu).gpu.memory * system_.gpu.memory_bandwidth.value();
  const bool sharded = training_.use_distributed_optimizer || training_.use_fsdp;
  for (const models::RankWeights& weights : rank_weights_) {
    const double owned =
        sharded ? weights.dense / real(groups_.dense.size) + weights.experts / real(groups_.experts.size)
                : weights.dense + weights.experts;
    pipeline_.optimizer.push_back(time_of(owned * kOptimizerBytes / rate));
  }
}

// A microbatch's activations to the next pipeline rank, or their gradients back. What all ranks of a TP group
// hold is sent in shares, one a rank, and gathered at the other end (Narayanan et al., SC'21, section 4.1);
// of groups of different degrees, the smaller one's ports bound it.
double StepPricing::send_s(int from_degree, int to_degree) const {
  const bool one_domain = training_.gpus_per_replica() * training_.data_parallel_size <= system_.domain_size;
  const int ports = std::min(from_degree, to_degree);
  const double whole = at_degree(from_degree).cost.tokens() * real(model_.hidden_size) * kActivationBytes;
  const double gather_s =
      training_.sequence_parallel
          ? 0
          : collectives_.all_gather_s(whole, models::span_of(to_degree, 1, system_.domain_size));
  return collectives_.point_to_point_s(whole / ports, one_domain) + gather_s;
}

std::vector<models::PassProgram> StepPricing::programs(std::int64_t chunk, bool forward) const {
  const models::LayerCost& cost = at_degree(degree_of(chunk % pipeline_.ranks)).cost;
  const models::ChunkLayers& layers = layout_[at(chunk)];
  std::vector<models::PassProgram> programs;
  if (forward && chunk == 0) programs.push_back(cost.embedding_forward());
  if (!forward && chunk + 1 == std::ssize(layout_)) programs.push_back(cost.output_backward());
  for (std::int64_t i = 0; i < layers.count; ++i) {
    const std::int64_t index = forward ? i : layers.count - 1 - i;
    const models::LayerKind kind = models::kind_of(model_, layers.first + index);
    programs.push_back(forward ? cost.forward(kind) : cost.backward(kind, recomputed(index)));
  }
  if (forward && chunk + 1 == std::ssize(layout_)) programs.push_back(cost.output_forward());
  if (!forward && chunk == 0) programs.push_back(cost.embedding_backward());
  return programs;
}

}  // namespace ntpsim::sim
