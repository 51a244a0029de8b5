#pragma once

#include <cstdint>
#include <functional>

namespace ntpsim::analysis {

/// Told now and then how much of a study is done. Called from the thread that runs the study only.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

/// How a study is run; neither changes its results.
struct StudyOptions {
  unsigned threads = 1;
  Progress progress;  ///< may be empty
};

}  // namespace ntpsim::analysis
