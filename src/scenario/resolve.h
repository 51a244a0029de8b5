#pragma once

#include <cstdint>

#include "ntpsim/scenario/scenario.h"

#include "fields.h"
#include "sections.h"

namespace ntpsim::scenario {

/// Looks up catalog entries, fills in the defaults that depend on other values, checks the values against
/// each other, and warns of those that cannot affect the result. Reports every violation it can tell; the
/// scenario is meaningful only when none was reported, here or while the document was read.
[[nodiscard]] Scenario resolve(const ScenarioDoc& doc, const LoadOptions& options, Reader& reader);

/// The document of a resolved scenario: resolving it again gives the same scenario.
[[nodiscard]] ScenarioDoc to_document(const Scenario& scenario);

// Its parts, in the order in which they run.

/// Mean time between failures of each class, from whichever way the document gives it.
[[nodiscard]] sim::FailureSpec resolve_failures(const FailuresDoc& doc, const models::SystemSpec& system,
                                                Reader& reader);
/// Resolves the parallel degrees against the cluster and model, and checks them.
[[nodiscard]] models::TrainingSpec resolve_training(const TrainingDoc& doc, const sim::ClusterSpec& cluster,
                                                    const models::TransformerSpec& model, Reader& reader);
/// The policies to run, with their defaults.
[[nodiscard]] std::vector<sim::PolicySpec> resolve_policies(const ScenarioDoc& doc,
                                                            const LoadOptions& options,
                                                            const sim::ClusterSpec& cluster,
                                                            const models::TrainingSpec& training,
                                                            Reader& reader);
/// Refuses what would take absurdly long or much memory to simulate, and jobs whose steps take absurdly long.
void check_work(const Scenario& scenario, Reader& reader);
/// Warns of inputs that cannot affect the result.
void warn_of_idle_inputs(const ScenarioDoc& doc, const Scenario& scenario, Reader& reader);

/// Takes from the JSON of `to_document(scenario)` what cannot affect the result and has its default anyway,
/// so that reading it back gives no warning that the user did not earn.
void leave_out_idle_defaults(const Scenario& scenario, Json& document);

/// Most power of a boosted GPU, as a fraction of TDP, when the scenario does not say.
[[nodiscard]] double default_boost_limit(const models::GpuSpec& gpu);

/// ", such as 56 or 64": the multiples of `step` next to `value`, those from 1 to `max`; may be empty.
[[nodiscard]] std::string nearest_multiples(std::int64_t value, std::int64_t step, std::int64_t max);

}  // namespace ntpsim::scenario
