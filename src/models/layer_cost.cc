#include "ntpsim/models/layer_cost.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "ntpsim/core/invariant.h"
#include "ntpsim/plan/shard_layout.h"

// Equations and sources: see layer_cost.h.

namespace ntpsim::models {
namespace {

constexpr double kActivationBytes = 2;      // activations travel and rest in 16 bits
constexpr double kScoreBytesForward = 13;   // scores out, softmax in and out, dropout in, out and mask, in
constexpr double kScoreBytesBackward = 17;  // the same way back, the softmax reading its output too
constexpr double kBackwardGemms = 2.5;      // fused attention: five GEMMs where the forward pass has two
constexpr double kBackwardAttention =
    0.85;  // of the forward efficiency: FlashAttention-3 and cuDNN, long sequences
// Clamps (2), gate (3), shift, product and scaling by the router's score, each two reads or one and a write.
constexpr double kClampedActivationPasses = 20;
constexpr double kLogitBytes = 16;  // logits out, to FP32, maximum and sum over them

// Kernels that the host launches, as a profile of Megatron Core shows them.
constexpr double kNormKernels = 2;
constexpr double kCastKernels = 2;
constexpr double kAttentionKernels = 3;
constexpr double kDispatchKernels = 12;  // routing maps, counts, offsets, permutation
constexpr double kRouterKernels = 10;    // top-k, scores, auxiliary loss
constexpr double kLossKernels = 12;

double real(std::int64_t value) {
  return static_cast<double>(value);
}

/// Exponentials per second: 16 a clock and multiprocessor (CUDA programming guide, arithmetic throughput),
/// where a multiprocessor does 2048 dense 16-bit FLOPs a clock on Ampere and twice as many with each
/// generation.
double exponential_rate(const GpuSpec& gpu) {
  constexpr double kAmpereFlopsPerExponential = 2048.0 / 16;
  const auto doublings = static_cast<double>(generation_of(gpu));
  return gpu.peak_bf16.value() / (kAmpereFlopsPerExponential * std::exp2(doublings));
}

/// Expected number of distinct ranks among those that hold a token's experts, when each expert is on any of
/// `ranks` with the same chance.
double distinct_ranks(double ranks, double experts_per_token) {
  return ranks * (1 - std::pow(1 - 1 / ranks, experts_per_token));
}

}  // namespace

PieceTime& PieceTime::operator+=(const PieceTime& other) {
  forward += other.forward;
  backward += other.backward;
  return *this;
}

/// Adds the operations of a layer to a program, with what all of them share: launch costs, and collectives
/// that run beside or in pieces behind a GEMM.
class LayerCost::Builder {
 public:
  Builder(const LayerCost& cost, PassProgram& program)
      : cost_(&cost),
        program_(&program),
        launch_s_(cost.efficiency_->gpu.launch_s),
        graphs_(cost.training_->cuda_graphs) {}

  /// What follows has shapes that depend on the data.
  void dynamic_shapes(bool dynamic) { dynamic_ = dynamic; }

  void compute(std::string_view name, double seconds, double kernels) {
    const bool in_graph =
        graphs_ == CudaGraphs::kFullIteration || (graphs_ == CudaGraphs::kScoped && !dynamic_);
    program_->compute(name, seconds, in_graph ? 0 : kernels * launch_s_, pending_, pending_too_);
    pending_ = pending_too_ = kNone;
  }

  void synchronize() {
    if (graphs_ != CudaGraphs::kFullIteration) program_->synchronize();
  }

  /// A communication that the next operation waits for.
  void exposed(Stream stream, std::string_view name, double seconds, double bytes, std::int64_t ranks) {
    await(program_->communicate(stream, name, seconds, bytes, ranks));
  }

  /// A communication that starts with the pass and ends within it, beside everything else.
  void beside_all(Stream stream, std::string_view name, double seconds, double bytes, std::int64_t ranks) {
    program_->communicate_after(kNone, stream, name, seconds, bytes, ranks);
  }

  OperationIndex start(Stream stream, std::string_view name, double seconds, double bytes,
                       std::int64_t ranks) {
    return program_->communicate(stream, name, seconds, bytes, ranks);
  }

  /// Makes the next operation wait for this one, too.
  void await(OperationIndex operation) {
    if (operation == kNone) return;
    (pending_ == kNone ? pending_ : pending_too_) = operation;
  }

