#include "ntpsim/models/memory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/models/hardware.h"

// The memory model against published figures: those of shared data, and those in the tables below. No number
// is fitted. What measured.csv's rows of B200 showed is which tensors are kept (stand-in gradients, the
// attention's output before and after the exchange of context parallelism); kSimumaxRows played no part.

namespace ntpsim {
namespace {

using models::MemoryBreakdown;
using models::Precision;
using models::Recompute;
using models::RecomputeChoice;
using models::TrainingSpec;
using models::TransformerSpec;
using Row = std::map<std::string, std::string, std::less<>>;

constexpr double kGib = 1024.0 * 1024 * 1024;

/// Cells of one CSV line; a quoted cell may hold commas.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<Row> read_rows(std::istream& in) {
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE(cells.size() == header.size());
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
  }
  return rows;
}

const std::string& text(const Row& row, std::string_view column) {
  return row.find(column)->second;
}

bool contains(const Row& row, std::string_view column, std::string_view part) {
  return text(row, column).find(part) != std::string::npos;
}

std::optional<double> number(const Row& row, std::string_view column) {
  const std::string& cell = text(row, column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size() ? std::optional(value) : std::nullopt;
}

/// One where the row leaves it open.
std::int64_t count(const Row& row, std::string_view column) {
  return static_cast<std::int64_t>(number(row, column).value_or(1));
}

/// A catalog model cut to fewer layers.
TransformerSpec cut_model(std::string_view name, std::int64_t layers) {
  const TransformerSpec* whole = models::find_model(name);
  REQUIRE(whole != nullptr);
  TransformerSpec model = *whole;
  model.num_layers = layers;
  if (name == "llama3.1-405b") model.num_query_groups = 16;  // models.json of the shared data
  if (model.experts) model.experts->dense_layers = 1;        // so cut by the source of the rows
  return model;
}

TransformerSpec model_of(const Row& row) {
  const std::string& name = text(row, "model");
  if (const TransformerSpec* model = models::find_model(name)) return *model;
  if (name == "llama3-70b-12-layers") return cut_model("llama3-70b", 12);
  REQUIRE(name == "llama3.1-405b-4-layers");
  return cut_model("llama3.1-405b", 4);
}

Precision precision_of(const Row& row) {
  static const std::map<std::string, Precision, std::less<>> precisions = {{"BF16", Precision::kBf16},
                                                                           {"FP16", Precision::kFp16},
                                                                           {"FP8", Precision::kFp8},
                                                                           {"MXFP8", Precision::kMxfp8},
                                                                           {"NVFP4", Precision::kNvfp4}};
  const auto found = precisions.find(text(row, "precision"));
  REQUIRE(found != precisions.end());
  return found->second;
}

std::string_view gpu_of(const Row& row) {
  static const std::map<std::string, std::string_view, std::less<>> gpus = {
      {"Selene-A100-80GB", "a100-80gb-sxm"},
      {"DGX-H100", "h100-sxm"},
      {"DGX-H100-RoCE400", "h100-sxm"},
      {"DGX-B200", "b200"},
      {"DGX-GB200", "gb200"},
      {"DGX-GB300", "gb300"},
      {"DGX-B300", "gb300"}};
  const auto found = gpus.find(text(row, "system"));
  REQUIRE(found != gpus.end());
  return found->second;
}

/// What the row states. Where it is silent, no recomputation.
TrainingSpec training_of(const Row& row) {
  const bool first_generation = contains(row, "system", "A100");
  TrainingSpec training;
  training.tensor_model_parallel_size = count(row, "tp");
  training.pipeline_model_parallel_size = count(row, "pp");
  training.virtual_pipeline_model_parallel_size = count(row, "vp");
  training.context_parallel_size = count(row, "cp");
  training.expert_model_parallel_size = count(row, "ep");
  training.micro_batch_size = count(row, "mbs");
  training.global_batch_size = count(row, "gbs");
  training.seq_length = count(row, "seq");
  training.data_parallel_size = count(row, "gpus") / training.gpus_per_replica();
  training.precision = precision_of(row);
  training.use_fsdp = number(row, "fsdp").value_or(0) > 0;
  if (text(row, "recompute") == "full") training.recompute_granularity = Recompute::kFull;
  if (contains(row, "recompute", "selective")) training.recompute_granularity = Recompute::kSelective;
  training.fused_attention = !first_generation;
  training.sequence_parallel = training.recompute_granularity != Recompute::kFull;
  training.use_distributed_optimizer = !first_generation;
  return training;
}

MemoryBreakdown memory_of(const TransformerSpec& model, const TrainingSpec& training) {
  return models::memory_per_gpu(model, training, static_cast<int>(training.tensor_model_parallel_size));
}

std::string parts(const MemoryBreakdown& memory) {
  return fmt::format(
      "weights {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations {:.2f}, working {:.2f}, "
      "buffers {:.2f}",
      memory.weights.value() / kGib, memory.gradients.value() / kGib, memory.optimizer.value() / kGib,
      memory.activations.value() / kGib, memory.working.value() / kGib, memory.buffers.value() / kGib);
}

/// Largest absolute relative error seen.
class Worst {
 public:
  void add(std::string_view name, double published, double predicted, const std::string& detail) {
    const double error = predicted / published - 1;
    worst_ = std::max(worst_, std::abs(error));
    sum_ += std::abs(error);
    ++count_;
    MESSAGE(fmt::format("{:58} published {:7.2f} GiB, predicted {:7.2f} GiB, {:+5.2f}%  {}", name, published,
                        predicted, 100 * error, detail));
  }
  [[nodiscard]] double worst() const { return worst_; }
  [[nodiscard]] int count() const { return count_; }
  void print() const {
    MESSAGE(fmt::format("{} figures, absolute error: mean {:.2f}%, worst {:.2f}%", count_,
                        100 * sum_ / count_, 100 * worst_));
  }

 private:
  double worst_ = 0;
  double sum_ = 0;
  int count_ = 0;
};

std::vector<Row> measured_rows() {
  std::ifstream file(NTPSIM_SHARED_DATA "/throughput/measured.csv");
  if (!file) {
    MESSAGE("SKIPPED: no throughput/measured.csv under " NTPSIM_SHARED_DATA "; nothing was validated");
    return {};
  }
  return read_rows(file);
}

/// A job of Korthikanti et al. 2022, table 3: pipeline and virtual stages, microbatch, global batch.
struct KorthikantiJob {
  const char* model;
  std::int64_t pipeline;
  std::int64_t virtual_stages;
  std::int64_t micro_batch;
  std::int64_t global_batch;
};

constexpr KorthikantiJob kKorthikantiJobs[] = {{"megatron-a100-22b", 1, 1, 4, 4},
                                               {"gpt3-175b", 8, 3, 1, 64},
                                               {"megatron-a100-529.6b", 35, 3, 1, 280},
                                               {"megatron-a100-1008b", 64, 1, 1, 512}};

TrainingSpec training_of(const KorthikantiJob& job) {
  TrainingSpec training;
  training.tensor_model_parallel_size = 8;
  training.pipeline_model_parallel_size = job.pipeline;
  training.virtual_pipeline_model_parallel_size = job.virtual_stages;
  training.micro_batch_size = job.micro_batch;
  training.global_batch_size = job.global_batch;
  training.seq_length = 2048;
  training.precision = Precision::kFp16;
  training.fused_attention = false;
  training.use_distributed_optimizer = false;
  return training;
}

/// Rows of SimuMax's B200 release summary v1.2 (docs/b200/b200_release_v1.2_summary.md of
/// MooreThreads/SimuMax) that shared data lack: one node of 8 B200, BF16, peak of PyTorch's allocator.
/// DeepSeek models are cut to 4 layers, one of them dense, with rows dropped or padded to an even load of the
/// experts.
struct SimumaxRow {
  const char* name;
  const char* model;
  std::int64_t layers;
  std::int64_t tp;
  std::int64_t pp;
  std::int64_t cp;
  std::int64_t ep;
  std::int64_t seq;
  double gib;
};

constexpr SimumaxRow kSimumaxRows[] = {
    {"llama3-70b, 12 layers, TP 2", "llama3-70b", 12, 2, 1, 1, 1, 4096, 60.68},
    {"llama3-70b, 12 layers, TP 8", "llama3-70b", 12, 8, 1, 1, 1, 4096, 28.29},
    {"llama3-70b, 12 layers, CP 8, 32k", "llama3-70b", 12, 1, 1, 8, 1, 32768, 104.51},
    {"llama3-70b, 12 layers, CP 8, 128k", "llama3-70b", 12, 1, 1, 8, 1, 131072, 147.99},
    {"llama3.1-405b, 4 layers, TP 2", "llama3.1-405b", 4, 2, 1, 1, 1, 4096, 81.59},
    {"llama3.1-405b, 4 layers, TP 8", "llama3.1-405b", 4, 8, 1, 1, 1, 4096, 38.57},
    {"llama3.1-405b, 4 layers, CP 8, 32k", "llama3.1-405b", 4, 1, 1, 8, 1, 32768, 139.22},
    {"deepseek-v2, 4 layers, EP 8", "deepseek-v2", 4, 1, 1, 1, 8, 4096, 45.63},
    {"deepseek-v2, 4 layers, EP 4, PP 2", "deepseek-v2", 4, 1, 2, 1, 4, 4096, 44.70},
    {"deepseek-v3, 4 layers, EP 8", "deepseek-v3", 4, 1, 1, 1, 8, 4096, 104.30},
    {"deepseek-v3, 4 layers, EP 4, PP 2", "deepseek-v3", 4, 1, 2, 1, 4, 4096, 114.00}};

/// DeepSeek-V2 by its config.json: as V3, but for these dimensions.
TransformerSpec deepseek_v2(std::int64_t layers) {
  TransformerSpec model = cut_model("deepseek-v3", layers);
  model.name = "deepseek-v2";
  model.hidden_size = 5120;
  model.ffn_hidden_size = 12288;
  model.vocab_size = 102400;
  model.experts->num_experts = 160;
  model.experts->router_topk = 6;
  model.experts->ffn_hidden_size = 1536;
  model.experts->shared_expert_intermediate_size = 3072;
  return model;
}

TrainingSpec training_of(const SimumaxRow& row) {
  TrainingSpec training;
  training.tensor_model_parallel_size = row.tp;
  training.pipeline_model_parallel_size = row.pp;
  training.context_parallel_size = row.cp;
  training.expert_model_parallel_size = row.ep;
  training.data_parallel_size = 8 / training.gpus_per_replica();
  training.global_batch_size = 4 * training.data_parallel_size;
  training.seq_length = row.seq;
  return training;
}

/// The choice as text: "none", "attention", "2 layers a chunk", "all".
std::string to_text(const RecomputeChoice& choice) {
  switch (choice.granularity) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "attention";
    case Recompute::kBlock:
      return fmt::format("{} layers a chunk", choice.num_layers);
    case Recompute::kFull:
      return "all";
  }
  return "";
}

}  // namespace

