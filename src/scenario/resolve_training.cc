#include <algorithm>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"

#include "resolve.h"

namespace ntpsim::scenario {
namespace {

using models::TrainingSpec;
using models::TransformerSpec;

constexpr const char* kTp = "/training/tensor_model_parallel_size";
constexpr const char* kPp = "/training/pipeline_model_parallel_size";
constexpr const char* kVp = "/training/virtual_pipeline_model_parallel_size";
constexpr const char* kCp = "/training/context_parallel_size";
constexpr const char* kEp = "/training/expert_model_parallel_size";
constexpr const char* kEtp = "/training/expert_tensor_parallel_size";
constexpr const char* kDp = "/training/data_parallel_size";
constexpr const char* kMicroBatch = "/training/micro_batch_size";
constexpr const char* kGlobalBatch = "/training/global_batch_size";
constexpr const char* kSeqLength = "/training/seq_length";
constexpr const char* kFirstLayers = "/training/decoder_first_pipeline_num_layers";
constexpr const char* kLastLayers = "/training/decoder_last_pipeline_num_layers";
constexpr const char* kRecompute = "/training/recompute_granularity";
constexpr const char* kRecomputed = "/training/recompute_num_layers";
constexpr const char* kModel = "/model";

// The check of one parallel job against one cluster and model. Each check is made only when all the values it
// needs can be relied on.
class TrainingCheck {
 public:
  TrainingCheck(const sim::ClusterSpec& cluster, const TransformerSpec& model, TrainingSpec& training,
                Reader& reader)
      : cluster_(cluster), model_(model), training_(training), reader_(reader) {}

  /// The degrees that do not depend on the number of replicas.
  void check_degrees() {
    if (cluster_known() && reader_.good({kTp}) &&
        training_.tensor_model_parallel_size > cluster_.system.domain_size) {
      error(kTp, fmt::format("found {}, expected at most domain_size {}: a TP group stays within one domain",
                             training_.tensor_model_parallel_size, cluster_.system.domain_size));
    }
    check_against_model();
    const std::int64_t virtual_stages = training_.virtual_pipeline_model_parallel_size;
    if (reader_.good({kVp, kPp}) && virtual_stages > 1 && training_.pipeline_model_parallel_size == 1) {
      error(kVp, fmt::format("found {}, but an interleaved pipeline needs "
                             "pipeline_model_parallel_size above 1",
                             virtual_stages));
    }
    if (reader_.good({kSeqLength, kCp}) && training_.seq_length % training_.context_parallel_size != 0) {
      error(kSeqLength, fmt::format("found {}, expected a multiple of context_parallel_size {}{}",
                                    training_.seq_length, training_.context_parallel_size,
                                    nearest_multiples(training_.seq_length, training_.context_parallel_size,
                                                      kMaxSequences)));
    }
  }

  /// Layers that the ends of the pipeline are given, and recomputed ones.
  void check_layers() {
    if (!reader_.good({kModel, kPp, kFirstLayers, kLastLayers})) return;
    const std::int64_t first = training_.decoder_first_pipeline_num_layers;
    const std::int64_t last = training_.decoder_last_pipeline_num_layers;
    const std::int64_t ranks = training_.pipeline_model_parallel_size;
    const char* pointer = first > 0 ? kFirstLayers : kLastLayers;
    if (first + last == 0) return;
    if (ranks == 1) {
      error(pointer, "expected none: pipeline_model_parallel_size is 1");
    } else if (first + last > model_.num_layers) {
      error(pointer, fmt::format("the ends of the pipeline are given {} + {} layers, but {} has {}", first,
                                 last, model_.name, model_.num_layers));
    } else if (ranks == 2 && first > 0 && last > 0 && first + last != model_.num_layers) {
      error(pointer, fmt::format("two pipeline ranks are given {} + {} layers, but {} has {}", first, last,
                                 model_.name, model_.num_layers));
    }
  }

