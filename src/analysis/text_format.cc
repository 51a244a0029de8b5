#include "text_format.h"

#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace ntpsim::analysis {

std::string grouped(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string percent(double ratio) {
  return fmt::format("{:.2f}%", 100 * ratio);
}

std::string scaled(double value) {
  static constexpr std::array<std::pair<double, const char*>, 3> kScales = {
      {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [factor, suffix] : kScales) {
    if (value >= factor) return fmt::format("{:.2f}{}", value / factor, suffix);
  }
  return fmt::format("{:.2f}", value);
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<std::pair<double, const char*>, 4> kScales = {
      {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}};
  for (const auto& [factor, unit] : kScales) {
    const double value = static_cast<double>(bytes) / factor;
    if (value >= 1) return fmt::format("{:.2f} {}", value, unit);
  }
  return fmt::format("{} B", bytes);
}

std::string headline(const scenario::Scenario& scenario) {
  const models::TrainingSpec& training = scenario.job.training;
  std::string text = fmt::format(
      "{}: {} {} GPUs in {} domains of {} ({}), training {}\nTP {} x PP {}", scenario.name,
      grouped(scenario.cluster.gpus), scenario.cluster.system.gpu.name, grouped(scenario.cluster.domains()),
      scenario.cluster.system.domain_size, scenario.cluster.system.name, scenario.job.model.name,
      training.tensor_model_parallel_size, training.pipeline_model_parallel_size);
  if (training.context_parallel_size > 1) text += fmt::format(" x CP {}", training.context_parallel_size);
  text += fmt::format(" x DP {}", training.data_parallel_size);
  if (training.expert_model_parallel_size > 1)
    text += fmt::format(", EP {}", training.expert_model_parallel_size);
  return text + fmt::format(", {} sequences of {} tokens a step\n", grouped(training.global_batch_size),
                            grouped(training.seq_length));
}

}  // namespace ntpsim::analysis