// The state published is 18 bytes for each of 12 h^2 weights a layer, 1 / (t p) of the model's: no embedding.
// That is a stage between the ends; only the 22B model, without a pipeline, has its embedding in ours. The
// activations are the first stage's.
TEST_CASE("state and activations of GPT models as Korthikanti et al. 2022 publish them") {
  std::ifstream file(NTPSIM_SHARED_DATA "/throughput/memory_points.json");
  if (!file) {
    MESSAGE("SKIPPED: no throughput/memory_points.json under " NTPSIM_SHARED_DATA "; nothing was validated");
    return;
  }
  Worst state;
  Worst activations;
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const nlohmann::json& point : document.at("points")) {
    const auto name = point.at("model").get<std::string>();
    const auto* job = std::ranges::find_if(kKorthikantiJobs,
                                           [&](const KorthikantiJob& each) { return name == each.model; });
    REQUIRE(job != std::end(kKorthikantiJobs));
    const TransformerSpec* model = models::find_model(name);
    REQUIRE(model != nullptr);
    TrainingSpec training = training_of(*job);
    const auto gib = [](Bytes bytes) { return bytes.value() / kGib; };

    training.recompute_granularity = Recompute::kSelective;
    const MemoryBreakdown layers_only = models::stage_memory(*model, training, 8, job->pipeline / 2);
    state.add(name + ", state", point.at("params_and_optimizer").get<double>(),
              gib(layers_only.weights + layers_only.gradients + layers_only.optimizer), "");
    activations.add(name + ", selective", point.at("activations_selective_sp").get<double>(),
                    gib(models::stage_memory(*model, training, 8, 0).activations), "");
    training.recompute_granularity = Recompute::kNone;
    training.sequence_parallel = false;
    activations.add(name + ", no recomputation", point.at("activations_no_recompute").get<double>(),
                    gib(models::stage_memory(*model, training, 8, 0).activations), "");
  }
  state.print();
  activations.print();
  CHECK(state.count() == 4);
  CHECK(activations.count() == 8);
  CHECK(state.worst() < 0.015);
  CHECK(activations.worst() < 0.0001);
}

