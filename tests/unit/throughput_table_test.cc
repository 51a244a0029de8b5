#include "ntpsim/analysis/throughput_table.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/analysis/default_table.h"

#include "messages.h"

namespace ntpsim {
namespace {

using analysis::parse_throughput_table;
using analysis::ThroughputTable;
using testing::messages;

constexpr std::string_view kHeader = "id,model,system,gpus,precision,gbs,seq,tp,pp,step_s\n";
constexpr std::string_view kRow = "a,llama3-8b,DGX-H100,8,BF16,128,8192,1,1,9.5\n";

Result<ThroughputTable> read(const std::string& text) {
  return parse_throughput_table(text, "runs.csv", {});
}

/// One row under the usual header.
Result<ThroughputTable> read_row(std::string_view row) {
  return read(std::string(kHeader) + std::string(row) + "\n");
}

bool has(const std::vector<std::string>& lines, std::string_view part) {
  return std::ranges::any_of(
      lines, [part](const std::string& line) { return line.find(part) != std::string::npos; });
}

scenario::ModelTable models_of(const std::string& json) {
  const auto models = scenario::parse_model_table(json, "models.json");
  REQUIRE(models);
  return *models;
}

}  // namespace

TEST_CASE("columns are found by name, in any order, whatever the line ends") {
  const std::string text =
      "\xEF\xBB\xBFseq,step_s, id ,note,model,system,gpus,precision,gbs,tp,pp\r\n"
      "\r\n"
      "8192,9.5,\"a, \"\"b\"\"\",x,llama3-8b,my h100 box,64.0,Bf16,128,1,1\r\n"
      ",,,,,,,,,,\r\n";
  const auto table = read(text);
  REQUIRE(table);
  REQUIRE(table->runs.size() == 1);
  const analysis::ThroughputRow& row = table->runs[0].stated;
  CHECK(row.id == "a, \"b\"");
  CHECK(row.line == 3);
  CHECK(row.gpus == 64);
  CHECK(row.precision == models::Precision::kBf16);
  CHECK(row.seq == 8192);
  CHECK(row.cp == 1);
  CHECK_FALSE(row.mbs.has_value());
  CHECK_FALSE(row.recompute.has_value());
  CHECK(table->runs[0].system.name == "dgx-h100");
  CHECK(table->runs[0].model.name == "llama3-8b");
  REQUIRE(table->warnings.items().size() == 1);
  CHECK(table->warnings.items()[0].message == "line 1: column 'note' is not used");
}

TEST_CASE("a quoted cell may span lines, and later lines keep their numbers") {
  const auto lines =
      messages(read(std::string(kHeader) + "\"a\nb\",llama3-8b,DGX-H100,8,BF16,128,8192,1,1,9.5\n" +
                    "c,llama3-8b,DGX-H100,x,BF16,128,8192,1,1,9.5\n"));
  CHECK(lines == std::vector<std::string>{
                     "line 4, column gpus: found 'x', expected a whole number from 1 to 100000000"});
}

TEST_CASE("everything wrong with a table is reported at once, with line and column") {
  const auto lines = messages(read(std::string(kHeader) + "a,lama3-8b,DGX-H100,8,BF17,128,8192,1,1,9.5\n"
                                                          "b,llama3-8b,DGX-V100,0,BF16,1.5,-1,,1,nan\n"
                                                          "b,llama3-8b,DGX-H100,8,BF16,128,8192,1,1,\n"
                                                          "short,row\n"));
  CHECK(has(lines, "line 2, column model: found 'lama3-8b'"));
  CHECK(has(lines, "did you mean 'llama3-8b'?"));
  CHECK(has(lines,
            "line 2, column precision: found 'BF17', expected one of bf16, fp16, fp8, mxfp8, nvfp4; "
            "did you mean 'bf16'?"));
  CHECK(has(lines, "line 3, column system: found 'DGX-V100', expected a system of 'ntpsim list systems'"));
  CHECK(has(lines, "line 3, column gpus: found '0'"));
  CHECK(has(lines, "line 3, column gbs: found '1.5', expected a whole number"));
  CHECK(has(lines, "line 3, column seq: found '-1'"));
  CHECK(has(lines, "line 3, column tp: found a blank cell, expected a whole number"));
  CHECK(has(lines, "line 3, column step_s: found 'nan', expected a number"));
  CHECK(has(lines, "line 4, column id: found 'b', which is that of line 3"));
  CHECK(has(lines, "line 4, column step_s: found no figure, expected one in step_s, tokens_per_s_per_gpu, "));
  CHECK(has(lines, "line 5: found 2 cells, expected 10 as in the header"));
}

TEST_CASE("headers must name the required columns once") {
  const auto lines = messages(read("id,modell,system,gpus,precision,gbs,seq,tp,tp\n"));
  CHECK(has(lines, "line 1: found no column model, expected one; did you mean 'modell'?"));
  CHECK(has(lines, "line 1: found no column pp, expected one"));
  CHECK(has(lines, "line 1: found column tp a second time"));
  CHECK(has(lines, "line 1: found none of the columns step_s, tokens_per_s_per_gpu, tflops_per_gpu"));
  CHECK(has(messages(read("id;model;system\n")), "found one cell, expected cells separated by commas"));
  CHECK(has(messages(read("")), "found no header, expected columns id, model"));
  CHECK(has(messages(read(std::string(kHeader))), "found a header only"));
}

TEST_CASE("what is not CSV is refused") {
  CHECK(
      has(messages(read("# runs\n" + std::string(kHeader) + std::string(kRow))), "line 1: found a comment"));
  CHECK(has(messages(read_row("a\"b,llama3-8b")), "line 2: found a quote inside a cell"));
  CHECK(has(messages(read_row("\"a\"b,llama3-8b")), "line 2: found text after a closing quote"));
  CHECK(has(messages(read_row("\"a,llama3-8b")), "line 2: found a cell whose quote is never closed"));
  CHECK(has(messages(read_row(std::string_view("a\0b", 3))), "line 2: found a NUL byte"));
}

TEST_CASE("a run that cannot be run is refused by the name of what does not fit") {
  const std::string header =
      "id,model,system,gpus,precision,gbs,seq,tp,pp,step_s,mbs,cp,vp,ep,etp,fsdp,recompute\n";
  const auto problems = [&header](const std::string& row) { return messages(read(header + row + "\n")); };
  CHECK(has(problems("a,llama3-8b,H100,12,BF16,128,8192,8,1,1,,,,,,,"),
            "column gpus: found 12, expected a multiple of tp x pp x cp = 8 x 1 x 1"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,12,8192,1,1,1,,,,,,,"),
            "column gbs: found 12, expected a multiple of mbs x gpus / (tp x pp x cp) = 1 x 8"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,24,8192,1,1,1,2,,,,,,"), "column gbs: found 24"));
  CHECK(has(problems("a,llama3-8b,H100,16,BF16,16,8192,16,1,1,,,,,,,"),
            "column tp: found 16, expected at most 8, the GPUs of a domain of dgx-h100"));
  CHECK(has(problems("a,llama3-8b,A100,8,FP8,128,8192,1,1,1,,,,,,,"), "column precision: found fp8"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,128,8191,1,1,1,,2,,,,,"), "column seq: found 8191"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,128,8192,1,1,1,,,4,,,,"), "column vp: found 4, but"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,128,8192,1,4,1,,,9,,,,"), "column vp: pp x vp = 4 x 9"));
  CHECK(has(problems("a,llama3-8b,H100,64,BF16,128,8192,1,64,1,,,,,,,"), "column pp: found 64"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,128,8192,1,1,1,,,,8,,,"),
            "column ep: found 8, but llama3-8b has no"));
  CHECK(has(problems("a,qwen3-30b-a3b,H100,16,BF16,128,8192,1,1,1,,,,3,,,"), "column ep: found 3"));
  CHECK(has(problems("a,qwen3-30b-a3b,H100,8,BF16,128,8192,1,1,1,,,,16,,,"), "spans 16 replicas"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,128,8192,1,1,1,,,,,,16,"), "column fsdp: found 16"));
  CHECK(has(problems("a,llama3-8b,H100,8,BF16,128,8192,1,1,1,,,,,,,ful"), "did you mean 'full'?"));
  CHECK(has(problems("a,llama3-8b,H100,100000000,BF16,1000000000000,1000000000000,1,1,1,,,,,,,"),
            "tokens in a step"));
  CHECK(read(header + "a,qwen3-30b-a3b,H100,16,BF16,128,8192,1,2,1,4,,12,8,,8,Full\n"));
}

TEST_CASE("FLOP/s alone need a known convention") {
  const std::string header =
      "id,model,system,gpus,precision,gbs,seq,tp,pp,tflops_per_gpu,flops_convention\n"
      "a,llama3-8b,H100,8,BF16,128,8192,1,1,400,";
  CHECK(read(header + "\n"));
  CHECK(read(header + "model\n"));
  CHECK(read(header + "hardware: 96Bslh^2\n"));
  CHECK(has(messages(read(header + "step time\n")), "column flops_convention: found 'step time'"));
}

TEST_CASE("systems are told by the GPU that their text names") {
  const std::vector<std::pair<std::string_view, std::string_view>> meant = {
      {"Selene-A100-80GB", "dgx-a100"}, {"DGX-H100-RoCE400", "dgx-h100"}, {"hgx h200", "dgx-h200"},
      {"DGX-B200", "dgx-b200"},         {"DGX-GB200", "gb200-nvl72"},     {"nvl72 gb300", "gb300-nvl72"},
      {"dgx-b300", "dgx-b300"},         {"B200-NVL32", "b200-nvl32"}};
  for (const auto& [text, name] : meant) {
    CAPTURE(text);
    const models::SystemSpec* const system = analysis::find_system_meant(text);
    REQUIRE(system != nullptr);
    CHECK(system->name == name);
  }
  CHECK(analysis::find_system_meant("GH200") == nullptr);
  CHECK(analysis::find_system_meant("V100") == nullptr);
  CHECK(analysis::find_system_meant("") == nullptr);
}

TEST_CASE("models of a file come before those of the catalog, whose other settings they keep") {
  const scenario::ModelTable models = models_of(R"({"note": "x", "models": {
    "deepseek-v3": {"hidden_size": 7168, "num_hidden_layers": 5, "num_attention_heads": 128,
      "intermediate_size": 18432, "vocab_size": 129280, "num_experts": 256, "num_experts_per_tok": 8,
      "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "q_lora_rank": 1536,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
    "mine": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 128, "vocab_size": 100, "gated_mlp": false, "tie_word_embeddings": true,
      "sliding_window": 16, "sliding_window_every": 2}}})");
  models::TransformerSpec cut = *models::find_model("deepseek-v3");
  cut.num_layers = 5;
  cut.source = "models.json";
  CHECK(models.at("deepseek-v3") == cut);
  const models::TransformerSpec& mine = models.at("mine");
  CHECK(mine.kv_channels == 16);
  CHECK(mine.num_query_groups == 2);
  CHECK_FALSE(mine.gated_mlp);
  CHECK_FALSE(mine.untie_embeddings_and_output_weights);
  REQUIRE(mine.sliding_window.has_value());
  CHECK(mine.sliding_window->every == 2);
  const auto table = parse_throughput_table(std::string(kHeader) + "a,mine,H100,8,BF16,128,8192,1,1,9.5\n",
                                            "runs.csv", models);
  REQUIRE(table);
  CHECK(table->runs[0].model == mine);
}

TEST_CASE("everything wrong with models is reported at its JSON pointer") {
  const auto models = scenario::parse_model_table(R"({"modls": {}, "models": {
    "a": {"hidden_size": "x", "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
          "hiden": 1, "intermediate_size": 8},
    "b": {"hidden_size": 10, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 3,
          "vocab_size": 100, "intermediate_size": 8, "num_experts": 4, "n_shared_experts": 1,
          "q_lora_rank": 8, "sliding_window_every": 2, "num_experts_per_tok": 5}}})",
                                                  "models.json");
  REQUIRE_FALSE(models);
  std::vector<std::string> lines;
  for (const Diagnostic& each : models.error().items()) lines.push_back(to_string(each));
  CHECK(has(lines, "models.json: /modls: unknown key"));
  CHECK(has(lines, "/models/a/hidden_size: found text \"x\""));
  CHECK(has(lines, "/models/a/hiden: unknown key"));
  CHECK(has(lines, "/models/b/num_key_value_heads: found 3, which does not divide"));
  CHECK(has(lines, "/models/b/head_dim: missing"));
  CHECK(has(lines, "/models/b/moe_intermediate_size: missing; a model with num_experts needs it"));
  CHECK(has(lines, "/models/b/num_experts_per_tok: found 5"));
  CHECK(has(lines, "/models/b/q_lora_rank: has no effect without kv_lora_rank"));
  CHECK(has(lines, "/models/b/sliding_window_every: has no effect without sliding_window"));
}

TEST_CASE("the built-in table can be run as its rows state") {
  const auto models = scenario::parse_model_table(analysis::default_models(), "built-in models");
  REQUIRE(models);
  const auto table = parse_throughput_table(analysis::default_table(), "built-in table", *models);
  REQUIRE(table);
  CHECK(table->warnings.empty());
  CHECK(table->runs.size() >= 190);
  CHECK(std::ranges::all_of(table->runs,
                            [](const analysis::MeasuredRun& run) { return !run.stated.source.empty(); }));
}

}  // namespace ntpsim
