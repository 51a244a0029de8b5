#include "run_check.h"

#include <numeric>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"

namespace ntpsim::analysis {
namespace {

constexpr std::int64_t kMostTokens = 1'000'000'000'000'000;  // of a step

class RunCheck {
 public:
  RunCheck(const MeasuredRun& run, const RunProblem& problem)
      : row_(run.stated), model_(run.model), system_(run.system), problem_(problem) {}

  void check() const {
    check_precision();
    check_degrees();
    check_pipeline();
    check_experts();
    check_replicas();
    if (row_.seq % row_.cp != 0) {
      problem_("seq", fmt::format("found {}, expected a multiple of cp, which is {}", row_.seq, row_.cp));
    }
    if (row_.gbs > kMostTokens / row_.seq) {
      problem_("gbs",
               fmt::format("{} x {} tokens in a step, expected at most {}", row_.gbs, row_.seq, kMostTokens));
    }
  }

 private:
  void check_precision() const {
    if (system_.gpu.peak(row_.precision)) return;
    problem_("precision", fmt::format("found {}, which the GPUs of {} do not have",
                                      models::to_string(row_.precision), system_.name));
  }

  void at_most(std::string_view column, std::int64_t value, std::int64_t limit, std::string_view what) const {
    if (value > limit) problem_(column, fmt::format("found {}, expected at most {}, {}", value, limit, what));
  }

  void check_degrees() const {
    at_most("tp", row_.tp, system_.domain_size,
            fmt::format("the GPUs of a domain of {}: a TP group stays within one", system_.name));
    at_most("tp", row_.tp, model_.num_attention_heads, "the attention heads of " + model_.name);
    if (model_.moe_layers() < model_.num_layers) {
      at_most("tp", row_.tp, model_.ffn_hidden_size, "the FFN width of " + model_.name);
    }
    if (model_.experts && model_.experts->shared_expert_intermediate_size > 0) {
      at_most("tp", row_.tp, model_.experts->shared_expert_intermediate_size,
              "the width of the shared experts of " + model_.name);
    }
  }

  void check_pipeline() const {
    const std::int64_t chunks_per_rank = row_.vp.value_or(1);
    if (chunks_per_rank > 1 && row_.pp == 1) {
      problem_("vp", fmt::format("found {}, but an interleaved pipeline needs pp above 1", chunks_per_rank));
    }
    // The embedding and the output take the place of a layer each in balanced pipelines.
    const std::int64_t places = model_.num_layers + 2;
    if (row_.pp > places) {
      at_most("pp", row_.pp, places, fmt::format("the layers of {} with embedding and output", model_.name));
    } else if (chunks_per_rank > places / row_.pp) {
      problem_("vp", fmt::format("pp x vp = {} x {} chunks are more than the {} layers of {} with embedding "
                                 "and output",
                                 row_.pp, chunks_per_rank, model_.num_layers, model_.name));
    }
  }

  void check_experts() const {
    const std::int64_t expert_tp = row_.etp.value_or(1);
    if (!model_.experts) {
      if (row_.ep > 1) problem_("ep", fmt::format("found {}, but {} has no experts", row_.ep, model_.name));
      if (expert_tp > 1) {
        problem_("etp", fmt::format("found {}, but {} has no experts", expert_tp, model_.name));
      }
      return;
    }
    if (model_.experts->num_experts % row_.ep != 0) {
      problem_("ep", fmt::format("found {}, expected a divisor of the {} experts of {}", row_.ep,
                                 model_.experts->num_experts, model_.name));
    }
    at_most("etp", expert_tp, model_.experts->ffn_hidden_size, "the width of an expert of " + model_.name);
  }

  void check_replicas() const {
    if (row_.gpus_per_replica() > row_.gpus || row_.gpus % row_.gpus_per_replica() != 0) {
      problem_("gpus", fmt::format("found {}, expected a multiple of tp x pp x cp = {} x {} x {}", row_.gpus,
                                   row_.tp, row_.pp, row_.cp));
      return;
    }
    const std::int64_t microbatch = row_.mbs.value_or(1);
    if (row_.gbs % row_.dp() != 0 || row_.gbs / row_.dp() % microbatch != 0) {
      problem_("gbs", fmt::format("found {}, expected a multiple of mbs x gpus / (tp x pp x cp) = {} x {}",
                                  row_.gbs, microbatch, row_.dp()));
    }
    const std::int64_t stage_ranks = row_.tp * row_.cp;
    const std::int64_t together = std::lcm(row_.ep * row_.etp.value_or(1), stage_ranks) / stage_ranks;
    invariant(together > 0, "degrees are positive");
    if (row_.dp() % together != 0) {
      problem_("ep", fmt::format("an expert-parallel group of {} x {} GPUs spans {} replicas, which does not "
                                 "divide the {} replicas",
                                 row_.ep, row_.etp.value_or(1), together, row_.dp()));
    }
    if (row_.fsdp > 1 && row_.dp() * row_.cp % row_.fsdp != 0) {
      problem_("fsdp", fmt::format("found {}, expected a divisor of the {} data- and context-parallel ranks",
                                   row_.fsdp, row_.dp() * row_.cp));
    }
  }

  const ThroughputRow& row_;
  const models::TransformerSpec& model_;
  const models::SystemSpec& system_;
  const RunProblem& problem_;
};

}  // namespace

void check_run(const MeasuredRun& run, const RunProblem& problem) {
  RunCheck(run, problem).check();
}

}  // namespace ntpsim::analysis