TEST_CASE("peak memory as measured on B200") {
  const std::vector<Row> rows = measured_rows();
  if (rows.empty()) return;
  Worst errors;
  for (const Row& row : rows) {
    const std::optional<double> published = number(row, "peak_mem_gib");
    if (!published) continue;
    const MemoryBreakdown memory = memory_of(model_of(row), training_of(row));
    errors.add(text(row, "id"), *published, memory.total().value() / kGib, parts(memory));
  }
  errors.print();
  CHECK(errors.count() >= 16);
  CHECK(errors.worst() < 0.003);
}

TEST_CASE("peak memory as measured on B200, rows that played no part in the model") {
  Worst dense;
  Worst experts;
  for (const SimumaxRow& row : kSimumaxRows) {
    const bool v2 = std::string_view(row.model) == "deepseek-v2";
    TransformerSpec model = v2 ? deepseek_v2(row.layers) : cut_model(row.model, row.layers);
    model.mtp_num_layers = 0;
    const MemoryBreakdown memory = memory_of(model, training_of(row));
    (model.is_moe() ? experts : dense).add(row.name, row.gib, memory.total().value() / kGib, parts(memory));
  }
  dense.print();
  experts.print();
  CHECK(dense.worst() < 0.003);
  CHECK(experts.worst() < 0.01);
}

