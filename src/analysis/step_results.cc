#include "ntpsim/analysis/step_results.h"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/table.h"

#include "csv.h"
#include "json_head.h"
#include "text_format.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;
using Align = Table::Align;

struct Part {
  const char* key;
  const char* name;
  double seconds;
};

std::array<Part, 8> parts_of(const sim::StepBreakdown& step) {
  return {{{"compute_s", "compute", step.compute_s},
           {"exposed_tp_s", "exposed tensor-parallel communication", step.exposed_tp_s},
           {"exposed_cp_s", "exposed context-parallel communication", step.exposed_cp_s},
           {"exposed_ep_s", "exposed expert-parallel communication", step.exposed_ep_s},
           {"exposed_pp_s", "exposed pipeline sends", step.exposed_pp_s},
           {"bubble_s", "pipeline bubble", step.bubble_s},
           {"exposed_grad_sync_s", "exposed gradient sync and parameter gather", step.exposed_grad_sync_s},
           {"optimizer_s", "optimizer", step.optimizer_s}}};
}

std::array<std::pair<const char*, Bytes>, 6> parts_of(const models::MemoryBreakdown& memory) {
  return {{{"weights", memory.weights},
           {"gradients", memory.gradients},
           {"optimizer", memory.optimizer},
           {"activations", memory.activations},
           {"working", memory.working},
           {"buffers", memory.buffers}}};
}

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

std::string step_json(const StepStudy& study, const scenario::LoadedScenario& loaded) {
  Json json = json_head(loaded);
  json["step_time_s"] = study.step.total_s();
  json["tokens_per_s"] = study.tokens_per_s;
  json["model_tflops_per_s_per_gpu"] = study.model_flops_per_s_per_gpu / kTera;
  json["mfu"] = study.mfu;
  Json breakdown = Json::object();
  for (const Part& part : parts_of(study.step)) breakdown[part.key] = part.seconds;
  json["breakdown"] = std::move(breakdown);
  Json memory = Json::object();
  for (const auto& [name, bytes] : parts_of(study.memory))
    memory[fmt::format("{}_bytes", name)] = bytes.value();
  memory["total_bytes"] = study.memory.total().value();
  json["memory_per_gpu"] = std::move(memory);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string step_csv(const StepStudy& study) {
  std::vector<std::string> header = {"step_time_s", "tokens_per_s", "model_tflops_per_s_per_gpu",
                                     "mfu_ratio"};
  std::vector<std::string> cells = {
      fmt::format("{}", study.step.total_s()), fmt::format("{}", study.tokens_per_s),
      fmt::format("{}", study.model_flops_per_s_per_gpu / kTera), fmt::format("{}", study.mfu)};
  for (const Part& part : parts_of(study.step)) {
    header.emplace_back(part.key);
    cells.push_back(fmt::format("{}", part.seconds));
  }
  header.emplace_back("memory_bytes");
  cells.push_back(fmt::format("{}", study.memory.total().value()));
  return csv_line(header) + csv_line(cells);
}

std::string step_text(const StepStudy& study, const scenario::LoadedScenario& loaded) {
  const scenario::Scenario& scenario = loaded.scenario;
  const double total = study.step.total_s();
  std::string text = headline(scenario);
  text += fmt::format(
      "\nstep time {:.4f} s, {} tokens/s, {:.0f} TFLOP/s a GPU, MFU {} (model FLOPs over the dense {} "
      "peak)\n\n",
      total, scaled(study.tokens_per_s), study.model_flops_per_s_per_gpu / kTera, percent(study.mfu),
      models::to_string(scenario.job.training.precision));
  Table times({{"slowest pipeline stage", Align::kLeft}, {"seconds"}, {"share"}});
  for (const Part& part : parts_of(study.step)) {
    times.add_row({part.name, fmt::format("{:.4f}", part.seconds), percent(part.seconds / total)});
  }
  times.add_row({"step", fmt::format("{:.4f}", total), percent(1)});
  text += times.to_string() + "\n";
  Table memory({{"memory of the fullest GPU", Align::kLeft}, {"GB"}});
  for (const auto& [name, bytes] : parts_of(study.memory)) {
    memory.add_row({name, fmt::format("{:.1f}", bytes.value() / kGiga)});
  }
  const models::GpuSpec& gpu = scenario.cluster.system.gpu;
  memory.add_row({fmt::format("all, of the {:.0f} of a {}", gpu.memory.value() / kGiga, gpu.name),
                  fmt::format("{:.1f}", study.memory.total().value() / kGiga)});
  return text + memory.to_string();
}

}  // namespace

StepStudy study_step(const scenario::Scenario& scenario) {
  const models::TrainingSpec& training = scenario.job.training;
  const models::TransformerSpec& model = scenario.job.model;
  const models::GpuSpec& gpu = scenario.cluster.system.gpu;
  const sim::StepModel steps(scenario.cluster.system, model, training);
  StepStudy study;
  study.shape = steps.healthy_shape();
  study.step = steps.step(study.shape);
  study.memory = models::memory_per_gpu(model, training, study.shape.tp_degree);
  const double tokens =
      static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  const auto gpus = static_cast<double>(training.gpus_per_replica() * training.data_parallel_size);
  study.tokens_per_s = tokens / study.step.total_s();
  study.model_flops_per_s_per_gpu =
      study.tokens_per_s * models::model_flops_per_token(model, training.seq_length) / gpus;
  study.mfu = study.model_flops_per_s_per_gpu / gpu.peak(training.precision).value_or(gpu.peak_bf16).value();
  return study;
}

std::string render(const StepStudy& study, const scenario::LoadedScenario& loaded, Format format) {
  switch (format) {
    case Format::kJson:
      return step_json(study, loaded);
    case Format::kCsv:
      return step_csv(study);
    case Format::kText:
      break;
  }
  return step_text(study, loaded);
}

}  // namespace ntpsim::analysis
