#include "unstated_settings.h"

#include <algorithm>

#include "ntpsim/models/memory.h"

namespace ntpsim::analysis {
namespace {

using models::Precision;
using models::Recompute;
using models::TrainingSpec;
using models::TransformerSpec;

constexpr std::int64_t kMostChunks = 8;

bool says(const ThroughputRow& row, std::string_view what) {
  return row.source.find(what) != std::string::npos;
}

/// Does the source say that it does not state this setting?
bool leaves_open(const ThroughputRow& row, std::string_view setting) {
  return row.flops_convention.find("not stated") != std::string::npos &&
         row.flops_convention.find(setting) != std::string::npos;
}

/// What a run that is known to have worked may need by the memory model: GPUs named in GB hold as many GiB,
/// 7% more, and the model is held to 5%.
Bytes capacity_of(const models::SystemSpec& system) {
  constexpr double kSlack = 1.05;
  return Bytes(kSlack * system.gpu.memory.value());
}

bool fits(const TransformerSpec& model, const TrainingSpec& training, const models::SystemSpec& system) {
  return models::memory_per_gpu(model, training, static_cast<int>(training.tensor_model_parallel_size))
             .total() <= capacity_of(system);
}

/// As many chunks a rank as divide the layers evenly, the two ends of the model counted as a layer each or
/// not at all.
std::int64_t most_interleaving(const TransformerSpec& model, std::int64_t ranks) {
  if (ranks == 1) return 1;
  for (std::int64_t chunks = kMostChunks; chunks > 1; --chunks) {
    if (model.num_layers % (ranks * chunks) == 0 || (model.num_layers + 2) % (ranks * chunks) == 0)
      return chunks;
  }
  return 1;
}

/// The largest power of two that divides the local batch and fits memory.
std::int64_t largest_micro_batch(const TransformerSpec& model, TrainingSpec training,
                                 const models::SystemSpec& system) {
  training.micro_batch_size = 1;
  const std::int64_t local = training.local_batch();
  std::int64_t fitting = 1;
  for (std::int64_t size = 2; local % size == 0; size *= 2) {
    training.micro_batch_size = size;
    if (!fits(model, training, system)) break;
    fitting = size;
  }
  return fitting;
}

/// Software of the release: what Megatron Bridge's recipes of that time set (performance recipes and release
/// notes 0.5.1), as far as it depends on nothing but the container, the system and the model.
void set_moe_software(const ThroughputRow& row, const TransformerSpec& model,
                      const models::SystemSpec& system, TrainingSpec& training) {
  constexpr std::int64_t kServer = 8;
  const bool rack = system.domain_size > kServer;
  const bool graphs =
      container_of(row.source) >= std::vector<int>{26, 6} && rack && row.precision == Precision::kMxfp8;
  training.cuda_graphs = graphs ? models::CudaGraphs::kFullIteration : models::CudaGraphs::kScoped;
  training.overlap_moe_expert_parallel_comm = graphs;
  training.fp8_dot_product_attention = graphs;
  // The fused kernels of clamped activations are known to have regressed in these releases.
  training.moe_fused_grouped_mlp = graphs && !model.clamped_activation;
  training.moe_token_dispatcher = model.clamped_activation && !graphs ? models::TokenDispatcher::kAllToAll
                                                                      : models::TokenDispatcher::kFlex;
}

}  // namespace

models::TrainingSpec training_of(const ThroughputRow& row, const models::TransformerSpec& model,
                                 const models::SystemSpec& system) {
  const bool first_generation = models::generation_of(system.gpu) == models::GpuGeneration::kAmpere;
  const bool overlap = !first_generation && !says(row, "no overlap");
  TrainingSpec training;
  training.tensor_model_parallel_size = row.tp;
  training.pipeline_model_parallel_size = row.pp;
  training.context_parallel_size = row.cp;
  training.expert_model_parallel_size = row.ep;
  training.expert_tensor_parallel_size = row.etp.value_or(1);
  training.data_parallel_size = row.dp();
  training.global_batch_size = row.gbs;
  training.seq_length = row.seq;
  training.precision = row.precision;
  training.recompute_granularity = row.recompute.value_or(Recompute::kNone);
  training.fused_attention = !first_generation;
  training.sequence_parallel = row.tp > 1 && training.recompute_granularity != Recompute::kFull;
  training.tp_comm_overlap = overlap;
  training.overlap_grad_reduce = overlap;
  training.overlap_param_gather = overlap;
  training.use_distributed_optimizer = !first_generation;
  training.use_fsdp = row.fsdp > 1;
  training.grad_reduce_in_fp32 = container_of(row.source).empty();
  if (model.is_moe()) set_moe_software(row, model, system, training);

  const bool open_chunks = !row.vp || leaves_open(row, "vp");
  training.virtual_pipeline_model_parallel_size = open_chunks ? most_interleaving(model, row.pp) : *row.vp;
  const bool open_microbatch = !row.mbs || leaves_open(row, "mbs");
  training.micro_batch_size = open_microbatch ? 1 : *row.mbs;
  if (open_microbatch && row.pp == 1)
    training.micro_batch_size = largest_micro_batch(model, training, system);
  if (!row.recompute && !fits(model, training, system)) {
    if (const auto least = models::least_recompute(model, training, capacity_of(system))) {
      training.recompute_granularity = least->granularity;
      training.recompute_num_layers = least->num_layers;
    }
  }
  return training;
}

}  // namespace ntpsim::analysis
