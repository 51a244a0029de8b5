#include "ntpsim/models/layer_cost.h"

#include <algorithm>
#include <array>

#include "ntpsim/core/invariant.h"
#include "ntpsim/plan/head_cut.h"
#include "ntpsim/plan/shard_layout.h"
#include "ntpsim/plan/sync_plan.h"

namespace ntpsim::models {
namespace {

constexpr double kActivationBytes = 2;      // activations travel and rest in 16 bits
constexpr double kGradientTraffic = 8;      // FP32 gradient read and written
constexpr double kScoreBytesForward = 13;   // scores out, softmax in and out, dropout in, out and mask, in
constexpr double kScoreBytesBackward = 17;  // the same way back, the softmax reading its output too
constexpr double kBackwardAttention = 2.5;  // five GEMMs where the forward pass has two
constexpr double kLogitBytes = 16;          // logits out, to FP32, maximum and sum over them

double real(std::int64_t value) {
  return static_cast<double>(value);
}

/// Weights of the attention block that each rank holds whole: the latent down projections.
double copied_attention_parameters(const TransformerSpec& model) {
  if (!model.latent_attention) return 0;
  const auto& latent = *model.latent_attention;
  return real(model.hidden_size) *
         real(latent.q_lora_rank + latent.kv_lora_rank + latent.qk_pos_emb_head_dim);
}

/// The experts of an MoE model; none of a dense one.
TransformerSpec::Experts experts_of(const TransformerSpec& model) {
  return model.experts.value_or(TransformerSpec::Experts{});
}

/// Columns of the MLP that TP cuts: the dense one, or an MoE layer's shared experts.
std::int64_t mlp_columns(const TransformerSpec& model, LayerKind kind) {
  return kind.moe ? experts_of(model).shared_expert_intermediate_size : model.ffn_hidden_size;
}

/// Expert ranks that are left when the TP groups under them have `degree` ranks, in units of 1/tp.
std::int64_t expert_ranks_times_tp(const TrainingSpec& training, int degree) {
  return std::max(training.expert_model_parallel_size * degree, training.tensor_model_parallel_size);
}

bool experts_cut_over_tp_group(const TrainingSpec& training) {
  return training.expert_tensor_parallel_size == training.tensor_model_parallel_size;
}

/// Ranks that an expert is cut over. Where those are the whole TP group, they are what is left of it.
std::int64_t expert_tp(const TrainingSpec& training, int degree) {
  return experts_cut_over_tp_group(training) ? degree : training.expert_tensor_parallel_size;
}

std::int64_t local_experts(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  if (experts_cut_over_tp_group(training)) {
    return plan::max_units(experts_of(model).num_experts, training.expert_model_parallel_size);
  }
  return plan::max_units(experts_of(model).num_experts * training.tensor_model_parallel_size,
                         expert_ranks_times_tp(training, degree));
}

/// Weights of one expert on one rank.
double expert_parameters(const TransformerSpec& model, const TrainingSpec& training, int degree) {
  const std::int64_t columns =
      plan::max_units(experts_of(model).ffn_hidden_size, expert_tp(training, degree));
  return real(columns * model.hidden_size) * model.mlp_matrices();
}

// Fitted to published runs of dense models: 16 bits to the rows that tests/validation/throughput_test.cc
// prints, narrow formats to FP8 rows of H100 and GB200. For comparison: a long BF16 GEMM of 8192 on an
// air-cooled B200 sustains 0.68 of the best measured rate, throttled by power. Fused attention:
// FlashAttention-2 on A100, later kernels on the others.
constexpr std::array kEfficiencies = {
    Efficiency{.gemm_sustained = 0.88,
               .gemm_sustained_narrow = 0.88,
               .gemm_half_dimension = 128,
               .attention_forward = 0.6,
               .attention_backward = 0.5,
               .memory = 0.8},
    Efficiency{.gemm_sustained = 0.75,
               .gemm_sustained_narrow = 0.75,
               .gemm_half_dimension = 128,
               .attention_forward = 0.55,
               .attention_backward = 0.45,
               .memory = 0.8},
    Efficiency{.gemm_sustained = 0.62,
               .gemm_sustained_narrow = 0.75,
               .gemm_half_dimension = 256,
               .attention_forward = 0.5,
               .attention_backward = 0.4,
               .memory = 0.8},
};

}  // namespace

const Efficiency& efficiency_of(GpuGeneration generation) {
  return kEfficiencies.at(static_cast<std::size_t>(generation));
}

PassTime& PassTime::operator+=(const PassTime& other) {
  compute_s += other.compute_s;
  tp_s += other.tp_s;
  cp_s += other.cp_s;
  ep_s += other.ep_s;
  return *this;
}

PieceTime& PieceTime::operator+=(const PieceTime& other) {
  forward += other.forward;
  backward += other.backward;
  return *this;
}

RankWeights& RankWeights::operator+=(const RankWeights& other) {
  dense += other.dense;
  experts += other.experts;
  return *this;
}

AttentionShard attention_shard(const TransformerSpec& model, std::int64_t tensor_model_parallel_size,
                               int degree) {
  const plan::HeadCut cut = head_cut(model, tensor_model_parallel_size);
  if (!cut.copies_groups) {
    const std::int64_t units = plan::max_units(cut.units(), degree);
    return {.heads = units * cut.heads_per_unit(), .groups = units};
  }
  const plan::ShardLayout heads =
      plan::sync_layout(cut.heads, static_cast<int>(tensor_model_parallel_size), degree);
  const plan::GroupCopies copies(heads, cut.heads_per_group());
  AttentionShard fullest{};
  for (int rank = 0; rank < degree; ++rank) {
    const AttentionShard shard = {.heads = heads.units_of(rank), .groups = copies.count_of(rank)};
    if (shard.heads + shard.groups > fullest.heads + fullest.groups) fullest = shard;
  }
  return fullest;
}

RankWeights layer_weights(const TransformerSpec& model, const TrainingSpec& training, LayerKind kind,
                          int degree) {
  const int full_degree = static_cast<int>(training.tensor_model_parallel_size);
  RankWeights weights;
  weights.dense = copied_attention_parameters(model);
  for (const auto& tensors : {attention_tensors(model, training), mlp_tensors(model, kind)}) {
    for (const TpTensor& tensor : tensors) {
      weights.dense += elements_on_fullest_rank(tensor, full_degree, degree);
    }
  }
  if (kind.moe) {
    weights.dense += real(model.hidden_size * experts_of(model).num_experts);  // every rank has the router
    weights.experts =
        real(local_experts(model, training, degree)) * expert_parameters(model, training, degree);
  }
  return weights;
}

RankWeights vocabulary_weights(const TransformerSpec& model, int degree) {
  return {.dense = elements_on_fullest_rank(embedding_tensor(model), degree, degree), .experts = 0};
}

double layer_reshard_weights(const TransformerSpec& model, const TrainingSpec& training, LayerKind kind,
                             int compute_degree, int sync_degree) {
  const int full_degree = static_cast<int>(training.tensor_model_parallel_size);
  double weights = 0;
  for (const TpTensor& tensor : layer_tensors(model, training, kind)) {
    weights += resharded_elements(tensor, full_degree, compute_degree, sync_degree);
  }
  return weights;
}

double vocabulary_reshard_weights(const TransformerSpec& model, int compute_degree, int sync_degree) {
  return resharded_elements(embedding_tensor(model), compute_degree, compute_degree, sync_degree);
}

LayerCost::LayerCost(const SystemSpec& system, const TransformerSpec& model, const TrainingSpec& training,
                     int degree, double compute_speed)
    : system_(&system),
      model_(&model),
      training_(&training),
      collectives_(system),
      efficiency_(efficiency_of(generation_of(system.gpu))),
      degree_(degree),
      speed_(compute_speed),
      memory_rate_(efficiency_.memory * system.gpu.memory_bandwidth.value()),
      tokens_(real(training.micro_batch_size * training.seq_length) / real(training.context_parallel_size)),
      resident_tokens_(training.sequence_parallel ? tokens_ / degree : tokens_),
      shard_(attention_shard(model, training.tensor_model_parallel_size, degree)) {
  invariant(degree >= 1 && degree <= training.tensor_model_parallel_size, "degree within the TP group");
  invariant(compute_speed > 0, "a GPU computes");
  invariant(system.gpu.peak(training.precision).has_value(), "the GPU has the precision");
}

LayerCost::Span& LayerCost::Span::operator+=(Span other) {
  forward += other.forward;
  backward += other.backward;
  return *this;
}

LayerCost::Span LayerCost::gemm(const Gemm& shape, Precision precision) const {
  if (shape.rows <= 0 || shape.outputs <= 0) return {};
  const bool narrow = bytes_of(precision) < kActivationBytes;
  const double attainable = narrow ? system_->gpu.attainable_fp8 * efficiency_.gemm_sustained_narrow
                                   : system_->gpu.attainable * efficiency_.gemm_sustained;
  const double smallest = std::min({shape.rows, shape.outputs, shape.inputs});
  const double saturation = smallest / (smallest + efficiency_.gemm_half_dimension);
  const double rate =
      system_->gpu.peak(precision).value_or(FlopRate()).value() * attainable * saturation * speed_;
  const double tensor_s = 2 * shape.rows * shape.outputs * shape.inputs / rate;

  const double operand = bytes_of(precision);
  const double rows_in = shape.rows * shape.inputs;
  const double rows_out = shape.rows * shape.outputs;
  const double weights = shape.outputs * shape.inputs;
  const auto roofline = [&](double bytes) { return std::max(tensor_s, bytes / memory_rate_); };
  const double forward = roofline((rows_in + weights) * operand + rows_out * kActivationBytes);
  const double data_gradient = roofline((rows_out + weights) * operand + rows_in * kActivationBytes);
  const double weight_gradient = roofline((rows_in + rows_out) * operand + weights * kGradientTraffic);
  return {shape.count * forward, shape.count * (data_gradient + weight_gradient)};
}

LayerCost::Span LayerCost::casts(const Gemm& shape) const {
  const double operand = bytes_of(training_->precision);
  if (operand >= kActivationBytes) return {};
  // Reads 16 bits and writes the narrow operand twice, as it is and transposed.
  const double bytes = shape.count * shape.rows * (kActivationBytes + 2 * operand);
  return {bytes * shape.inputs / memory_rate_, bytes * shape.outputs / memory_rate_};
}

LayerCost::Span LayerCost::elementwise(double bytes) const {
  return {bytes / memory_rate_, 2 * bytes / memory_rate_};
}

PieceTime LayerCost::local(Span span) {
  PieceTime piece;
  piece.forward.compute_s = span.forward;
  piece.backward.compute_s = span.backward;
  return piece;
}

LayerCost::Span LayerCost::norm_and_residual() const {
  // The norm reads and writes the hidden state; the residual reads two and writes one.
  return elementwise(5 * kActivationBytes * resident_tokens_ * real(model_->hidden_size));
}

LayerCost::Span LayerCost::attention_core(bool windowed) const {
  const double heads = real(shard_.heads);
  const double per_score = 2 * real(model_->query_width() + model_->value_width());
  const double seq = real(training_->seq_length);
  const double peak = system_->gpu.peak_bf16.value() * speed_;
  if (training_->fused_attention) {
    const double flops = per_score * heads * tokens_ * model_->mean_keys(training_->seq_length, windowed);
    return {flops / (peak * efficiency_.attention_forward),
            kBackwardAttention * flops / (peak * efficiency_.attention_backward)};
  }
  const double smallest = std::min(seq, real(model_->query_width()));
  const double rate = peak * system_->gpu.attainable * efficiency_.gemm_sustained * smallest /
                      (smallest + efficiency_.gemm_half_dimension);
  const double score_count = heads * tokens_ * seq;
  const double tensor_s = per_score * score_count / rate;
  return {tensor_s + kScoreBytesForward * score_count / memory_rate_,
          2 * tensor_s + kScoreBytesBackward * score_count / memory_rate_};
}

/// All-gather (or reduce-scatter) of activations of `width` over consecutive ranks.
double LayerCost::gather_s(double width, std::int64_t ranks) const {
  return collectives_.all_gather_s(tokens_ * width * kActivationBytes,
                                   span_of(ranks, 1, system_->domain_size));
}

double LayerCost::behind(double collective_s, double gemm_s) const {
  if (!training_->tp_comm_overlap) return collective_s;
  return std::max(collective_s / real(degree_), collective_s - gemm_s);
}

double LayerCost::reduce_s() const {
  return collectives_.all_reduce_s(tokens_ * real(model_->hidden_size) * kActivationBytes,
                                   span_of(degree_, 1, system_->domain_size));
}

PieceTime LayerCost::entry_gemm(Span gemm, double width) const {
  PieceTime piece;
  piece.forward.compute_s = gemm.forward;
  piece.backward.compute_s = gemm.backward;
  const double beside = gemm.backward / 2;  // each of the two backward GEMMs hides one collective
  if (training_->sequence_parallel) {
    const double gather = gather_s(width, degree_);
    piece.forward.tp_s = behind(gather, gemm.forward);
    piece.backward.tp_s = 2 * std::max(0.0, gather - beside);
  } else {
    piece.backward.tp_s = std::max(0.0, reduce_s() - beside);
  }
  return piece;
}

PieceTime LayerCost::exit_gemm(Span gemm) const {
  PieceTime piece;
  piece.forward.compute_s = gemm.forward;
  piece.backward.compute_s = gemm.backward;
  if (training_->sequence_parallel) {
    const double gather = gather_s(real(model_->hidden_size), degree_);
    piece.forward.tp_s = behind(gather, gemm.forward);
    piece.backward.tp_s = behind(gather, gemm.backward);
  } else {
    piece.forward.tp_s = reduce_s();
  }
  return piece;
}

LayerCost::Span LayerCost::ring_exchange(Span attention) const {
  const std::int64_t ranks = training_->context_parallel_size;
  if (ranks == 1) return {};
  const std::int64_t heads = model_->latent_attention ? shard_.heads : shard_.groups;
  const double bytes =
      tokens_ * real(heads * (model_->query_width() + model_->value_width())) * kActivationBytes;
  const bool within = training_->tensor_model_parallel_size * ranks <= system_->domain_size;
  const double steps = real(ranks - 1);
  const auto exposed = [&](double step_bytes, double attention_s) {
    return steps *
           std::max(0.0, collectives_.point_to_point_s(step_bytes, within) - attention_s / real(ranks));
  };
  return {exposed(bytes, attention.forward), exposed(2 * bytes, attention.backward)};
}

PieceTime LayerCost::attention_block(bool windowed) const {
  const double hidden = real(model_->hidden_size);
  const double heads = real(shard_.heads);
  const double query = real(model_->query_width());
  const double value = real(model_->value_width());
  Span entry;
  Span other = norm_and_residual();
  double entry_width = hidden;
  double rotated = heads * query + real(shard_.groups) * query;
  const auto add = [&](Span& to, const Gemm& shape) {
    to += model_gemm(shape);
    other += casts(shape);
  };
  if (model_->latent_attention) {
    const auto& latent = *model_->latent_attention;
    const double query_rank = real(latent.q_lora_rank);
    const double kv_rank = real(latent.kv_lora_rank);
    const double position = real(latent.qk_pos_emb_head_dim);
    const bool compressed = latent.q_lora_rank > 0;
    add(other, {resident_tokens_, query_rank + kv_rank + position, hidden});
    add(entry, {tokens_, heads * query, compressed ? query_rank : hidden});
    add(entry, {tokens_, heads * (real(latent.qk_head_dim) + value), kv_rank});
    entry_width = (compressed ? query_rank : hidden) + kv_rank + position;
    rotated = 2 * heads * position;
  } else {
    add(entry, {tokens_, (heads + 2 * real(shard_.groups)) * query, hidden});
  }
  Span exit;
  add(exit, {tokens_, hidden, heads * value});
  other += elementwise(2 * kActivationBytes * tokens_ * rotated);

  const Span core = attention_core(windowed);
  other += core;
  PieceTime piece = entry_gemm(entry, entry_width);
  piece += exit_gemm(exit);
  piece += local(other);
  const Span ring = ring_exchange(core);
  piece.forward.cp_s = ring.forward;
  piece.backward.cp_s = ring.backward;
  if (training_->recompute_granularity == Recompute::kSelective) {
    piece.backward.compute_s += core.forward;
    piece.backward.cp_s += ring.forward;
  }
  return piece;
}

PieceTime LayerCost::mlp_block(double ffn_columns) const {
  const double hidden = real(model_->hidden_size);
  const double ups = model_->mlp_matrices() - 1;
  const Gemm up{tokens_, ups * ffn_columns, hidden};
  const Gemm down{tokens_, hidden, ffn_columns};
  Span other = elementwise((ups + 1) * kActivationBytes * tokens_ * ffn_columns);
  other += casts(up);
  other += casts(down);
  PieceTime piece = entry_gemm(model_gemm(up), hidden);
  piece += exit_gemm(model_gemm(down));
  piece += local(other);
  return piece;
}

PieceTime LayerCost::expert_block() const {
  const TransformerSpec::Experts experts = experts_of(*model_);
  const double hidden = real(model_->hidden_size);
  const std::int64_t cut = expert_tp(*training_, static_cast<int>(degree_));
  const double columns = real(plan::max_units(experts.ffn_hidden_size, cut));
  const double held = real(local_experts(*model_, *training_, static_cast<int>(degree_)));
  const double ranks = real(expert_ranks_times_tp(*training_, static_cast<int>(degree_))) /
                       real(training_->tensor_model_parallel_size);
  // Every rank sends its share of the tokens; a rank with more experts than the mean gets more of them.
  const double sent_rows = tokens_ / real(degree_) * real(experts.router_topk);
  const double rows = sent_rows * real(cut) * held * ranks / real(experts.num_experts);

  const double ups = model_->mlp_matrices() - 1;
  const Gemm up{rows / held, ups * columns, hidden, held};
  const Gemm down{rows / held, hidden, columns, held};
  Span compute = gemm({tokens_ / real(degree_), real(experts.num_experts), hidden}, Precision::kBf16);
  for (const Gemm& shape : {up, down}) {
    compute += model_gemm(shape);
    compute += casts(shape);
  }
  compute += elementwise((ups + 1) * kActivationBytes * rows * columns);
  const double permuted = 2 * kActivationBytes * (sent_rows + rows) * hidden;
  compute += Span{permuted / memory_rate_, permuted / memory_rate_};

  const GroupSpan expert_group = span_of(training_->expert_model_parallel_size, cut, system_->domain_size);
  const double exchange = 2 * collectives_.all_to_all_s(sent_rows * hidden * kActivationBytes, expert_group);
  const double gather =
      2 * collectives_.all_gather_s(rows * hidden * kActivationBytes, span_of(cut, 1, system_->domain_size));
  PieceTime piece = local(compute);
  for (PassTime* pass : {&piece.forward, &piece.backward}) {
    pass->tp_s = gather;
    pass->ep_s = exchange;
  }
  return piece;
}

PieceTime LayerCost::layer(LayerKind kind) const {
  PieceTime time = attention_block(kind.windowed);
  time += local(norm_and_residual());
  if (const std::int64_t columns = mlp_columns(*model_, kind); columns > 0) {
    time += mlp_block(real(plan::max_units(columns, degree_)));
  }
  if (kind.moe) time += expert_block();
  if (training_->recompute_granularity == Recompute::kFull) time.backward += time.forward;
  return time;
}

PieceTime LayerCost::embedding() const {
  const double hidden = real(model_->hidden_size);
  PieceTime piece = local(elementwise(2 * kActivationBytes * tokens_ * hidden));
  if (training_->sequence_parallel) {
    piece.forward.tp_s = gather_s(hidden, degree_);
    piece.backward.tp_s = piece.forward.tp_s;
  } else {
    piece.forward.tp_s = reduce_s();
  }
  return piece;
}

PieceTime LayerCost::output() const {
  const double hidden = real(model_->hidden_size);
  const double rows = real(plan::max_units(model_->vocab_size, degree_));
  const Span projection = gemm({tokens_, rows, hidden}, Precision::kBf16);
  const double logits = kLogitBytes * tokens_ * rows / memory_rate_;
  Span other = norm_and_residual();
  other += Span{logits, logits};
  PieceTime piece = entry_gemm(projection, hidden);
  piece += local(other);
  return piece;
}

}  // namespace ntpsim::models
