// The schema says the same as the reader, and the committed copy the same as the program.

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "ntpsim/scenario/scenario.h"

namespace {

using nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

const std::filesystem::path kScenarios = NTPSIM_SOURCE_DIR "/scenarios";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kScenarios)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  REQUIRE(paths.size() >= 6);
  return paths;
}

struct ParsedSchema {
  json text = json::parse(ntpsim::scenario::scenario_schema());
  valijson::Schema parsed;

  ParsedSchema() {
    valijson::SchemaParser parser;
    parser.populateSchema(NlohmannJsonAdapter(text), parsed);
  }
};

bool is_valid(const json& document) {
  static const ParsedSchema schema;
  valijson::Validator validator;
  return validator.validate(schema.parsed, NlohmannJsonAdapter(document), nullptr);
}

bool is_read(const json& document) {
  return ntpsim::scenario::parse_scenario(document.dump(), "x.json", {}).has_value();
}

// The small scenario with the value at `pointer` replaced, or removed when it is null.
json changed(const std::string& pointer, const json& value) {
  json document = json::parse(text_of(kScenarios / "small.json"));
  const json::json_pointer at(pointer);
  if (value.is_null()) {
    document[at.parent_pointer()].erase(at.back());
  } else {
    document[at] = value;
  }
  return document;
}

// Every object schema inside, with its pointer.
void for_each_object(const json& schema, const std::string& at,
                     const std::function<void(const json&, const std::string&)>& visit) {
  if (schema.is_object() && schema.contains("properties")) visit(schema, at);
  if (!schema.is_structured()) return;
  for (const auto& [key, value] : schema.items()) for_each_object(value, at + "/" + key, visit);
}

}  // namespace

TEST_CASE("the committed schema is what the program prints") {
  CHECK(text_of(kScenarios / "schema/scenario.schema.json") == ntpsim::scenario::scenario_schema());
}

TEST_CASE("every shipped scenario names the schema and satisfies it and the reader") {
  for (const auto& path : shipped()) {
    CAPTURE(path.string());
    const json document = json::parse(text_of(path));
    CHECK(document.value("$schema", "") == "schema/scenario.schema.json");
    CHECK(document.value("name", "") == path.stem().string());
    CHECK(is_valid(document));
    CHECK(is_read(document));
  }
}

TEST_CASE("resolved scenarios satisfy the schema") {
  for (const auto& path : shipped()) {
    CAPTURE(path.string());
    const auto loaded = ntpsim::scenario::load_scenario(path.string(), {});
    REQUIRE(loaded);
    CHECK(is_valid(json::parse(loaded->resolved_json)));
  }
}

TEST_CASE("what the schema refuses the reader refuses, and the other way round where a schema can tell") {
  const std::vector<std::pair<std::string, json>> wrong = {
      {"/cluster/gpus", "128"},
      {"/cluster/gpus", 0},
      {"/cluster/gpus", nullptr},
      {"/cluster/gpu", 3},
      {"/cluster/system", "dgx-h10"},
      {"/cluster", {{"gpus", 128}}},
      {"/cluster/nvlink_bandwidth", "900"},
      {"/model", "llama"},
      {"/model", {{"num_layers", 3}}},
      {"/training", json::array()},
      {"/training/seq_length", nullptr},
      {"/training/seq_length", 8.5},
      {"/training/seq_lenght", 8},
      {"/training/precision", "fp64"},
      {"/training/sequence_parallel", 1},
      {"/failures/classes/0/share", 0.5},
      {"/failures/classes/0/mean_time_between_failures", nullptr},
      {"/failures/classes/0/mean_time_between_failures", 5},
      {"/failures/classes/0/distribution", "weibull"},
      {"/failures/classes/0/distribution", {{"family", "weibull"}}},
      {"/failures/classes/0/distribution", {{"family", "weibull"}, {"sigma", 1}}},
      {"/failures/classes/0/repair_time", {{"family", "gamma"}, {"shape", 1}}},
      {"/failures/classes/0/repair_time", "5 days"},
      {"/failures/classes/1/rate", "5 d"},
      {"/checkpoint/interval", 3},
      {"/minibatch", "flexible"},
      {"/policies", json::array()},
      {"/policies/0", "dp-drop"},
      {"/policies/0", {{"spare_domains", 3}}},
      {"/horizon", nullptr},
      {"/replications", 0},
      {"/seed", -1},
  };
  for (const auto& [pointer, value] : wrong) {
    CAPTURE(pointer);
    CAPTURE(value.dump());
    CHECK_FALSE(is_valid(changed(pointer, value)));
    CHECK_FALSE(is_read(changed(pointer, value)));
  }
  const std::vector<std::pair<std::string, json>> right = {
      {"/cluster/gpu", "h200-sxm"},
      {"/failures/classes/0/distribution", "exponential"},
      {"/failures/classes/0/distribution", {{"family", "lognormal"}, {"sigma", 1.2}}},
      {"/failures/classes/0/repair_time", "none"},
      {"/failures/classes/0/repair_time", "1.5e1 h"},
      {"/failures", nullptr},
      {"/policies/0", {{"name", "ntp"}, {"label", "ntp+1"}, {"reduced_degrees", {7}}}},
      {"/seed", 9223372036854775807},
      {"/minibatch", "fixed"},
  };
  for (const auto& [pointer, value] : right) {
    CAPTURE(pointer);
    CAPTURE(value.dump());
    CHECK(is_valid(changed(pointer, value)));
    CHECK(is_read(changed(pointer, value)));
  }
}

TEST_CASE("editors can help: every key is described, every object is closed") {
  const json schema = json::parse(ntpsim::scenario::scenario_schema());
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  std::size_t keys = 0;
  for_each_object(schema, "", [&](const json& object, const std::string& at) {
    CAPTURE(at);
    CHECK(object.value("additionalProperties", true) == false);
    CHECK_FALSE(object.value("title", "").empty());
    for (const auto& [key, property] : object["properties"].items()) {
      CAPTURE(key);
      CHECK_FALSE(property.value("description", "").empty());
      ++keys;
    }
  });
  CHECK(keys > 100);
}
