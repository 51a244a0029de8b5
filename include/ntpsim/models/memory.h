#pragma once

#include <cstdint>
#include <optional>

#include "ntpsim/core/quantity.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// Bytes that a GPU holds at the moment of a step when it holds most, on the fullest rank of a tensor-parallel
// (TP) group that may run below its size. What PyTorch's allocator hands out; the CUDA context, NCCL's
// buffers and fragmentation come on top (see `least_recompute`).
//
// State, per weight: 2 bytes, an FP32 gradient of 4, FP32 master weight and Adam's two moments of 12, the
// last over all ranks that hold the same weight with a distributed optimizer. With FSDP all of it is sharded
// so; two units (a layer, or a vocabulary matrix) of gathered weights and one of gradients are in work. Norms
// and biases are left out (under 0.1%). Weights of 8 bits with their transposes take 2 bytes, too.
//
// Activations of one layer and microbatch. With t tokens of a context-parallel rank, r of them resident
// between blocks (t / degree with sequence parallelism, else t), e bytes of a GEMM operand (2, or less in
// FP8), a heads and g groups of the rank, f columns of the rank, u up projections:
//   norms:
//     2 * 2 h r inputs, 2 * e h r outputs, which the GEMMs read
//   attention:
//     2 t d (a + 2 g) queries, keys and values, 2 t a d_v output (e t a d_v more where e < 2; once more with
//     context parallelism, before and after the exchange of heads), 4 t a log-sum-exp; unfused, 5 t s a for
//     softmax, dropout mask and output. Latent attention keeps 2 t a (2 d_qk + d_v), and of the compressed
//     query and key/value (2 + e) r (q + c).
//   dense MLP:
//     t f (2 u + e)
//   experts:
//     n (e h + f (2 u + e)) with n the rows dispatched to the rank, balanced over experts; 16-bit norm output
//     for the router, FP32 logits, scores and probabilities of it; shared experts as a dense MLP
//   dropout masks, with unfused attention only (GPT models before FlashAttention): 2 h r.
// For such a GPT this is s b h (34 + 5 a s / h) / t of Korthikanti et al. 2022 (arXiv 2205.05198), table 2,
// and s b h (10 + 24 / t + 5 a s / (h t)) without sequence parallelism. Selective recomputation keeps neither
// scores nor log-sum-exp. A layer recomputed whole keeps its input, 2 h r.
//
// Multi-token prediction adds layers like the last one to the last stage, each with the inputs and outputs of
// two more norms and logits of its own; they share a copy of the embedding there.
//
// In flight: min(m, p - i) microbatches at stage i of p (1F1B). Interleaved, (p - i - 1) 2 + (v - 1) p + 1
// chunk passes, p of each chunk in turn, as in Megatron's schedule; one more with overlapped expert
// communication.
//
// In work, the larger of
//   output layer (last stage):
//     logits (2 bytes, the fused cross entropy turns them into their gradient in place; 6 in models with
//     unfused kernels: FP32 softmax and a 16-bit gradient), the norm's input and output, the gathered output,
//     its gradient before and after the reduce-scatter
//   an MLP's backward pass: gradients of its output, of its activation's output and input, less the output
//     that has been used up; on top of a recomputed layer's own activations where layers are recomputed.
//
// Buffers: Transformer Engine keeps a 16-bit stand-in gradient of every distinct weight shape where gradients
// are accumulated in the GEMM (not with FSDP), and cuBLAS workspaces of PyTorch's and of its own, 32 MiB
// each.
//
// No number is fitted. tests/validation/memory_test.cc prints the error of each point:
//   Korthikanti et al. 2022, 4 GPTs: state and activations exact, but +1.45% where our stage has its
//   embedding; B200, dense, peak of PyTorch's allocator, 16 rows by which the tensors kept were told: 0.05%,
//   at worst 0.15%; 7 further rows: 0.04%, at worst 0.11%; 4 of MoE with latent attention: all 0.6 to 0.8%
//   low.
// No measured peak covers 8-bit formats, FSDP, recomputation, uneven chunks or interleaving beyond
// Korthikanti's. Chunks of unequal size are counted as they are in flight at the end of the warm-up.
//
// Not in it: tensors offloaded to the host, gradients or optimizer states in fewer bits, parts of a layer
// other than attention recomputed, CUDA graphs, uneven loads of experts.

namespace ntpsim::models {

/// What a GPU holds at the moment of a step when it holds most.
struct MemoryBreakdown {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  ///< kept for the backward pass, of all microbatches in flight
  Bytes working;      ///< what the pass in progress needs on top: recomputed layer, logits, gathered weights
  Bytes buffers;      ///< of libraries

  [[nodiscard]] Bytes total() const;
};

/// Of a rank of pipeline stage `stage` (0 is the first) whose TP group runs at `degree`. O(p v).
/// REQUIRES: 1 <= degree <= tensor_model_parallel_size; a stage of the pipeline.
[[nodiscard]] MemoryBreakdown stage_memory(const TransformerSpec& model, const TrainingSpec& training,
                                           int degree, std::int64_t stage);

/// Of the stage that holds most. O(p v): all stages share what their layers hold.
[[nodiscard]] MemoryBreakdown memory_per_gpu(const TransformerSpec& model, const TrainingSpec& training,
                                             int degree);

/// How much is recomputed.
struct RecomputeChoice {
  Recompute granularity = Recompute::kNone;
  std::int64_t num_layers = 0;  ///< of each model chunk; with kBlock only

  bool operator==(const RecomputeChoice&) const = default;
};

/// The least recomputation with which every stage fits into `capacity` at the job's TP size: none, attention,
/// whole layers of each chunk from one up, all; nothing if not even that fits. What `training` says of
/// recomputation is not looked at.
///
/// A GPU's nominal size serves as capacity: where it is stated in GB of 1e9 bytes and built in GiB, 7% are
/// left for the CUDA context, NCCL and fragmentation (an 80 GB H100 reports 81,559 MiB, 85.5e9 bytes).
[[nodiscard]] std::optional<RecomputeChoice> least_recompute(const TransformerSpec& model,
                                                             const TrainingSpec& training, Bytes capacity);

}  // namespace ntpsim::models
