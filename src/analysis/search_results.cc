#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/search.h"
#include "ntpsim/analysis/table.h"

#include "csv.h"
#include "json_head.h"
#include "text_format.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;
using Align = Table::Align;
using models::Recompute;
using models::TrainingSpec;
using sim::StepBreakdown;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

std::string_view granularity_name(Recompute granularity) {
  static constexpr std::array<std::string_view, 4> kNames = {"none", "selective", "block", "full"};
  return kNames.at(static_cast<std::size_t>(granularity));
}

/// "block 3": three layers of each model chunk.
std::string recompute_text(const TrainingSpec& training) {
  std::string text(granularity_name(training.recompute_granularity));
  if (training.recompute_granularity == Recompute::kBlock) {
    text += fmt::format(" {}", training.recompute_num_layers);
  }
  return text;
}

/// A part of the step that costs more than in another layout.
struct Loss {
  std::string_view title;
  double share = 0;  ///< of the other's step time
};

/// The largest first; what is too small to be shown is left out.
std::vector<Loss> losses(const StepBreakdown& step, const StepBreakdown& best) {
  constexpr double kLeastShown = 0.0005;
  std::vector<Loss> losses;
  for (const StepPart& part : step_parts()) {
    const double share = (step.*part.seconds - best.*part.seconds) / best.total_s();
    if (share >= kLeastShown) losses.push_back({part.title, share});
  }
  std::ranges::stable_sort(losses, std::ranges::greater(), &Loss::share);
  return losses;
}

