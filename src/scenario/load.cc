#include <string>
#include <utility>

#include "ntpsim/scenario/scenario.h"
#include "ntpsim/scenario/text_file.h"

#include "document.h"
#include "fields.h"
#include "resolve.h"
#include "sections.h"

namespace ntpsim::scenario {

Result<LoadedScenario> parse_scenario(std::string_view text, const std::string& file,
                                      const LoadOptions& options) {
  Result<Json> json = parse_json(text, file);
  if (!json) return tl::unexpected(json.error());
  Document document{*std::move(json), file, {}};
  Diagnostics diagnostics;
  for (const std::string& set : options.sets) apply_set(set, document, diagnostics);
  Reader reader(document, diagnostics);
  ScenarioDoc doc;
  scenario_section().read(document.root, "", doc, reader);
  Scenario scenario = resolve(doc, options, reader);
  if (diagnostics.has_errors()) return tl::unexpected(std::move(diagnostics));
  Json resolved = scenario_section().write(to_document(scenario));
  leave_out_idle_defaults(scenario, resolved);
  return LoadedScenario{std::move(scenario), dump(resolved, 2), std::move(diagnostics)};
}

Result<LoadedScenario> load_scenario(const std::string& path, const LoadOptions& options) {
  const Result<std::string> text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_scenario(*text, path, options);
}

std::string scenario_schema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}};
  schema.update(scenario_section().schema());
  return dump(schema, 2) + "\n";
}

}  // namespace ntpsim::scenario
