#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/analysis/results.h"

#include "json_head.h"
#include "render.h"

namespace ntpsim::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Estimate& estimate) {
  Json json = {{"mean", estimate.mean}, {"ci95", nullptr}};
  if (estimate.ci95) json["ci95"] = {estimate.ci95->low, estimate.ci95->high};
  return json;
}

std::string key_of(double fraction) {
  return fmt::format("{}", fraction);
}

Json json_of(const FailedGpuSummary& failed) {
  Json above = Json::object();
  for (std::size_t i = 0; i < failed.time_above_fraction.size(); ++i) {
    above[key_of(failed_fraction_thresholds()[i])] = failed.time_above_fraction[i];
  }
  return {{"mean", failed.mean}, {"peak", failed.peak}, {"time_above_fraction", above}};
}

// `value_of` makes seconds or nanoseconds of a span.
template <class ValueOf>
Json json_of_ledger(const std::array<Time, sim::kCategories>& ledger, const ValueOf& value_of) {
  Json badput = Json::object();
  for (std::size_t i = 1; i < ledger.size(); ++i) {
    badput[std::string(sim::name_of(static_cast<sim::Category>(i)))] = value_of(ledger[i]);
  }
  return {{"goodput_time", value_of(ledger[0])}, {"badput_time", badput}};
}

Json json_of(const std::vector<ReducedReplica>& reduced) {
  Json list = Json::array();
  for (const ReducedReplica& replica : reduced) {
    list.push_back({{"gpus_in_group", replica.gpus},
                    {"tp_degree", replica.degree},
                    {"local_batch_sequences", replica.sequences},
                    {"power_fraction", replica.power_fraction},
                    {"step_time_ratio", replica.step_ratio}});
  }
  return list;
}

Json json_of(const std::vector<ExpectedFailures>& classes) {
  Json list = Json::array();
  for (const ExpectedFailures& each : classes) {
    list.push_back({{"name", each.name}, {"expected_per_day", each.per_day}});
  }
  return list;
}

Json json_of(const PolicyOutcome& outcome, double failures) {
  return {{"name", outcome.policy.name},
          {"label", outcome.policy.label},
          {"spare_domains", outcome.policy.spare_domains},
          {"goodput", json_of(outcome.goodput)},
          {"goodput_per_provisioned", outcome.goodput_per_provisioned},
          {"throughput_loss", json_of(outcome.throughput_loss)},
          {"effective_training_time", json_of(outcome.effective_training_time)},
          {"tokens_per_s", outcome.tokens_per_s},
          {"ledger_s", json_of_ledger(outcome.ledger, [](Time span) { return span.seconds(); })},
          {"ledger_ns", json_of_ledger(outcome.ledger, [](Time span) { return span.ns(); })},
          {"failures", failures},
          {"interruptions", outcome.interruptions},
          {"restarts", outcome.restarts},
          {"pauses", outcome.pauses},
          {"pause_fraction", outcome.pause_fraction},
          {"boosted_domain_hours", outcome.boosted_domain_hours},
          {"extra_power_w", outcome.extra_power_w},
          {"reduced_replicas", json_of(outcome.reduced)}};
}

}  // namespace

std::string render_json(const GoodputStudy& study, const LoadedScenario& loaded) {
  Json json = json_head(loaded);
  json["replications"] = loaded.scenario.run.replications;
  json["horizon_s"] = loaded.scenario.run.horizon.seconds();
  json["horizon_ns"] = loaded.scenario.run.horizon.ns();
  json["healthy"] = {{"used_gpus", study.used_gpus},
                     {"step_time_s", study.healthy_step_s},
                     {"tokens_per_s", study.healthy_tokens_per_s},
                     {"model_flop_per_s_per_gpu", study.healthy_flops_per_gpu}};
  json["failures_per_day"] = study.failures_per_day;
  json["failure_classes"] = json_of(study.expected_failures);
  json["events"] = study.events;
  json["step_times"] = {{"asked", study.steps.asked},
                        {"simulated", study.steps.simulated},
                        {"hit_rate", study.steps.hit_rate()}};
  json["failed_gpus"] = json_of(study.failed_gpus);
  json["policies"] = Json::array();
  for (const PolicyOutcome& outcome : study.policies)
    json["policies"].push_back(json_of(outcome, study.failures));
  return json.dump(2) + "\n";
}

std::string render_json(AvailabilityPoints points, std::int64_t draws, const LoadedScenario& loaded) {
  Json json = json_head(loaded);
  json["draws"] = draws;
  json["points"] = Json::array();
  for (const AvailabilityPoint& point : points) {
    const sim::PolicySpec& policy = loaded.scenario.policies[point.policy];
    json["points"].push_back({{"failed_fraction", point.failed_fraction},
                              {"failed_gpus", point.failed_gpus},
                              {"policy", policy.name},
                              {"label", policy.label},
                              {"spare_domains", policy.spare_domains},
                              {"loss", json_of(point.loss)},
                              {"domain_availability", point.domain_availability.mean},
                              {"domain_availability_ci95", json_of(point.domain_availability)["ci95"]}});
  }
  return json.dump(2) + "\n";
}

}  // namespace ntpsim::analysis