/// "+3.1% bubble, +1.0% TP".
std::string losses_text(const StepBreakdown& step, const StepBreakdown& best) {
  std::vector<std::string> parts;
  for (const Loss& loss : losses(step, best)) {
    parts.push_back(fmt::format("+{:.1f}% {}", 100 * loss.share, loss.title));
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

// Text.

std::string head_text(const LayoutSearch& search, const scenario::Scenario& scenario) {
  const TrainingSpec& training = scenario.job.training;
  const models::SystemSpec& system = search.cluster.system;
  return fmt::format(
      "{}: {} {} GPUs in {} domains of {} ({}), training {}\n{} sequences of {} tokens a step, {}\n",
      scenario.name, grouped(search.cluster.gpus), system.gpu.name, grouped(search.cluster.domains()),
      system.domain_size, system.name, search.model.name, grouped(training.global_batch_size),
      grouped(training.seq_length), models::to_string(training.precision));
}

std::string counts_text(const LayoutSearch& search) {
  std::string text =
      fmt::format("{} layouts, {} of them fit", grouped(search.considered), grouped(search.priced));
  const char* separator = "; of the others, ";
  for (std::size_t i = 0; i < kRefusals; ++i) {
    if (search.refused.at(i) == 0) continue;
    text +=
        fmt::format("{}{} {}", separator, grouped(search.refused.at(i)), reason_of(static_cast<Refusal>(i)));
    separator = ", ";
  }
  return text + "\n";
}

/// Degrees of experts say nothing of a dense model.
bool is_shown(const LayoutSetting& setting, const LayoutSearch& search) {
  return search.model.is_moe() || (setting.title != "EP" && setting.title != "ETP");
}

std::string layouts_table(const LayoutSearch& search) {
  std::vector<Table::Column> columns = {{"#"}};
  for (const LayoutSetting& setting : layout_settings()) {
    if (is_shown(setting, search)) columns.push_back({std::string(setting.title)});
  }
  columns.insert(
      columns.end(),
      {{"recompute", Align::kLeft}, {"step"}, {"tokens/s/GPU"}, {"TFLOP/s/GPU"}, {"MFU"}, {"memory"}});
  Table table(std::move(columns));
  int rank = 0;
  for (const FoundLayout& layout : search.best) {
    std::vector<std::string> cells = {fmt::format("{}", ++rank)};
    for (const LayoutSetting& setting : layout_settings()) {
      if (is_shown(setting, search)) cells.push_back(grouped(layout.training.*setting.value));
    }
    cells.insert(
        cells.end(),
        {recompute_text(layout.training), fmt::format("{:.3f} s", layout.step.total_s()),
         fmt::format("{:.1f}", search.tokens_per_s_per_gpu(layout)),
         fmt::format("{:.0f}", search.model_flops_per_s_per_gpu(layout) / kTera), percent(search.mfu(layout)),
         fmt::format("{:.1f} GB", layout.memory.total().value() / kGiga)});
    table.add_row(std::move(cells));
  }
  return table.to_string();
}

std::string parts_table(const LayoutSearch& search) {
  std::vector<Table::Column> columns = {{"#"}};
  for (const StepPart& part : step_parts()) columns.push_back({std::string(part.title)});
  columns.push_back({"slower"});
  columns.push_back({"by", Align::kLeft});
  Table table(std::move(columns));
  const StepBreakdown& best = search.best.front().step;
  int rank = 0;
  for (const FoundLayout& layout : search.best) {
    const double total_s = layout.step.total_s();
    std::vector<std::string> cells = {fmt::format("{}", ++rank)};
    for (const StepPart& part : step_parts()) {
      cells.push_back(fmt::format("{:.1f}%", 100 * (layout.step.*part.seconds) / total_s));
    }
    cells.push_back(rank == 1 ? "" : percent(total_s / best.total_s() - 1));
    cells.push_back(rank == 1 ? "" : losses_text(layout.step, best));
    table.add_row(std::move(cells));
  }
  return table.to_string();
}

std::string search_text(const LayoutSearch& search, const scenario::LoadedScenario& loaded) {
  const std::string head = head_text(search, loaded.scenario) + counts_text(search);
  if (search.best.empty()) return head + "\nno layout fits\n";
  return head + "\n" + layouts_table(search) +
         "\nshares of the step; what costs more than in the first, in shares of its step:\n" +
         parts_table(search);
}

// JSON and CSV.

Json json_of(const models::MemoryBreakdown& memory) {
  return {{"total", memory.total().value()},           {"weights", memory.weights.value()},
          {"gradients", memory.gradients.value()},     {"optimizer", memory.optimizer.value()},
          {"activations", memory.activations.value()}, {"working", memory.working.value()},
          {"buffers", memory.buffers.value()}};
}

Json json_of(const LayoutSearch& search, const FoundLayout& layout) {
  Json training = Json::object();
  for (const LayoutSetting& setting : layout_settings())
    training[setting.key] = layout.training.*setting.value;
  training["sequence_parallel"] = layout.training.sequence_parallel;
  training["recompute_granularity"] = granularity_name(layout.training.recompute_granularity);
  training["recompute_num_layers"] = layout.training.recompute_num_layers;
  Json parts = Json::object();
  Json more = Json::object();
  const StepBreakdown& best = search.best.front().step;
  for (const StepPart& part : step_parts()) {
    parts[part.key] = layout.step.*part.seconds;
    more[part.key] = layout.step.*part.seconds - best.*part.seconds;
  }
  return {{"training", std::move(training)},
          {"step_time_s", layout.step.total_s()},
          {"estimated_step_time_s", layout.estimated_s},
          {"tokens_per_s_per_gpu", search.tokens_per_s_per_gpu(layout)},
          {"model_flop_per_s_per_gpu", search.model_flops_per_s_per_gpu(layout)},
          {"mfu", search.mfu(layout)},
          {"memory_bytes", json_of(layout.memory)},
          {"breakdown_s", std::move(parts)},
          {"more_than_best_s", std::move(more)}};
}

std::string search_json(const LayoutSearch& search, const scenario::LoadedScenario& loaded) {
  Json json = json_head(loaded);
  json["gpus"] = search.cluster.gpus;
  json["considered"] = search.considered;
  json["priced"] = search.priced;
  json["refused"] = Json::object();
  for (std::size_t i = 0; i < kRefusals; ++i) {
    json["refused"][name_of(static_cast<Refusal>(i))] = search.refused.at(i);
  }
  json["layouts"] = Json::array();
  for (const FoundLayout& layout : search.best) json["layouts"].push_back(json_of(search, layout));
  return json.dump(2) + "\n";
}

std::string number(double value) {
  return fmt::format("{}", value);
}

std::string search_csv(const LayoutSearch& search, const scenario::LoadedScenario& loaded) {
  std::vector<std::string> header = {"scenario", "gpus"};
  for (const LayoutSetting& setting : layout_settings()) header.emplace_back(setting.key);
  for (const char* name : {"recompute_granularity", "recompute_num_layers", "step_time_s",
                           "tokens_per_s_per_gpu", "model_flop_per_s_per_gpu", "mfu_ratio", "memory_bytes"}) {
    header.emplace_back(name);
  }
  for (const StepPart& part : step_parts()) header.emplace_back(part.key);
  std::string text = csv_line(header);
  for (const FoundLayout& layout : search.best) {
    std::vector<std::string> cells = {loaded.scenario.name, fmt::format("{}", search.cluster.gpus)};
    for (const LayoutSetting& setting : layout_settings()) {
      cells.push_back(fmt::format("{}", layout.training.*setting.value));
    }
    cells.emplace_back(granularity_name(layout.training.recompute_granularity));
    cells.push_back(fmt::format("{}", layout.training.recompute_num_layers));
    for (const double value :
         {layout.step.total_s(), search.tokens_per_s_per_gpu(layout),
          search.model_flops_per_s_per_gpu(layout), search.mfu(layout), layout.memory.total().value()}) {
      cells.push_back(number(value));
    }
    for (const StepPart& part : step_parts()) cells.push_back(number(layout.step.*part.seconds));
    text += csv_line(cells);
  }
  return text;
}

}  // namespace

std::span<const LayoutSetting> layout_settings() {
  static constexpr std::array kSettings = {
      LayoutSetting{"tensor_model_parallel_size", "TP", &TrainingSpec::tensor_model_parallel_size},
      LayoutSetting{"pipeline_model_parallel_size", "PP", &TrainingSpec::pipeline_model_parallel_size},
      LayoutSetting{"virtual_pipeline_model_parallel_size", "VP",
                    &TrainingSpec::virtual_pipeline_model_parallel_size},
      LayoutSetting{"context_parallel_size", "CP", &TrainingSpec::context_parallel_size},
      LayoutSetting{"expert_model_parallel_size", "EP", &TrainingSpec::expert_model_parallel_size},
      LayoutSetting{"expert_tensor_parallel_size", "ETP", &TrainingSpec::expert_tensor_parallel_size},
      LayoutSetting{"data_parallel_size", "DP", &TrainingSpec::data_parallel_size},
      LayoutSetting{"micro_batch_size", "MBS", &TrainingSpec::micro_batch_size},
  };
  return kSettings;
}

std::span<const StepPart> step_parts() {
  static constexpr std::array kParts = {
      StepPart{"compute_s", "compute", &StepBreakdown::compute_s},
      StepPart{"exposed_tp_s", "TP", &StepBreakdown::exposed_tp_s},
      StepPart{"exposed_cp_s", "CP", &StepBreakdown::exposed_cp_s},
      StepPart{"exposed_ep_s", "EP", &StepBreakdown::exposed_ep_s},
      StepPart{"exposed_pp_s", "PP", &StepBreakdown::exposed_pp_s},
      StepPart{"bubble_s", "bubble", &StepBreakdown::bubble_s},
      StepPart{"exposed_grad_sync_s", "sync", &StepBreakdown::exposed_grad_sync_s},
      StepPart{"optimizer_s", "optimizer", &StepBreakdown::optimizer_s},
  };
  return kParts;
}

std::string render(const LayoutSearch& search, const scenario::LoadedScenario& loaded, Format format) {
  switch (format) {
    case Format::kJson:
      return search_json(search, loaded);
    case Format::kCsv:
      return search_csv(search, loaded);
    case Format::kText:
      break;
  }
  return search_text(search, loaded);
}

}  // namespace ntpsim::analysis