  void cast(const Projection& projection, double width, double factor = 1) {
    const double operand = bytes_of(projection.precision);
    if (operand >= kActivationBytes) return;
    // Reads 16 bits and writes the narrow operand twice, as it is and transposed.
    const double bytes =
        projection.shape.count * projection.shape.rows * width * (kActivationBytes + 2 * operand);
    const double passes = cost_->efficiency_->of(projection.precision).casts;
    compute("cast", factor * passes * cost_->streamed_s(bytes), factor * kCastKernels * projection.kernels);
  }

  void forward(const Projection& projection) {
    if (projection.shape.outputs <= 0) return;
    if (projection.casts_input) cast(projection, projection.shape.inputs);
    compute(projection.name, cost_->gemms_.forward_s(projection.shape, projection.precision),
            projection.kernels);
  }

  void data_gradient(const Projection& projection) {
    if (projection.casts_gradient) cast(projection, projection.shape.outputs);
    compute("data gradient", cost_->gemms_.data_gradient_s(projection.shape, projection.precision),
            projection.kernels);
  }

  void weight_gradient(const Projection& projection) {
    compute("weight gradient", cost_->gemms_.weight_gradient_s(projection.shape, projection.precision),
            projection.kernels);
  }

  void backward(const Projection& projection) {
    if (projection.shape.outputs <= 0) return;
    data_gradient(projection);
    weight_gradient(projection);
  }

  /// The column-parallel first GEMM of a block, whose input of `width` a token is gathered.
  void forward_entry(const Projection& projection, double width) {
    if (!sharded_sequence()) return forward(projection);
    const Collective gather = gather_of(width);
    if (!cost_->training_->tp_comm_overlap) {
      tp(gather);
      return forward(projection);
    }
    // In pieces: the GEMM starts with the first and ends no earlier than the last.
    const auto [first, rest] = gather_in_pieces(gather);
    await(first);
    forward(projection);
    await(rest);
  }

  /// Each of the two backward GEMMs hides one collective: that of the input one the gathering of the input
  /// anew, that of the weights the reduction of the input's gradient.
  void backward_entry(const Projection& projection, double width) {
    if (!sharded_sequence()) {
      data_gradient(projection);
      const OperationIndex reduce = start(reduction());
      weight_gradient(projection);
      return await(reduce);
    }
    const Collective gather = gather_of(width);
    const OperationIndex input = start(gather);
    data_gradient(projection);
    const OperationIndex scatter = start(Collective{"reduce-scatter", gather.seconds, gather.bytes});
    await(input);
    weight_gradient(projection);
    await(scatter);
  }

  /// The row-parallel last GEMM of a block, whose output is summed over the ranks.
  void forward_exit(const Projection& projection) {
    if (!sharded_sequence()) {
      forward(projection);
      return tp(reduction());
    }
    Collective scatter = gather_of(real(cost_->model_->hidden_size));
    scatter.name = "reduce-scatter";
    if (!cost_->training_->tp_comm_overlap) {
      forward(projection);
      return tp(scatter);
    }
    const double piece = 1 / real(cost_->degree_);
    const double gemm_s = cost_->gemms_.forward_s(projection.shape, projection.precision);
    if (projection.casts_input) cast(projection, projection.shape.inputs);
    compute(projection.name, gemm_s * piece, projection.kernels);
    program_->communicate(Stream::kTp, scatter.name, scatter.seconds * (1 - piece),
                          scatter.bytes * (1 - piece), cost_->degree_);
    compute(projection.name, gemm_s * (1 - piece), projection.kernels);
    tp(Collective{scatter.name, scatter.seconds * piece, scatter.bytes * piece});
  }

  void backward_exit(const Projection& projection) {
    if (!sharded_sequence()) return backward(projection);
    const Collective gather = gather_of(real(cost_->model_->hidden_size));
    if (!cost_->training_->tp_comm_overlap) {
      tp(gather);
      return backward(projection);
    }
    const auto [first, rest] = gather_in_pieces(gather);
    await(first);
    data_gradient(projection);
    await(rest);
    weight_gradient(projection);
  }

  /// All-gather (or, of the embedding, reduce-scatter) of hidden states, or their all-reduce.
  void embedding_collective() {
    sharded_sequence() ? tp(gather_of(real(cost_->model_->hidden_size))) : tp(reduction());
  }

 private:
  struct Collective {
    std::string_view name;
    double seconds;
    double bytes;
  };