  void check_recomputation() {
    if (!reader_.good({kRecompute, kRecomputed})) return;
    const bool block = training_.recompute_granularity == models::Recompute::kBlock;
    if (block && training_.recompute_num_layers == 0) {
      error(kRecompute, "block recomputation needs recompute_num_layers of at least 1");
    }
  }

  /// Sets data_parallel_size to `given`, or to what the cluster holds. False when it cannot be told.
  bool resolve_replicas(std::optional<std::int64_t> given) {
    if (!cluster_known() || !reader_.good({"/cluster/gpus", kTp, kPp, kCp, kDp})) return false;
    const std::int64_t groups_per_domain = cluster_.system.domain_size / training_.tensor_model_parallel_size;
    const std::int64_t groups = cluster_.domains() * groups_per_domain;
    const std::int64_t per_replica = training_.pipeline_model_parallel_size * training_.context_parallel_size;
    if (given) return take_given(*given, groups, per_replica);
    if (groups % per_replica != 0 || groups == 0) {
      report_indivisible(groups, groups_per_domain, per_replica);
      return false;
    }
    training_.data_parallel_size = groups / per_replica;
    return true;
  }

  /// The batch. Without knowing the number of replicas, microbatches must divide it all the same.
  void check_batch(bool replicas_known) {
    if (!reader_.good({kMicroBatch, kGlobalBatch})) return;
    check_tokens();
    const std::int64_t replicas = replicas_known ? training_.data_parallel_size : 1;
    const std::int64_t step = training_.micro_batch_size * replicas;
    if (training_.global_batch_size % step == 0) return;
    error(kGlobalBatch,
          fmt::format("found {}, expected a multiple of micro_batch_size{} = {}{}{}",
                      training_.global_batch_size, replicas_known ? " x data_parallel_size" : "",
                      training_.micro_batch_size, replicas_known ? fmt::format(" x {}", replicas) : "",
                      nearest_multiples(training_.global_batch_size, step, kMaxSequences)));
  }

  /// Expert-parallel groups, which may span replicas.
  void check_expert_groups() {
    if (!reader_.good({kEp, kEtp, kTp, kCp})) return;
    const std::int64_t together = training_.replicas_per_expert_group();
    invariant(together > 0, "degrees are positive");
    if (training_.data_parallel_size % together == 0) return;
    error(kEp,
          fmt::format("an expert-parallel group of {} x {} GPUs spans {} replicas, which does not divide "
                      "data_parallel_size {}",
                      training_.expert_model_parallel_size, training_.expert_tensor_parallel_size, together,
                      training_.data_parallel_size));
  }

  void check_experts() {
    if (!reader_.good({kModel, kEp, kEtp})) return;
    const std::int64_t ranks = training_.expert_model_parallel_size;
    if (!model_.experts) {
      if (ranks > 1)
        error(kEp, fmt::format("found {}, but {} has no experts: expected 1", ranks, model_.name));
      return;
    }
    const TransformerSpec::Experts& experts = *model_.experts;
    if (experts.num_experts % ranks != 0) {
      error(kEp, fmt::format("found {}, expected a divisor of the {} experts of {}", ranks,
                             experts.num_experts, model_.name));
    }
    at_most(kEtp, training_.expert_tensor_parallel_size, "width of an expert", experts.ffn_hidden_size);
  }

 private:
  void check_tokens() {
    constexpr std::int64_t kMostTokens = 1'000'000'000'000'000;
    const std::int64_t tokens = training_.global_batch_size * training_.seq_length;
    if (!reader_.good({kSeqLength}) || tokens <= kMostTokens) return;
    error(training_.global_batch_size > training_.seq_length ? kGlobalBatch : kSeqLength,
          fmt::format("global_batch_size x seq_length = {} x {} tokens in a step, expected at most {}",
                      training_.global_batch_size, training_.seq_length, kMostTokens));
  }

  [[nodiscard]] bool cluster_known() const {
    return reader_.good({"/cluster/system", "/cluster/domain_size"});
  }

  void error(const char* pointer, std::string message) { reader_.error(pointer, std::move(message)); }