// Two runs of the Llama 3 report are predicted to need 93 and 96 GB of an 80 GB GPU. The report shards
// gradients too (12 GB), and frees tensors early; how many virtual stages and microbatches in flight it used,
// it does not say.
TEST_CASE("every published run fits its GPU") {
  const std::vector<Row> rows = measured_rows();
  if (rows.empty()) return;
  const std::vector<std::string> expected = {"llama3-report-8192-8192", "llama3-report-16384-131072"};
  std::vector<std::string> misfits;
  for (const Row& row : rows) {
    const TransformerSpec model = model_of(row);
    const TrainingSpec training = training_of(row);
    const models::GpuSpec* gpu = models::find_gpu(gpu_of(row));
    REQUIRE(gpu != nullptr);
    std::string choice = "as stated, " + text(row, "recompute");
    TrainingSpec chosen = training;
    bool fits = true;
    if (text(row, "recompute") == "unstated") {
      const auto least = models::least_recompute(model, training, gpu->memory);
      fits = least.has_value();
      const RecomputeChoice recompute = least.value_or(RecomputeChoice{.granularity = Recompute::kFull});
      choice = to_text(recompute);
      chosen.recompute_granularity = recompute.granularity;
      chosen.recompute_num_layers = recompute.num_layers;
    }
    const MemoryBreakdown memory = memory_of(model, chosen);
    fits = fits && memory.total() <= gpu->memory;
    if (!fits) misfits.push_back(text(row, "id"));
    MESSAGE(fmt::format("{:58} {:6.1f} of {:5.1f} GB, recomputes {}{} ({})", text(row, "id"),
                        memory.total().value() / 1e9, gpu->memory.value() / 1e9, choice,
                        fits ? "" : ": DOES NOT FIT", parts(memory)));
  }
  CHECK(misfits == expected);
}

}  // namespace ntpsim