  [[nodiscard]] bool sharded_sequence() const { return cost_->training_->sequence_parallel; }

  [[nodiscard]] Collective gather_of(double width) const {
    const double bytes = cost_->bytes_of_tokens(width);
    const GroupSpan span = span_of(cost_->degree_, 1, cost_->system_->domain_size);
    return {"all-gather", cost_->collectives_.all_gather_s(bytes, span), bytes};
  }

  [[nodiscard]] Collective reduction() const {
    const double bytes = cost_->bytes_of_tokens(real(cost_->model_->hidden_size));
    const GroupSpan span = span_of(cost_->degree_, 1, cost_->system_->domain_size);
    return {"all-reduce", cost_->collectives_.all_reduce_s(bytes, span), bytes};
  }

  void tp(const Collective& collective) {
    exposed(Stream::kTp, collective.name, collective.seconds, collective.bytes, cost_->degree_);
  }

  /// The first of `degree` pieces, and the others.
  std::pair<OperationIndex, OperationIndex> gather_in_pieces(const Collective& gather) {
    const double piece = 1 / real(cost_->degree_);
    const OperationIndex first = program_->communicate(Stream::kTp, gather.name, gather.seconds * piece,
                                                       gather.bytes * piece, cost_->degree_);
    return {first, program_->communicate_after(first, Stream::kTp, gather.name, gather.seconds * (1 - piece),
                                               gather.bytes * (1 - piece), cost_->degree_)};
  }

  OperationIndex start(const Collective& collective) {
    return program_->communicate(Stream::kTp, collective.name, collective.seconds, collective.bytes,
                                 cost_->degree_);
  }