  void at_most(const char* pointer, std::int64_t value, std::string_view what, std::int64_t limit) {
    if (value <= limit) return;
    error(pointer,
          fmt::format("found {}, expected at most {}, the {} of {}", value, limit, what, model_.name));
  }

  void check_against_model() {
    if (!reader_.good({kModel})) return;
    if (reader_.good({kTp})) {
      const std::int64_t ranks = training_.tensor_model_parallel_size;
      at_most(kTp, ranks, "number of attention heads", model_.num_attention_heads);
      if (model_.moe_layers() < model_.num_layers) at_most(kTp, ranks, "FFN width", model_.ffn_hidden_size);
      if (model_.experts && model_.experts->shared_expert_intermediate_size > 0) {
        at_most(kTp, ranks, "width of the shared experts", model_.experts->shared_expert_intermediate_size);
      }
    }
    // The embedding and the output take the place of a layer each in balanced pipelines (Llama 3 report,
    // section 3.3.2: 126 layers on 16 x 8 chunks).
    const std::int64_t places = model_.num_layers + 2;
    const std::int64_t chunks =
        training_.pipeline_model_parallel_size * training_.virtual_pipeline_model_parallel_size;
    if (reader_.good({kPp, kVp}) && chunks > places) {
      error(training_.pipeline_model_parallel_size > places ? kPp : kVp,
            fmt::format(
                "pipeline x virtual pipeline = {} x {} chunks are more than the {} layers of {} with its "
                "embedding and output",
                training_.pipeline_model_parallel_size, training_.virtual_pipeline_model_parallel_size,
                model_.num_layers, model_.name));
    }
  }

  bool take_given(std::int64_t given, std::int64_t groups, std::int64_t per_replica) {
    training_.data_parallel_size = given;
    if (given <= groups / per_replica) return true;
    error(kDp, fmt::format("found {}, but {} GPUs hold only {} replicas of TP x PP x CP = {} GPUs", given,
                           cluster_.gpus, groups / per_replica, replica_text()));
    return false;
  }

  void report_indivisible(std::int64_t groups, std::int64_t groups_per_domain, std::int64_t per_replica) {
    const std::int64_t step =
        per_replica / std::gcd(groups_per_domain, per_replica) * cluster_.system.domain_size;
    error(
        "/cluster/gpus",
        fmt::format(
            "{} GPUs hold {} TP groups, {} in each domain of {}, which do not divide into replicas of "
            "TP x PP x CP = {} GPUs; expected a multiple of {} GPUs{} (or give /training/data_parallel_size)",
            cluster_.gpus, groups, groups_per_domain, cluster_.system.domain_size, replica_text(), step,
            nearest_multiples(cluster_.gpus, step, kMaxGpus)));
  }

  [[nodiscard]] std::string replica_text() const {
    return fmt::format("{} x {} x {}", training_.tensor_model_parallel_size,
                       training_.pipeline_model_parallel_size, training_.context_parallel_size);
  }

  const sim::ClusterSpec& cluster_;
  const TransformerSpec& model_;
  TrainingSpec& training_;
  Reader& reader_;
};

}  // namespace

TrainingSpec resolve_training(const TrainingDoc& doc, const sim::ClusterSpec& cluster,
                              const TransformerSpec& model, Reader& reader) {
  auto training = static_cast<const TrainingSpec&>(doc);
  training.expert_tensor_parallel_size = doc.given_expert_tensor_parallel_size.value_or(
      model.is_moe() ? training.tensor_model_parallel_size : 1);
  training.sequence_parallel = doc.given_sequence_parallel.value_or(training.tensor_model_parallel_size > 1);
  training.overlap_param_gather = doc.given_overlap_param_gather.value_or(training.use_distributed_optimizer);
  TrainingCheck check(cluster, model, training, reader);
  check.check_degrees();
  check.check_experts();
  check.check_layers();
  check.check_recomputation();
  const bool replicas_known = check.resolve_replicas(doc.given_data_parallel_size);
  check.check_batch(replicas_known);
  if (replicas_known) check.check_expert_groups();
  return training;
}

}  // namespace ntpsim::scenario
