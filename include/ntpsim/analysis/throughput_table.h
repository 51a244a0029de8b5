#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/scenario/model_table.h"

// Tables of measured training runs: CSV, one run a row, columns by name in any order (docs/validate.md).

namespace ntpsim::analysis {

/// One run as its source states it. What a source may leave open is absent where it does.
struct ThroughputRow {
  std::int64_t line = 0;  ///< of the file
  std::string id;
  std::string model;
  std::string system;
  std::int64_t gpus = 1;
  models::Precision precision = models::Precision::kBf16;
  std::int64_t gbs = 1;  ///< sequences of a step
  std::int64_t seq = 1;  ///< tokens of a sequence
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;  ///< where nothing is stated, not used; ep and fsdp likewise
  std::int64_t ep = 1;
  std::int64_t fsdp = 0;  ///< ranks that share weights; 0 or 1: they are not sharded
  std::optional<std::int64_t> mbs;
  std::optional<std::int64_t> vp;
  std::optional<std::int64_t> etp;
  std::optional<models::Recompute> recompute;
  std::optional<double> step_s;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> tflops_per_gpu;
  std::string flops_convention;
  std::string source;
  std::optional<double> peak_mem_gib;

  /// GPUs of one data-parallel replica.
  [[nodiscard]] std::int64_t gpus_per_replica() const { return tp * pp * cp; }
  /// Replicas. REQUIRES: they divide the GPUs, as the reader checks.
  [[nodiscard]] std::int64_t dp() const { return gpus / gpus_per_replica(); }
};

/// A run with the model and the system that its names mean.
struct MeasuredRun {
  ThroughputRow stated;
  models::TransformerSpec model;
  models::SystemSpec system;
};

struct ThroughputTable {
  std::string file;
  std::vector<MeasuredRun> runs;  ///< in the order of the file; at least one
  Diagnostics warnings;           ///< columns that are not used
};

/// Reads a table. Models are those of `models`, then those of the catalog. Every run can be run as stated:
/// its degrees fit its GPUs, system and model, and its batch divides into microbatches. Reports everything
/// that is wrong at once, with line and column.
[[nodiscard]] Result<ThroughputTable> parse_throughput_table(std::string_view text, const std::string& file,
                                                             const scenario::ModelTable& models);

/// The numbers of "container 26.04.01" in a source: 26, 4, 1; none when it names no container.
[[nodiscard]] std::vector<int> container_of(std::string_view source);

/// The system that a text means: the catalog's of this name, else that of the first of A100, H100, H200,
/// B200, B300, GB200 and GB300 that the text contains, letter case ignored. A name after a G is another
/// product's: "GB200" is no B200, "GH200" no H200. Null when there is none.
[[nodiscard]] const models::SystemSpec* find_system_meant(std::string_view text);

}  // namespace ntpsim::analysis
