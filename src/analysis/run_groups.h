#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "ntpsim/analysis/validation.h"

namespace ntpsim::analysis {

/// "dense" or "moe".
[[nodiscard]] inline std::string_view kind_of(const ComparedRun& each) {
  return each.run.model.is_moe() ? "moe" : "dense";
}

/// Of GPUs, oldest first, in the order of `models::GpuGeneration`.
[[nodiscard]] inline std::span<const std::string_view> generation_names() {
  static constexpr std::array<std::string_view, 3> kNames = {"ampere", "hopper", "blackwell"};
  return kNames;
}

[[nodiscard]] inline std::string_view generation_name(const ComparedRun& each) {
  return generation_names()[static_cast<std::size_t>(models::generation_of(each.run.system.gpu))];
}

}  // namespace ntpsim::analysis
