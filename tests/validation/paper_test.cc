// The shipped scenarios against published figures (../shared/data, sources named there).

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/analysis/availability_study.h"
#include "ntpsim/analysis/goodput_study.h"
#include "ntpsim/scenario/scenario.h"

namespace {

using ntpsim::analysis::AvailabilityPoint;
using ntpsim::analysis::GoodputStudy;
using ntpsim::scenario::LoadedScenario;
using ntpsim::scenario::LoadOptions;

LoadedScenario load(const std::string& name, const LoadOptions& options = {}) {
  auto loaded =
      ntpsim::scenario::load_scenario(std::string(NTPSIM_SOURCE_DIR "/scenarios/") + name + ".json", options);
  REQUIRE(loaded.has_value());
  return *std::move(loaded);
}

// Mean loss by policy and failed fraction, 1000 draws each.
std::map<std::string, std::map<double, AvailabilityPoint>> availability(
    const LoadedScenario& loaded, const std::vector<double>& fractions) {
  std::map<std::string, std::map<double, AvailabilityPoint>> by_policy;
  for (const AvailabilityPoint& point : ntpsim::analysis::run_availability_study(
           loaded.scenario, {.failed_fractions = fractions, .draws = 1000}, {.threads = 2, .progress = {}})) {
    by_policy[loaded.scenario.policies[point.policy].name][point.failed_fraction] = point;
  }
  return by_policy;
}

TEST_CASE("NTP paper, Figure 6: loss against failed fraction") {
  // data/ntp_paper/targets.json, fig6.derived_mean_loss_packed.
  const std::map<double, double> drop_loss = {
      {0.0005, 0.0156}, {0.001, 0.036}, {0.002, 0.065}, {0.003, 0.0943}, {0.004, 0.124}};
  const std::map<double, double> ntp_loss = {
      {0.0005, 0.002}, {0.001, 0.0045}, {0.002, 0.0082}, {0.003, 0.0119}, {0.004, 0.0157}};
  auto points = availability(load("ntp-paper-32k", {.sets = {}, .policies = {"dp_drop", "ntp", "ntp_pw"}}),
                             {0.0005, 0.001, 0.002, 0.003, 0.004});
  constexpr double kTolerance = 0.004;
  for (const auto& [fraction, expected] : drop_loss) {
    const double loss = points["dp_drop"][fraction].loss.mean;
    MESSAGE("dp_drop at ", fraction, ": published ", expected, ", simulated ", loss);
    CHECK(std::abs(loss - expected) <= kTolerance);
  }
  for (const auto& [fraction, expected] : ntp_loss) {
    const double loss = points["ntp"][fraction].loss.mean;
    MESSAGE("ntp at ", fraction, ": published ", expected, ", simulated ", loss);
    CHECK(std::abs(loss - expected) <= kTolerance);
    CHECK(points["ntp_pw"][fraction].loss.mean < 0.01);
    CHECK(points["ntp_pw"][fraction].loss.mean <= loss);
  }
  CHECK(points["dp_drop"][0.004].loss.mean >= 0.120);
  CHECK(points["dp_drop"][0.004].loss.mean <= 0.129);
  CHECK(points["ntp"][0.004].loss.mean >= 0.012);
  CHECK(points["ntp"][0.004].loss.mean <= 0.03);
}

TEST_CASE("NTP paper, Figure 3: share of GPUs in domains without a failure") {
  auto points = availability(
      load("ntp-paper-32k", {.sets = {"cluster.domain_size=64"}, .policies = {"dp_drop"}}), {0.001, 0.0035});
  CHECK(std::abs(points["dp_drop"][0.001].domain_availability.mean - 0.938) <= 0.002);
  // (1 - f)^64; the paper's figure reads 0.94 and 0.80.
  CHECK(std::abs(points["dp_drop"][0.0035].domain_availability.mean - std::pow(1 - 0.0035, 64)) <= 0.002);
}

TEST_CASE("NTP paper, Figure 4: share of 15 days with more than 0.1% of the GPUs failed") {
  const LoadedScenario loaded = load("ntp-paper-fig4");
  const GoodputStudy study =
      ntpsim::analysis::run_goodput_study(loaded.scenario, {.threads = 2, .progress = {}});
  const double share = study.failed_gpus.time_above_fraction[1];
  REQUIRE(ntpsim::analysis::failed_fraction_thresholds()[1] == 0.001);
  MESSAGE("published 0.81, simulated ", share);
  CHECK(share >= 0.78);
  CHECK(share <= 0.85);
}

TEST_CASE("Llama 3 report: 419 interruptions in 54 days of 16,384 H100, over 90% effective training time") {
  const LoadedScenario loaded = load("llama3-405b-16k-h100");
  const GoodputStudy study =
      ntpsim::analysis::run_goodput_study(loaded.scenario, {.threads = 2, .progress = {}});
  MESSAGE("published 7.76 a day, simulated ", study.failures_per_day);
  CHECK(study.failures_per_day == doctest::Approx(419.0 / 54).epsilon(0.02));
  bool found = false;
  for (const auto& outcome : study.policies) {
    if (outcome.policy.name != "checkpoint_restart") continue;
    found = true;
    MESSAGE("effective training time: published over 0.90, simulated ", outcome.effective_training_time.mean);
    CHECK(outcome.effective_training_time.mean > 0.90);
  }
  CHECK(found);
}

}  // namespace
