#include "sections.h"

#include <algorithm>

#include <fmt/format.h>

#include "ntpsim/sim/policy_table.h"

#include "model_limits.h"

namespace ntpsim::scenario {
namespace {

using models::GpuSpec;

constexpr std::int64_t kMaxReplications = 1'000'000;
constexpr double kYear = 365 * 86400.0;

Time whole_seconds(double seconds) {
  return Time::from_seconds(seconds);
}

Kind<std::int64_t> degree() {
  return whole_number(1, kMaxDegree);
}
Kind<Time> phase() {
  return time_span(Time(), whole_seconds(kYear));
}

// Hardware: wide enough for any, narrow enough that no step time overflows.
Kind<FlopRate> peak(bool or_zero) {
  return quantity<FlopRate>(Dimension::kFlopRate, {.min = 1e9, .max = 1e24, .or_zero = or_zero});
}
Kind<Bandwidth> bandwidth() {
  return quantity<Bandwidth>(Dimension::kBandwidth, {.min = 1e6, .max = 1e15});
}
Kind<Bytes> memory() {
  return quantity<Bytes>(Dimension::kBytes, {.min = 1e6, .max = 1e15});
}
Kind<Power> power() {
  return quantity<Power>(Dimension::kPower, {.min = 1, .max = 1e6});
}

// ---- cluster

const Section<models::PowerPoint>& power_point_section() {
  using T = models::PowerPoint;
  static const Section<T> section{
      "Power point",
      "One point of a GPU's speed against its power.",
      {{"power_fraction", &T::power_fraction, real_number({.min = 1, .max = 10}),
        "Power, as a fraction of TDP.", Example{1.1}},
       {"compute_speed", &T::compute_speed, real_number({.min = 1, .max = 10}),
        "Speed of compute-bound work, as a fraction of that at TDP.", Example{1.05}}}};
  return section;
}

bool is_power_curve(const std::vector<models::PowerPoint>& points) {
  if (points.empty()) return true;
  if (points.front() != models::PowerPoint{1, 1}) return false;
  return std::ranges::adjacent_find(points, [](const auto& a, const auto& b) {
           return b.power_fraction <= a.power_fraction || b.compute_speed <= a.compute_speed;
         }) == points.end();
}

Kind<models::PowerCurve> power_curve() {
  const auto points = list_of(object(power_point_section()), 0, 100);
  return {"a list of power points", points.schema,
          [points](const Json& json, const std::string& pointer, Reader& reader) {
            std::optional<models::PowerCurve> curve(std::in_place);
            const auto values = points.read(json, pointer, reader);
            if (!reader.good({pointer})) return curve;
            if (is_power_curve(*values)) {
              if (!values->empty()) curve = models::PowerCurve(*values);
            } else {
              reader.error(pointer,
                           "expected points that start at power_fraction 1 with compute_speed 1 and rise in "
                           "both");
            }
            return curve;
          },
          [points](const models::PowerCurve& curve) {
            return points.write({curve.points().begin(), curve.points().end()});
          }};
}

const Section<GpuSpec>& gpu_section() {
  const auto fraction = [] { return real_number({.min = 0.01, .max = 1}); };
  static const Section<GpuSpec> section{
      "GPU",
      "A kind of GPU that is not in the catalog. Peaks are dense, without structured sparsity.",
      {{"name", &GpuSpec::name, name_text(), "Name in results.", Default{"inline GPU"}},
       {"source", &GpuSpec::source, text(), "Where the figures come from.", Default{""}},
       {"peak_bf16", &GpuSpec::peak_bf16, peak(false), "Dense BF16 peak."},
       {"peak_fp8", &GpuSpec::peak_fp8, peak(true), "Dense FP8 peak; zero where there is none.",
        Default{"0 FLOP/s"}},
       {"peak_fp4", &GpuSpec::peak_fp4, peak(true), "Dense FP4 peak; zero where there is none.",
        Default{"0 FLOP/s"}},
       {"attainable", &GpuSpec::attainable, fraction(),
        "Best measured GEMM rate in BF16, as a fraction of the peak.", Default{0.8}},
       {"attainable_fp8", &GpuSpec::attainable_fp8, fraction(), "The same in FP8 and FP4.", Default{0.7}},
       {"memory", &GpuSpec::memory, memory(), "Memory of one GPU."},
       {"memory_bandwidth", &GpuSpec::memory_bandwidth, bandwidth(), "Memory bandwidth.",
        Example{"3.35 TB/s"}},
       {"tdp", &GpuSpec::tdp, power(), "Power at which the peaks hold."},
       {"power_curve", &GpuSpec::power_curve, power_curve(),
        "Speed above TDP, from (1, 1) upwards; a GPU without one cannot be boosted.", Default{Json::array()}},
       {"power_curve_source", &GpuSpec::power_curve_source, text(), "Where the power curve comes from.",
        Default{""}}}};
  return section;
}

Kind<GpuSpec> gpu() {
  const auto named = name_among("GPU", names_in(models::gpu_catalog()));
  const auto inlined = object(gpu_section());
  return {"a GPU of the catalog or an inline one", any_of({named.schema, inlined.schema}),
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<GpuSpec> {
            if (!json.is_string()) return inlined.read(json, pointer, reader);
            const auto name = named.read(json, pointer, reader);
            return name ? std::optional(*models::find_gpu(*name)) : std::nullopt;
          },
          inlined.write};
}

const Section<ClusterDoc>& cluster_section() {
  using T = ClusterDoc;
  const auto latency = [] { return time_span(Time(), whole_seconds(1)); };
  static const Section<T> section{
      "Cluster",
      "The machines: a system of the catalog, whose values the other keys may override, or an inline one.",
      {{"system", &T::system, name_among("system", names_in(models::system_catalog())),
        "A system of the catalog."},
       {"gpus", &T::gpus, whole_number(1, kMaxGpus),
        "GPUs of the cluster, a whole number of domains. Spare domains of policies come on top.",
        Example{16384}},
       {"name", &T::name, name_text(), "Name in results."},
       {"source", &T::source, text(), "Where the figures come from."},
       {"gpu", &T::gpu, gpu(), "A GPU of the catalog, or an inline one."},
       {"domain_size", &T::domain_size, degree(), "GPUs in one scale-up (NVLink) domain.", Example{72}},
       {"gpus_per_tray", &T::gpus_per_tray, degree(),
        "GPUs that leave service together with their tray (host). Inline default: domain_size.", Example{4}},
       {"nvlink_bandwidth", &T::nvlink_bandwidth, bandwidth(), "NVLink bandwidth of a GPU, one direction.",
        Example{"900 GB/s"}},
       {"nic_bandwidth", &T::nic_bandwidth, bandwidth(),
        "Network bandwidth of a GPU between domains, one direction.", Example{"400 Gbit/s"}},
       {"nvlink_latency", &T::nvlink_latency, latency(),
        "Latency of one step of a collective in a domain. Inline default: 1 us.", Example{"1 us"}},
       {"nic_latency", &T::nic_latency, latency(),
        "Latency of one step of a collective between domains. Inline default: 10 us.", Example{"10 us"}}},
      Json{{"anyOf",
            Json::array({Json{{"required", {"system"}}},
                         Json{{"required", {"gpu", "domain_size", "nvlink_bandwidth", "nic_bandwidth"}}}})}}};
  return section;
}

// ---- training

Kind<models::Precision> precision() {
  std::vector<std::pair<std::string_view, models::Precision>> options;
  for (const models::Precision each : models::all_precisions()) options.emplace_back(to_string(each), each);
  return choice<models::Precision>("precision", options);
}

const Section<TrainingDoc>& training_section() {
  using T = TrainingDoc;
  using models::CudaGraphs;
  using models::Recompute;
  using models::TokenDispatcher;
  static const Section<T> section{
      "Training",
      "How the job is cut over GPUs, under Megatron's names.",
      {{"tensor_model_parallel_size", &T::tensor_model_parallel_size, degree(), "GPUs of one TP group.",
        Default{1}},
       {"pipeline_model_parallel_size", &T::pipeline_model_parallel_size, degree(), "Pipeline stages.",
        Default{1}},
       {"virtual_pipeline_model_parallel_size", &T::virtual_pipeline_model_parallel_size, degree(),
        "Model chunks per pipeline rank.", Default{1}},
       {"context_parallel_size", &T::context_parallel_size, degree(), "TP groups that share a sequence.",
        Default{1}},
       {"expert_model_parallel_size", &T::expert_model_parallel_size, degree(),
        "GPUs over which the experts of a layer are spread.", Default{1}},
       {"expert_tensor_parallel_size", &T::given_expert_tensor_parallel_size, degree(),
        "GPUs that share one expert. Default: tensor_model_parallel_size for MoE models, as in Megatron."},
       {"data_parallel_size", &T::given_data_parallel_size, whole_number(1, kMaxGpus),
        "Replicas of the healthy job. Default: as many as the cluster holds."},
       {"micro_batch_size", &T::micro_batch_size, whole_number(1, kMaxSequences),
        "Sequences of one microbatch.", Default{1}},
       {"global_batch_size", &T::global_batch_size, whole_number(1, kMaxSequences),
        "Sequences of one step of the healthy job.", Example{2048}},
       {"seq_length", &T::seq_length, whole_number(1, kMaxSequences), "Tokens of one sequence.",
        Example{8192}},
       {"precision", &T::precision, precision(), "Number format of the GEMMs.", Default{"bf16"}},
       {"recompute_granularity", &T::recompute_granularity,
        choice<Recompute>("recomputation", {{"none", Recompute::kNone},
                                            {"selective", Recompute::kSelective},
                                            {"block", Recompute::kBlock},
                                            {"full", Recompute::kFull}}),
        "What the backward pass computes again: nothing, the attention core, the first recompute_num_layers "
        "of "
        "each model chunk, or all layers.",
        Default{"none"}},
       {"recompute_num_layers", &T::recompute_num_layers, whole_number(0, kMaxLayers),
        "Layers of each model chunk that are recomputed; with recompute_granularity block only.", Default{0}},
       {"decoder_first_pipeline_num_layers", &T::decoder_first_pipeline_num_layers,
        whole_number(0, kMaxLayers), "Layers of the first pipeline rank; 0: spread evenly.", Default{0}},
       {"decoder_last_pipeline_num_layers", &T::decoder_last_pipeline_num_layers, whole_number(0, kMaxLayers),
        "Layers of the last pipeline rank; 0: spread evenly.", Default{0}},
       {"fused_attention", &T::fused_attention, boolean(),
        "FlashAttention kind; otherwise the scores pass through memory.", Default{true}},
       {"sequence_parallel", &T::given_sequence_parallel, boolean(),
        "Activations between GEMMs are split over the TP group. Default: true when it has several GPUs."},
       {"tp_comm_overlap", &T::tp_comm_overlap, boolean(),
        "Collectives of sequence parallelism are hidden behind GEMMs where they fit.", Default{false}},
       {"overlap_grad_reduce", &T::overlap_grad_reduce, boolean(),
        "Gradient reduction is hidden behind the last backward pass.", Default{true}},
       {"overlap_param_gather", &T::given_overlap_param_gather, boolean(),
        "The distributed optimizer's parameter gather is hidden behind the next forward pass. Default: "
        "use_distributed_optimizer."},
       {"use_distributed_optimizer", &T::use_distributed_optimizer, boolean(),
        "The optimizer state is spread over the replicas.", Default{true}},
       {"grad_reduce_in_fp32", &T::grad_reduce_in_fp32, boolean(),
        "Gradients are kept and reduced in FP32, else in 16 bits.", Default{true}},
       {"use_fsdp", &T::use_fsdp, boolean(),
        "Weights and gradients are spread over the replicas, too; each layer's are gathered before its "
        "passes.",
        Default{false}},
       {"moe_token_dispatcher", &T::moe_token_dispatcher,
        choice<TokenDispatcher>("dispatcher",
                                {{"alltoall", TokenDispatcher::kAllToAll}, {"flex", TokenDispatcher::kFlex}}),
        "How tokens get to their experts: NCCL's all-to-all between permutations, or kernels that permute as "
        "they send (DeepEP, HybridEP).",
        Default{"flex"}},
       {"overlap_moe_expert_parallel_comm", &T::overlap_moe_expert_parallel_comm, boolean(),
        "The experts' all-to-all is hidden behind another microbatch's compute.", Default{false}},
       {"moe_fused_grouped_mlp", &T::moe_fused_grouped_mlp, boolean(),
        "Casts and activation of all experts are part of their grouped GEMMs.", Default{false}},
       {"cuda_graphs", &T::cuda_graphs,
        choice<CudaGraphs>("CUDA graphs", {{"none", CudaGraphs::kNone},
                                           {"scoped", CudaGraphs::kScoped},
                                           {"full_iteration", CudaGraphs::kFullIteration}}),
        "What is launched as a CUDA graph: nothing, what has static shapes, or the whole iteration.",
        Default{"none"}},
       {"fp8_dot_product_attention", &T::fp8_dot_product_attention, boolean(),
        "Attention's GEMMs run in 8 bits.", Default{false}}}};
  return section;
}

// ---- checkpoint, recovery, power

const Section<sim::CheckpointSpec>& checkpoint_section() {
  using T = sim::CheckpointSpec;
  static const Section<T> section{
      "Checkpoint",
      "Periodic checkpoints to durable storage.",
      {{"interval", &T::interval, time_span(whole_seconds(1), whole_seconds(kYear)),
        "Training time between two saves.", Default{"15 min"}},
       {"save", &T::save, phase(), "How long training stands still for one save.", Default{"5 s"}}}};
  return section;
}

const Section<sim::RecoverySpec>& recovery_section() {
  using T = sim::RecoverySpec;
  using sim::ElasticRestore;
  using sim::Rejoin;
  static const Section<T> section{
      "Recovery",
      "How long each phase of getting going again takes.",
      {{"detection", &T::detection, phase(), "From the failure until the job knows.", Default{"1 min"}},
       {"scheduling", &T::scheduling, phase(),
        "Cold restart: until the scheduler has started the job's processes.", Default{"1 min"}},
       {"restart", &T::restart, phase(), "Cold restart: process start, NCCL init, model build.",
        Default{"3 min"}},
       {"in_job_restart", &T::in_job_restart, phase(), "The same for processes that stay alive or stand by.",
        Default{"1 min"}},
       {"restore", &T::restore, phase(), "Load of a checkpoint.", Default{"1 min"}},
       {"reconfigure", &T::reconfigure, phase(), "Elastic policies: communicators rebuilt.", Default{"30 s"}},
       {"reshard", &T::reshard, phase(), "Elastic policies: state moved to its new owners.", Default{"10 s"}},
       {"elastic_restore", &T::elastic_restore,
        choice<ElasticRestore>(
            "source", {{"peers", ElasticRestore::kPeers}, {"checkpoint", ElasticRestore::kCheckpoint}}),
        "Where elastic policies get their state from: the memory of other replicas, or the last checkpoint.",
        Default{"peers"}},
       {"rejoin", &T::rejoin,
        choice<Rejoin>("rejoin rule", {{"auto", Rejoin::kAuto},
                                       {"immediate", Rejoin::kImmediate},
                                       {"next_interruption", Rejoin::kNextInterruption}}),
        "When repaired capacity is taken in: when it pays, at once, or at the next interruption.",
        Default{"auto"}}}};
  return section;
}

const Section<PowerDoc>& power_section() {
  static const Section<PowerDoc> section{
      "Power",
      "Power above TDP.",
      {{"boost_limit", &PowerDoc::boost_limit, real_number({.min = 1, .max = 10}),
        "Most power of a boosted GPU, as a fraction of TDP. Default: 1.3, or the end of the GPU's power "
        "curve "
        "if that comes first; 1 without a curve.",
        Example{1.3}}}};
  return section;
}

// ---- policies

Kind<std::string> policy_name() {
  return name_among("policy", names_in(sim::policy_table()));
}

const Section<PolicyDoc>& policy_section() {
  using T = PolicyDoc;
  static const Section<T> section{
      "Policy",
      "A way of coping with failures, configured.",
      {{"name", &T::name, policy_name(), "A policy, as `ntpsim list policies` names it."},
       {"label", &T::label, name_text(), "Name in results, unique. Default: the name.", Example{"ntp+16"}},
       {"spare_domains", &T::spare_domains, whole_number(0, kMaxGpus),
        "Domains that stand by, on top of the cluster.", Default{0}},
       {"reduced_degrees", &T::reduced_degrees, list_of(degree(), 1, kMaxReducedDegrees),
        "TP degrees that a hurt replica may run at. NTP policies only. Default: down to 7/8 of "
        "tensor_model_parallel_size, at most 64 of them.",
        Example{Json::array({30, 28})}}}};
  return section;
}

Kind<PolicyDoc> policy() {
  const auto named = policy_name();
  const auto configured = object(policy_section());
  return {"a policy", any_of({named.schema, configured.schema}),
          [=](const Json& json, const std::string& pointer, Reader& reader) -> std::optional<PolicyDoc> {
            if (!json.is_string()) return configured.read(json, pointer, reader);
            // Kept when the name is wrong, so that the policies after it keep their index.
            PolicyDoc doc;
            doc.name = named.read(json, pointer, reader).value_or("");
            return doc;
          },
          configured.write};
}

}  // namespace

const Section<ScenarioDoc>& scenario_section() {
  using T = ScenarioDoc;
  using sim::Minibatch;
  static const Section<T> section{
      "ntpsim scenario",
      "A cluster, a training job on it, how the cluster fails, and the ways of coping to compare. Quantities "
      "are text with units.",
      {{"$schema", &T::schema, text(), "This schema, for editors."},
       {"name", &T::name, name_text(), "Name in results.", Default{"unnamed"}},
       {"description", &T::description, text(), "What the scenario stands for.", Default{""}},
       {"cluster", &T::cluster, object(cluster_section()), "The machines."},
       {"model", &T::model, model_kind(),
        "The model: a name of the catalog, the path of a Hugging Face config.json relative to this file, or "
        "an "
        "inline one."},
       {"training", &T::training, object(training_section()), "How the job is cut over GPUs."},
       {"failures", &T::failures, object(failures_section()), "How the cluster fails.",
        Default{Json::object()}},
       {"checkpoint", &T::checkpoint, object(checkpoint_section()), "Periodic checkpoints.",
        Default{Json::object()}},
       {"recovery", &T::recovery, object(recovery_section()), "Phases of getting going again.",
        Default{Json::object()}},
       {"power", &T::power, object(power_section()), "Power above TDP.", Default{Json::object()}},
       {"minibatch", &T::minibatch,
        choice<Minibatch>("minibatch rule", {{"elastic", Minibatch::kElastic}, {"fixed", Minibatch::kFixed}}),
        "May a step train on fewer sequences than the global batch? fixed: the job pauses instead.",
        Default{"elastic"}},
       {"policies", &T::policies, list_of(policy(), 1, kMaxPolicies), "The ways of coping to compare."},
       {"horizon", &T::horizon, time_span(whole_seconds(1), whole_seconds(100 * kYear)), "Simulated time.",
        Example{"15 d"}},
       {"replications", &T::replications, whole_number(1, kMaxReplications), "Independent repetitions.",
        Default{100}},
       {"seed", &T::seed, word(), "Seed of the random numbers, up to 2^64-1.", Default{1}}}};
  return section;
}

}  // namespace ntpsim::scenario
