#include "json_head.h"

#include <nlohmann/json.hpp>

#include "ntpsim/analysis/results.h"
#include "ntpsim/core/version.h"

namespace ntpsim::analysis {

using Json = nlohmann::ordered_json;

Json json_head() {
  return {{"schema_version", kSchemaVersion},
          {"tool", {{"name", "ntpsim"}, {"version", version()}, {"git", git_revision()}}}};
}

Json json_head(const scenario::LoadedScenario& loaded) {
  Json json = json_head();
  json["scenario"] = Json::parse(loaded.resolved_json);
  json["seed"] = loaded.scenario.run.seed;
  return json;
}

}  // namespace ntpsim::analysis