  const LayerCost* cost_;
  PassProgram* program_;
  double launch_s_;
  CudaGraphs graphs_;
  bool dynamic_ = false;
  OperationIndex pending_ = kNone;
  OperationIndex pending_too_ = kNone;
};

LayerCost::LayerCost(const SystemSpec& system, const TransformerSpec& model, const TrainingSpec& training,
                     int degree, double compute_speed)
    : system_(&system),
      model_(&model),
      training_(&training),
      collectives_(system),
      gemms_(system.gpu, compute_speed),
      efficiency_(&efficiency_of(system.gpu)),
      degree_(degree),
      speed_(compute_speed),
      memory_rate_(efficiency_->gpu.memory * system.gpu.memory_bandwidth.value()),
      tokens_(real(training.micro_batch_size * training.seq_length) / real(training.context_parallel_size)),
      resident_tokens_(training.sequence_parallel ? tokens_ / degree : tokens_),
      shard_(attention_shard(model, training.tensor_model_parallel_size, degree)) {
  invariant(degree >= 1 && degree <= training.tensor_model_parallel_size, "degree within the TP group");
  invariant(system.gpu.peak(training.precision).has_value(), "the GPU has the precision");
}

double LayerCost::bytes_of_tokens(double width) const {
  return tokens_ * width * kActivationBytes;
}

/// Passes of `values_per_element` 16-bit values over the hidden states.
double LayerCost::hidden_s(double values_per_element) const {
  return streamed_s(values_per_element * kActivationBytes * resident_tokens_ * real(model_->hidden_size));
}

LayerCost::Projection LayerCost::projection(std::string_view name, double rows, double outputs,
                                            double inputs) const {
  return {.name = name,
          .shape = {.rows = rows, .outputs = outputs, .inputs = inputs},
          .precision = training_->precision};
}

double LayerCost::attention_s(bool windowed, bool backward) const {
  const double heads = real(shard_.heads);
  const double per_score = 2 * real(model_->query_width() + model_->value_width());
  const Efficiency& efficiency = efficiency_->gpu;
  if (training_->fused_attention) {
    const double scores = heads * tokens_ * model_->mean_keys(training_->seq_length, windowed);
    const Precision precision = training_->fp8_dot_product_attention ? Precision::kFp8 : Precision::kBf16;
    const double peak = system_->gpu.peak(precision).value_or(system_->gpu.peak_bf16).value() * speed_;
    const double exponentials = scores / (exponential_rate(system_->gpu) * speed_);
    const double forward = scores * per_score / peak + exponentials;
    const double back = kBackwardGemms * scores * per_score / peak + exponentials;
    return backward ? back / (kBackwardAttention * efficiency.attention) : forward / efficiency.attention;
  }
  const double seq = real(training_->seq_length);
  const double score_count = heads * tokens_ * seq;
  // Batched GEMMs over heads and sequences: scores, and what they weigh.
  const double count = heads * tokens_ / seq;
  const Gemm scores{.rows = seq, .outputs = seq, .inputs = real(model_->query_width()), .count = count};
  const Gemm values{.rows = seq, .outputs = real(model_->value_width()), .inputs = seq, .count = count};
  const double once = gemms_.forward_s(scores, Precision::kBf16) + gemms_.forward_s(values, Precision::kBf16);
  return backward ? 2 * once + streamed_s(kScoreBytesBackward * score_count)
                  : once + streamed_s(kScoreBytesForward * score_count);
}

void LayerCost::forward_core(Builder& to, bool windowed) const {
  const std::int64_t ranks = training_->context_parallel_size;
  const double seconds = attention_s(windowed, false);
  const double last = 1 / real(ranks);
  if (ranks > 1) {
    const double bytes = ring_bytes();
    const OperationIndex ring = to.start(Stream::kCp, "exchange keys and values",
                                         real(ranks - 1) * exchange_s(bytes), real(ranks - 1) * bytes, ranks);
    to.compute("attention", seconds * (1 - last), kAttentionKernels * real(ranks - 1));
    to.await(ring);
  }
  to.compute("attention", seconds * last, kAttentionKernels);
}

/// Keys and values of one context-parallel rank.
double LayerCost::ring_bytes() const {
  const std::int64_t heads = model_->latent_attention ? shard_.heads : shard_.groups;
  return bytes_of_tokens(real(heads * (model_->query_width() + model_->value_width())));
}

double LayerCost::exchange_s(double bytes) const {
  const bool within =
      training_->tensor_model_parallel_size * training_->context_parallel_size <= system_->domain_size;
  return collectives_.point_to_point_s(bytes, within);
}

LayerCost::AttentionWork LayerCost::attention_work() const {
  const double hidden = real(model_->hidden_size);
  const double heads = real(shard_.heads);
  const double query = real(model_->query_width());
  AttentionWork work;
  work.exit = projection("projection", tokens_, hidden, heads * real(model_->value_width()));
  work.exit.casts_input = true;
  if (!model_->latent_attention) {
    const double groups = real(shard_.groups);
    work.entry = projection("query, key and value", tokens_, (heads + 2 * groups) * query, hidden);
    work.entry_width = hidden;
    work.rotated = (heads + groups) * query;
    return work;
  }
  const auto& latent = *model_->latent_attention;
  const bool compressed = latent.q_lora_rank > 0;
  const double query_rank = real(latent.q_lora_rank);
  const double kv_rank = real(latent.kv_lora_rank);
  const double position = real(latent.qk_pos_emb_head_dim);
  const double query_inputs = compressed ? query_rank : hidden;
  work.down = projection("latent down projection", resident_tokens_, query_rank + kv_rank + position, hidden);
  work.entry = projection("query", tokens_, heads * query, query_inputs);
  work.up =
      projection("key and value", tokens_, heads * real(latent.qk_head_dim + model_->value_width()), kv_rank);
  work.entry_width = query_inputs + kv_rank + position;
  work.rotated = 2 * heads * query;  // the parts with and without rotation are put together
  return work;
}

void LayerCost::forward_attention(Builder& to, bool windowed) const {
  const AttentionWork work = attention_work();
  to.compute("norm", hidden_s(2), kNormKernels);
  if (work.down) to.forward(*work.down);
  to.forward_entry(work.entry, work.entry_width);
  if (work.up) to.forward(*work.up);
  to.compute("rotary embedding", streamed_s(2 * bytes_of_tokens(work.rotated)), 2);
  forward_core(to, windowed);
  to.forward_exit(work.exit);
  to.compute("residual", hidden_s(3), 1);
}

void LayerCost::backward_attention(Builder& to, bool windowed) const {
  const AttentionWork work = attention_work();
  to.compute("residual", hidden_s(2), 1);
  to.backward_exit(work.exit);
  if (training_->recompute_granularity == Recompute::kSelective) forward_core(to, windowed);
  const std::int64_t ranks = training_->context_parallel_size;
  const double seconds = attention_s(windowed, true);
  const double last = 1 / real(ranks);
  if (ranks > 1) {
    // Keys and values go round once more, with their gradients.
    const double bytes = 2 * ring_bytes();
    const OperationIndex ring = to.start(Stream::kCp, "exchange keys, values and gradients",
                                         real(ranks - 1) * exchange_s(bytes), real(ranks - 1) * bytes, ranks);
    to.compute("attention", seconds * (1 - last), kAttentionKernels * real(ranks - 1));
    to.await(ring);
  }
  to.compute("attention", seconds * last, kAttentionKernels);
  to.compute("rotary embedding", streamed_s(2 * bytes_of_tokens(work.rotated)), 2);
  if (work.up) to.backward(*work.up);
  to.backward_entry(work.entry, work.entry_width);
  if (work.down) to.backward(*work.down);
  to.compute("norm", hidden_s(4), kNormKernels);
}

void LayerCost::forward_mlp(Builder& to, double columns) const {
  const double hidden = real(model_->hidden_size);
  const double ups = model_->mlp_matrices() - 1;
  to.compute("norm", hidden_s(2), kNormKernels);
  to.forward_entry(projection("MLP up", tokens_, ups * columns, hidden), hidden);
  to.compute("activation", streamed_s((ups + 1) * bytes_of_tokens(columns)), 1);
  to.forward_exit(projection("MLP down", tokens_, hidden, columns));
  to.compute("residual", hidden_s(3), 1);
}

void LayerCost::backward_mlp(Builder& to, double columns) const {
  const double hidden = real(model_->hidden_size);
  const double ups = model_->mlp_matrices() - 1;
  to.compute("residual", hidden_s(2), 1);
  to.backward_exit(projection("MLP down", tokens_, hidden, columns));
  to.compute("activation", streamed_s((2 * ups + 1) * bytes_of_tokens(columns)), 1);
  to.backward_entry(projection("MLP up", tokens_, ups * columns, hidden), hidden);
  to.compute("norm", hidden_s(4), kNormKernels);
}

LayerCost::ExpertWork LayerCost::expert_work() const {
  const TransformerSpec::Experts& experts = *model_->experts;
  const ExpertShard shard = expert_shard(*model_, *training_, static_cast<int>(degree_));
  const double hidden = real(model_->hidden_size);
  ExpertWork work;
  // Every rank sends its share of the tokens; a rank with more experts than the mean gets more of them.
  work.sent_rows = tokens_ / real(degree_) * real(experts.router_topk);
  work.rows =
      work.sent_rows * real(shard.cut) * real(shard.experts) * shard.ranks / real(experts.num_experts);
  work.cut = shard.cut;
  work.columns = real(shard.columns);
  const double held = real(shard.experts);
  const double ups = model_->mlp_matrices() - 1;
  const auto grouped = [&](std::string_view name, double outputs, double inputs) {
    Projection part = projection(name, work.rows / held, outputs, inputs);
    part.shape.count = held;
    part.kernels = training_->moe_fused_grouped_mlp ? 1 : held;
    part.casts_input = part.casts_gradient = !training_->moe_fused_grouped_mlp;
    return part;
  };
  work.up = grouped("experts up", ups * work.columns, hidden);
  work.down = grouped("experts down", hidden, work.columns);
  work.permuted_s = efficiency_->gpu.dispatch * streamed_s(2 * kActivationBytes * work.rows * hidden);

  const std::int64_t ranks = training_->expert_model_parallel_size;
  const GroupSpan span = span_of(ranks, shard.cut, system_->domain_size);
  const bool flex = training_->moe_token_dispatcher == TokenDispatcher::kFlex;
  const double copies =
      flex ? distinct_ranks(real(ranks), real(experts.router_topk)) : real(experts.router_topk);
  work.exchanged_bytes = tokens_ / real(degree_) * copies * hidden * kActivationBytes;
  work.exchange_s = collectives_.all_to_all_s(work.exchanged_bytes, span);
  work.gathered_bytes = work.rows * hidden * kActivationBytes;
  work.gather_s = collectives_.all_gather_s(work.gathered_bytes, span_of(shard.cut, 1, system_->domain_size));
  return work;
}

/// Passes of the experts' activation over its output, forward; fused: reads its inputs and writes.
double LayerCost::activation_passes() const {
  const bool fused = training_->moe_fused_grouped_mlp || !model_->clamped_activation;
  return fused ? model_->mlp_matrices() : kClampedActivationPasses;
}

/// To the experts or back from them.
void LayerCost::exchange_tokens(Builder& to, std::string_view name, const ExpertWork& work) const {
  const std::int64_t ranks = training_->expert_model_parallel_size;
  if (training_->overlap_moe_expert_parallel_comm) {
    to.beside_all(Stream::kEp, name, work.exchange_s, work.exchanged_bytes, ranks);
  } else {
    to.exposed(Stream::kEp, name, work.exchange_s, work.exchanged_bytes, ranks);
  }
}

void LayerCost::forward_experts(Builder& to) const {
  const ExpertWork work = expert_work();
  const double hidden = real(model_->hidden_size);
  const bool flex = training_->moe_token_dispatcher == TokenDispatcher::kFlex;
  // Kernels that permute as they send save the passes of a permutation of their own.
  const double permuted_s = flex ? 0 : work.permuted_s;
  to.compute("norm", hidden_s(2), kNormKernels);
  to.compute("router",
             gemms_.forward_s({tokens_ / real(degree_), real(model_->experts->num_experts), hidden},
                              Precision::kBf16),
             kRouterKernels);
  to.dynamic_shapes(true);
  to.compute("permutation", permuted_s, kDispatchKernels);
  to.synchronize();
  exchange_tokens(to, "dispatch", work);
  to.exposed(Stream::kTp, "all-gather", work.gather_s, work.gathered_bytes, work.cut);
  to.compute("permutation", work.permuted_s, 2);
  to.forward(work.up);
  to.compute("activation", streamed_s(activation_passes() * kActivationBytes * work.rows * work.columns), 1);
  to.forward(work.down);
  to.compute("permutation", work.permuted_s, 2);
  to.exposed(Stream::kTp, "reduce-scatter", work.gather_s, work.gathered_bytes, work.cut);
  exchange_tokens(to, "combine", work);
  to.compute("permutation", permuted_s, 2);
  to.dynamic_shapes(false);
  to.compute("residual", hidden_s(3), 1);
}

void LayerCost::backward_experts(Builder& to) const {
  const ExpertWork work = expert_work();
  const double hidden = real(model_->hidden_size);
  const double ups = model_->mlp_matrices() - 1;
  const bool flex = training_->moe_token_dispatcher == TokenDispatcher::kFlex;
  const double permuted_s = flex ? 0 : work.permuted_s;
  const Gemm router{tokens_ / real(degree_), real(model_->experts->num_experts), hidden};
  to.compute("residual", hidden_s(2), 1);
  to.dynamic_shapes(true);
  to.compute("permutation", permuted_s, 2);
  exchange_tokens(to, "combine backward", work);
  to.exposed(Stream::kTp, "all-gather", work.gather_s, work.gathered_bytes, work.cut);
  to.compute("permutation", work.permuted_s, 2);
  to.backward(work.down);
  to.compute("activation",
             streamed_s((activation_passes() + ups) * kActivationBytes * work.rows * work.columns), 1);
  to.backward(work.up);
  to.compute("permutation", work.permuted_s, 2);
  to.exposed(Stream::kTp, "reduce-scatter", work.gather_s, work.gathered_bytes, work.cut);
  exchange_tokens(to, "dispatch backward", work);
  to.compute("permutation", permuted_s, 2);
  to.dynamic_shapes(false);
  to.compute(
      "router",
      gemms_.data_gradient_s(router, Precision::kBf16) + gemms_.weight_gradient_s(router, Precision::kBf16),
      kRouterKernels);
  to.compute("norm", hidden_s(4), kNormKernels);
}

/// Fully sharded weights are gathered beside the pass before they are needed, and their gradients reduced
/// beside the one after.
void LayerCost::shard_weights(Builder& to, LayerKind kind, bool and_reduce) const {
  if (!training_->use_fsdp) return;
  const RankWeights weights = layer_weights(*model_, *training_, kind, static_cast<int>(degree_));
  const ReplicaGroups groups = replica_groups(*training_, system_->domain_size);
  const auto add = [&](double count, GroupSpan span) {
    const double bytes = count * kActivationBytes;
    to.beside_all(Stream::kDp, "gather weights", collectives_.all_gather_s(bytes, span), bytes, span.size);
    if (!and_reduce) return;
    const double gradients = count * training_->gradient_bytes();
    to.beside_all(Stream::kDp, "reduce gradients", collectives_.reduce_scatter_s(gradients, span), gradients,
                  span.size);
  };
  if (weights.dense > 0) add(weights.dense, groups.dense);
  if (weights.experts > 0) add(weights.experts, groups.experts);
}

void LayerCost::forward_layer(Builder& to, LayerKind kind) const {
  shard_weights(to, kind, false);
  forward_attention(to, kind.windowed);
  if (const std::int64_t columns = mlp_columns(*model_, kind); columns > 0) {
    forward_mlp(to, real(plan::max_units(columns, degree_)));
  }
  if (kind.moe) forward_experts(to);
}

PassProgram LayerCost::forward(LayerKind kind) const {
  PassProgram program;
  Builder to(*this, program);
  forward_layer(to, kind);
  return program;
}

PassProgram LayerCost::backward(LayerKind kind, bool recomputed) const {
  PassProgram program;
  Builder to(*this, program);
  if (recomputed) forward_layer(to, kind);
  backward_layer(to, kind);
  return program;
}

void LayerCost::backward_layer(Builder& to, LayerKind kind) const {
  shard_weights(to, kind, true);
  if (kind.moe) backward_experts(to);
  if (const std::int64_t columns = mlp_columns(*model_, kind); columns > 0) {
    backward_mlp(to, real(plan::max_units(columns, degree_)));
  }
  backward_attention(to, kind.windowed);
}

PieceTime LayerCost::layer(LayerKind kind, bool recomputed) const {
  return {.forward = forward(kind).play(), .backward = backward(kind, recomputed).play()};
}

PassProgram LayerCost::embedding_forward() const {
  PassProgram program;
  Builder to(*this, program);
  to.compute("embedding", streamed_s(2 * bytes_of_tokens(real(model_->hidden_size))), 3);
  to.embedding_collective();
  return program;
}

PassProgram LayerCost::embedding_backward() const {
  PassProgram program;
  Builder to(*this, program);
  if (training_->sequence_parallel) to.embedding_collective();
  to.compute("embedding", streamed_s(4 * bytes_of_tokens(real(model_->hidden_size))), 3);
  return program;
}

PieceTime LayerCost::embedding() const {
  return {.forward = embedding_forward().play(), .backward = embedding_backward().play()};
}

namespace {

LayerKind last_kind(const TransformerSpec& model) {
  return kind_of(model, model.num_layers - 1);
}

}  // namespace

/// Logits and loss.
void LayerCost::forward_output(Builder& to) const {
  const double hidden = real(model_->hidden_size);
  const double rows = real(plan::max_units(model_->vocab_size, degree_));
  Projection logits = projection("output layer", tokens_, rows, hidden);
  logits.precision = Precision::kBf16;
  to.compute("norm", hidden_s(2), kNormKernels);
  to.forward_entry(logits, hidden);
  to.compute("cross entropy", streamed_s(kLogitBytes * tokens_ * rows), kLossKernels);
}

void LayerCost::backward_output(Builder& to) const {
  const double hidden = real(model_->hidden_size);
  const double rows = real(plan::max_units(model_->vocab_size, degree_));
  Projection logits = projection("output layer", tokens_, rows, hidden);
  logits.precision = Precision::kBf16;
  to.compute("cross entropy", streamed_s(kLogitBytes * tokens_ * rows), 2);
  to.backward_entry(logits, hidden);
  to.compute("norm", hidden_s(4), kNormKernels);
}

PassProgram LayerCost::output_forward() const {
  PassProgram program;
  Builder to(*this, program);
  forward_output(to);
  const double hidden = real(model_->hidden_size);
  for (std::int64_t extra = 0; extra < model_->mtp_num_layers; ++extra) {
    to.forward(projection("MTP projection", resident_tokens_, hidden, 2 * hidden));
    forward_layer(to, last_kind(*model_));
    forward_output(to);
  }
  return program;
}

PassProgram LayerCost::output_backward() const {
  PassProgram program;
  Builder to(*this, program);
  const double hidden = real(model_->hidden_size);
  for (std::int64_t extra = 0; extra < model_->mtp_num_layers; ++extra) {
    backward_output(to);
    backward_layer(to, last_kind(*model_));
    to.backward(projection("MTP projection", resident_tokens_, hidden, 2 * hidden));
  }
  backward_output(to);
  return program;
}

PieceTime LayerCost::output() const {
  return {.forward = output_forward().play(), .backward = output_backward().play()};
}

}  // namespace ntpsim::models
