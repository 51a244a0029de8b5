#pragma once

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
/// Warns of inputs that cannot affect the result.
void warn_of_idle_inputs(const ScenarioDoc& doc, const Scenario& scenario, Reader& reader);

}  // namespace ntpsim::scenario
