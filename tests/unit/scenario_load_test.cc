// Scenarios: what is read, defaults, checks between values, warnings, and the resolved copy.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/models/hardware.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/scenario/scenario.h"
#include "ntpsim/sim/policy_table.h"

namespace {

using namespace ntpsim;  // NOLINT(google-build-using-namespace)
using models::Distribution;
using models::Scope;
using scenario::LoadOptions;
using scenario::Scenario;

constexpr double kDay = 86400;

std::string path_of(const std::string& name) {
  return NTPSIM_SOURCE_DIR "/scenarios/" + name + ".json";
}

// What is said about a shipped scenario with these changes, file names left out.
std::vector<std::string> said(const std::string& name, std::vector<std::string> sets,
                              std::vector<std::string> policies = {}) {
  const auto loaded = scenario::load_scenario(path_of(name), {std::move(sets), std::move(policies)});
  const Diagnostics& diagnostics = loaded ? loaded->warnings : loaded.error();
  std::vector<std::string> lines;
  for (const Diagnostic& each : diagnostics.items()) {
    lines.push_back(std::string(each.severity == Severity::kError ? "error " : "warning ") + each.pointer +
                    ": " + each.message);
  }
  CHECK(loaded.has_value() != diagnostics.has_errors());
  return lines;
}

bool any_holds(const std::vector<std::string>& lines, std::string_view part) {
  return std::ranges::any_of(lines,
                             [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

void check_says(const std::vector<std::string>& lines, std::string_view part) {
  CAPTURE(lines);
  CAPTURE(part);
  CHECK(any_holds(lines, part));
}

scenario::LoadedScenario loaded(const std::string& name, std::vector<std::string> sets = {},
                                std::vector<std::string> policies = {}) {
  auto result = scenario::load_scenario(path_of(name), {std::move(sets), std::move(policies)});
  if (!result) FAIL(to_string(result.error().items().front()));
  return *std::move(result);
}

Scenario scenario_of(const std::string& name, std::vector<std::string> sets = {},
                     std::vector<std::string> policies = {}) {
  return loaded(name, std::move(sets), std::move(policies)).scenario;
}

void check_equal(const Scenario& a, const Scenario& b) {
  CHECK(a.name == b.name);
  CHECK(a.description == b.description);
  CHECK(a.cluster == b.cluster);
  CHECK(a.job == b.job);
  CHECK(a.failures == b.failures);
  CHECK(a.policies == b.policies);
  CHECK(a.run == b.run);
}

double interruptions_per_day(const Scenario& scenario) {
  const auto& system = scenario.cluster.system;
  double per_s = 0;
  for (const auto& failure : scenario.failures.classes) {
    const std::int64_t unit = failure.component == Scope::kGpu    ? 1
                              : failure.component == Scope::kTray ? system.gpus_per_tray
                                                                  : system.domain_size;
    per_s +=
        static_cast<double>(scenario.cluster.gpus) / static_cast<double>(unit) / failure.lifetime.mean_s();
  }
  return per_s * kDay;
}

const std::vector<std::string> kShipped = {"ntp-paper-32k",
                                           "ntp-paper-fig4",
                                           "llama3-405b-16k-h100",
                                           "llama3-405b-gb200-nvl72",
                                           "one-million-gpus-one-year",
                                           "small"};

}  // namespace

TEST_CASE("shipped scenarios load without a warning") {
  for (const std::string& name : kShipped) {
    CAPTURE(name);
    CHECK(said(name, {}).empty());
  }
}

TEST_CASE("reading the resolved scenario gives the same scenario and the same resolved text") {
  const auto check = [](const scenario::LoadedScenario& first) {
    const auto second = scenario::parse_scenario(first.resolved_json, "resolved.json", {});
    if (!second) FAIL(to_string(second.error().items().front()));
    check_equal(first.scenario, second->scenario);
    CHECK(first.resolved_json == second->resolved_json);
  };
  for (const std::string& name : kShipped) {
    CAPTURE(name);
    check(loaded(name));
  }
  check(loaded("small", {"failures.classes.0.distribution={\"family\":\"gamma\",\"shape\":1.7}",
                         "failures.classes.1.repair_time=none", "failures.classes.1.rate=1e-7 /y",
                         "seed=18446744073709551615", "horizon=31.0000001 d", "cluster.nic_latency=3.4 us",
                         "power.boost_limit=1.1", "description=a\n\"b\""}));
  check(loaded("small", {"model=deepseek-v3", "cluster.system=dgx-h200", "cluster.gpus=1024",
                         "training.global_batch_size=128", "training.tensor_model_parallel_size=1",
                         "training.expert_model_parallel_size=16", "training.pipeline_model_parallel_size=8",
                         "policies=[\"dp_drop\"]"}));
  check(loaded("small", {"model=gpt-oss-120b",
                         "cluster.gpu={\"peak_bf16\":\"1 PFLOP/s\",\"memory\":\"80 GiB\","
                         "\"memory_bandwidth\":\"3 TB/s\",\"tdp\":\"1.2 kW\"}"}));
}

TEST_CASE("the paper's set-up is the paper's") {
  const Scenario paper = scenario_of("ntp-paper-32k");
  CHECK(paper.cluster.domains() == 1024);
  CHECK(paper.cluster.system == *models::find_system("b200-nvl32"));
  CHECK(paper.job.model == *models::find_model("ntp-paper-480b"));
  CHECK(paper.job.training.data_parallel_size == 128);
  CHECK(paper.job.training.local_batch() == 8);
  CHECK(paper.job.training.global_batch_size * paper.job.training.seq_length == 16777216);
  CHECK(interruptions_per_day(paper) == doctest::Approx(2 * 419.0 / 54));
  CHECK(paper.failures.classes[0].repair_time == Distribution(Distribution::Family::kConstant, 5 * kDay));
  REQUIRE(paper.policies.size() == 5);
  CHECK(paper.policies[2].spare_domains == 96);
  CHECK(paper.policies[3].reduced_degrees == std::vector<int>{31, 30, 29, 28});
  CHECK(paper.policies[0].reduced_degrees.empty());
}

TEST_CASE("the Llama 3 run has its 419 interruptions in 54 days, by cause") {
  const Scenario llama = scenario_of("llama3-405b-16k-h100");
  CHECK(interruptions_per_day(llama) == doctest::Approx(419.0 / 54));
  CHECK(llama.job.training.data_parallel_size == 128);
  // 268 GPU faults among 16,384 GPUs, 21 host faults among 2,048 trays.
  CHECK(llama.failures.classes[0].lifetime.mean_s() == doctest::Approx(54 * kDay * 16384 / 268));
  CHECK(llama.failures.classes[1].lifetime.mean_s() == doctest::Approx(54 * kDay * 2048 / 21));
  CHECK_FALSE(llama.failures.classes[3].repair_time);
}

TEST_CASE("a domain can hold several TP groups, and left-over GPUs") {
  CHECK(scenario_of("llama3-405b-gb200-nvl72").job.training.data_parallel_size == 162);
  for (const std::string virtual_stages : {"1", "4", "8", "63"}) {
    const Scenario wide =
        scenario_of("llama3-405b-gb200-nvl72",
                    {"training.tensor_model_parallel_size=64", "training.pipeline_model_parallel_size=2",
                     "training.virtual_pipeline_model_parallel_size=" + virtual_stages});
    CHECK(wide.job.training.data_parallel_size == 144);
    CHECK(wide.policies[3].reduced_degrees.front() == 63);
    CHECK(wide.policies[3].reduced_degrees.back() == 56);
  }
}

TEST_CASE("rates can be given in four ways") {
  const auto mean_of = [](const std::string& rate, const std::string& component) {
    const std::string failures =
        R"(failures={"observed": {"interruptions": 100, "duration": "10 d", "gpus": 1000},
        "classes": [{"name": "x", "component": ")" +
        component + "\", " + rate + "}]}";
    return scenario_of("small", {failures}).failures.classes[0].lifetime.mean_s();
  };
  CHECK(mean_of(R"("mean_time_between_failures": "50 d")", "tray") == 50 * kDay);
  CHECK(mean_of(R"("rate": "2 /y")", "domain") == doctest::Approx(365 * kDay / 2));
  CHECK(mean_of(R"("share": 1)", "gpu") == doctest::Approx(100 * kDay));
  CHECK(mean_of(R"("share": 0.5)", "gpu") == doctest::Approx(200 * kDay));
  CHECK(mean_of(R"("share": 0.5)", "tray") == doctest::Approx(25 * kDay));
  CHECK(mean_of(R"("causes": {"a": 20, "b": 5})", "gpu") == doctest::Approx(400 * kDay));
  CHECK(mean_of(R"("causes": {"a": 20, "b": 5})", "domain") == doctest::Approx(50 * kDay));
}

TEST_CASE("shares and causes together are at most the observed interruptions") {
  const auto with = [](const std::string& first, const std::string& second) {
    return said("small", {R"(failures={"observed": {"interruptions": 100, "duration": "10 d", "gpus": 1000},
        "classes": [{"name": "x", )" +
                          first + R"(}, {"name": "y", )" + second + "}]}"});
  };
  CHECK(with(R"("share": 0.75)", R"("causes": {"a": 25})").empty());
  CHECK(with(R"("share": 0.75)", R"("causes": {"a": 26})") ==
        std::vector<std::string>{
            "error /failures/classes: shares and causes sum to 101 interruptions, expected at "
            "most the 100 observed"});
  CHECK(with(R"("share": 0.7)", R"("causes": {"a": 20})") ==
        std::vector<std::string>{
            "warning /failures/classes: 10 of the 100 observed interruptions are in no class"});
  check_says(with(R"("rate": "1 /y")", R"("rate": "1 /y")"),
             "warning /failures/observed: no class has a share");
}

TEST_CASE("failure classes are checked") {
  const auto with = [](const std::string& failure) {
    return said("small", {"failures={\"classes\": [{" + failure + "}]}"});
  };
  check_says(with(R"("name": "x")"), "/failures/classes/0: found none of mean_time_between_failures");
  check_says(with(R"("name": "x", "rate": "1 /y", "share": 0.5)"), "/failures/classes/0: found 2 of");
  check_says(with(R"("name": "x", "share": 0.5)"), "share needs /failures/observed");
  check_says(with(R"("name": "x", "causes": {"a": 1})"), "causes needs /failures/observed");
  check_says(
      with(R"("name": "x", "rate": "1 /y", "component": "domain", "blast_radius": "tray")"),
      "/failures/classes/0/blast_radius: found tray, expected at least the component, which is domain");
  check_says(with(R"("name": "x", "mean_time_between_failures": "0 s")"),
             "/mean_time_between_failures: found text");
  check_says(with(R"("name": "x", "rate": "-1 /y")"), "/failures/classes/0/rate: found text");
  check_says(with(R"("name": "x", "rate": "1 /y", "distribution": "weibull")"), "needs its shape");
  check_says(with(R"("name": "x", "rate": "1 /y", "distribution": "weibul")"), "did you mean \"weibull\"?");
  check_says(with(R"("name": "x", "rate": "1 /y", "distribution": {"family": "lognormal", "shape": 1})"),
             "/distribution/shape: unknown key");
  check_says(with(R"("name": "x", "rate": "1 /y", "distribution": {"family": "lognormal", "shape": 1})"),
             "/distribution/sigma: missing");
  check_says(with(R"("name": "x", "rate": "1 /y", "repair_time": {"family": "gamma", "shape": 2})"),
             "/repair_time/mean: missing");
  check_says(said("small", {"failures.classes.1.name=software"}),
             "/failures/classes/2/name: the name \"software\"");
}

TEST_CASE("sizes must fit each other") {
  check_says(said("small", {"cluster.gpus=100"}),
             "error /cluster/gpus: found 100 GPUs, expected a multiple of domain_size 8, such as 96 or 104");
  check_says(said("small", {"cluster.gpus=4"}), "such as 8");
  check_says(said("small", {"cluster.gpus_per_tray=3"}), "expected a divisor of domain_size 8");
  check_says(said("small", {"training.tensor_model_parallel_size=16"}), "expected at most domain_size 8");
  check_says(said("ntp-paper-32k", {"cluster.gpus=32800"}), "TP x PP x CP = 32 x 8 x 1");
  check_says(said("ntp-paper-32k", {"cluster.gpus=32800"}), "32768 or 33024");
  check_says(said("small", {"training.data_parallel_size=9"}), "128 GPUs hold only 8 replicas");
  check_says(said("small", {"training.global_batch_size=60"}), "1 x 8, such as 56 or 64");
  check_says(said("small", {"training.global_batch_size=4"}), "such as 8");
  check_says(said("small", {"cluster.gpus=120", "training.micro_batch_size=7"}),
             "micro_batch_size = 7, such as 63 or 70");
  check_says(said("small", {"training.context_parallel_size=3"}),
             "expected a multiple of context_parallel_size 3");
  check_says(said("small", {"training.pipeline_model_parallel_size=1",
                            "training.virtual_pipeline_model_parallel_size=2"}),
             "an interleaved pipeline needs pipeline_model_parallel_size above 1");
  CHECK(said("small", {"training.virtual_pipeline_model_parallel_size=41"}).empty());
  check_says(said("small", {"training.virtual_pipeline_model_parallel_size=42"}),
             "2 x 42 chunks are more than the 80");
  check_says(said("small", {"training.precision=nvfp4"}), "h100-sxm GPUs have no nvfp4; they have bf16");
  const std::string narrow =
      R"(model={"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "ffn_hidden_size": 6, "vocab_size": 9})";
  check_says(said("small", {narrow}),
             "found 8, expected at most 4, the number of attention heads of inline model");
  check_says(said("small", {narrow}), "found 8, expected at most 6, the FFN width of inline model");
}

TEST_CASE("fewer replicas than the cluster holds leave spare GPUs") {
  const Scenario scenario =
      scenario_of("small", {"cluster.system=dgx-h200", "training.data_parallel_size=4"});
  CHECK(scenario.job.training.data_parallel_size == 4);
  CHECK(scenario.job.training.local_batch() == 16);
}

TEST_CASE("expert parallelism") {
  check_says(said("small", {"training.expert_model_parallel_size=2"}, {"dp_drop"}),
             "llama3-70b has no experts");
  const auto moe = [](std::vector<std::string> sets, std::vector<std::string> policies = {"dp_drop"}) {
    sets.insert(sets.begin(), {"model=mixtral-8x7b", "training.tensor_model_parallel_size=2"});
    return said("small", std::move(sets), std::move(policies));
  };
  CHECK_FALSE(any_holds(moe({"training.expert_model_parallel_size=8"}), "error"));
  check_says(moe({"training.expert_model_parallel_size=3"}), "expected a divisor of the 8 experts");
  check_says(moe({"training.expert_model_parallel_size=2"}, {"ntp"}),
             "error /policies/3: ntp does not support expert_model_parallel_size above 1; found 2");
  check_says(moe({"training.expert_model_parallel_size=8", "training.data_parallel_size=12"}),
             "spans 8 replicas");
  const auto resolved_etp = [](const std::string& model, std::vector<std::string> sets = {}) {
    sets.push_back("model=" + model);
    return scenario_of("small", sets).job.training.expert_tensor_parallel_size;
  };
  CHECK(resolved_etp("mixtral-8x7b") == 8);
  CHECK(resolved_etp("llama3-70b") == 1);
  CHECK(resolved_etp("mixtral-8x7b", {"training.expert_tensor_parallel_size=1", "policies=[\"dp_drop\"]",
                                      "training.expert_model_parallel_size=8"}) == 1);
}

TEST_CASE("a job whose weights and optimizer state exceed the memory is refused") {
  check_says(said("small", {"training.tensor_model_parallel_size=1", "training.global_batch_size=1024"},
                  {"dp_drop"}),
             "error /training: does not fit: at TP 1 a GPU needs");
  check_says(said("small",
                  {"cluster.gpu={\"peak_bf16\":\"1 PFLOP/s\",\"memory\":\"30 GB\","
                   "\"memory_bandwidth\":\"3 TB/s\",\"tdp\":\"1 kW\"}"},
                  {"ntp"}),
             "at the reduced TP degree 7 of ntp a GPU needs");
}

TEST_CASE("reduced degrees: defaults and limits") {
  const auto degrees = [](int tp) {
    return scenario_of("ntp-paper-32k",
                       {"model=llama3-8b", "training.tensor_model_parallel_size=" + std::to_string(tp),
                        "training.global_batch_size=16384", "training.data_parallel_size=128"},
                       {"ntp"})
        .policies[0]
        .reduced_degrees;
  };
  CHECK(degrees(2) == std::vector<int>{1});
  CHECK(degrees(4) == std::vector<int>{3});
  CHECK(degrees(8) == std::vector<int>{7});
  CHECK(degrees(12) == std::vector<int>{11});
  CHECK(degrees(16) == std::vector<int>{15, 14});
  CHECK(scenario_of("small",
                    {"cluster.system=dgx-h200", "policies.3={\"name\":\"ntp\",\"reduced_degrees\":[5,7]}"})
            .policies[3]
            .reduced_degrees == std::vector<int>{7, 5});
  const auto with = [](const std::string& list) {
    return said("small", {"policies.3={\"name\":\"ntp\",\"reduced_degrees\":" + list + "}"});
  };
  check_says(with("[8]"), "error /policies/3/reduced_degrees: found 8, expected degrees from 1 to 7");
  check_says(with("[0]"), "error /policies/3/reduced_degrees/0: found the number 0");
  check_says(with("[6,7,6]"), "6 occurs twice");
  check_says(with("[]"), "found an empty list");
  check_says(said("small", {"training.tensor_model_parallel_size=1"}),
             "error /policies/3: ntp needs tensor_model_parallel_size of at least 2; found 1");
  check_says(said("small", {"policies.0={\"name\":\"dp_drop\",\"reduced_degrees\":[7]}"}),
             "warning /policies/0/reduced_degrees: dp_drop does not read it");
}

TEST_CASE("power boost needs a power curve and stays on it") {
  const double end = models::find_gpu("h100-sxm")->power_curve.max_power();
  CHECK(scenario_of("small").job.boost_limit == doctest::Approx(std::min(1.3, end)));
  check_says(said("small", {"power.boost_limit=1.31"}, {"ntp_pw"}), "where the power curve of h100-sxm ends");
  check_says(said("small", {"power.boost_limit=0.9"}), "error /power/boost_limit: found the number 0.9");
  const std::string gpu = R"(cluster.gpu={"name": "plain", "peak_bf16": "1 PFLOP/s", "memory": "80 GB",
                             "memory_bandwidth": "3 TB/s", "tdp": "1 kW")";
  check_says(said("small", {gpu + "}"}, {"ntp_pw"}),
             "error /cluster/gpu: plain has no power curve, which ntp_pw needs");
  CHECK(scenario_of("small", {gpu + "}"}, {"ntp"}).job.boost_limit == 1);
  const auto with_curve = [&](const std::string& points) {
    return said("small", {gpu + ", \"power_curve\": " + points + "}"}, {"ntp_pw"});
  };
  CHECK_FALSE(any_holds(with_curve(R"([{"power_fraction": 1, "compute_speed": 1},
                                       {"power_fraction": 1.2, "compute_speed": 1.1}])"),
                        "error"));
  for (const std::string points : {R"([{"power_fraction": 1.1, "compute_speed": 1.1}])",
                                   R"([{"power_fraction": 1, "compute_speed": 1},
                                       {"power_fraction": 1.1, "compute_speed": 1}])"}) {
    check_says(with_curve(points),
               "error /cluster/gpu/power_curve: expected points that start at power_fraction 1");
  }
}

TEST_CASE("policies can be chosen by name or label, and keep their configuration") {
  const Scenario chosen = scenario_of("small", {}, {"ntp_pw", "hot_spares"});
  REQUIRE(chosen.policies.size() == 2);
  CHECK(chosen.policies[0].name == "ntp_pw");
  CHECK(chosen.policies[0].spare_domains == 0);
  CHECK(chosen.policies[1].spare_domains == 2);

  const std::string two =
      R"(policies=["ntp", {"name": "ntp", "label": "ntp+2", "spare_domains": 2}, "dp_drop"])";
  const auto labels = [&](std::vector<std::string> policies) {
    std::vector<std::string> found;
    for (const auto& policy : scenario_of("small", {two}, std::move(policies)).policies)
      found.push_back(policy.label);
    return found;
  };
  CHECK(labels({}) == std::vector<std::string>{"ntp", "ntp+2", "dp_drop"});
  CHECK(labels({"ntp+2", "dp_drop"}) == std::vector<std::string>{"ntp+2", "dp_drop"});
  check_says(said("small", {"policies=[\"ntp\", \"ntp\"]"}),
             "error /policies/1/label: the label \"ntp\" is taken");
  check_says(said("small", {}, {"npt"}), "error : unknown policy \"npt\"; did you mean \"ntp\"?");
  check_says(said("small", {"policies.0=dp-drop"}),
             "error /policies/0: unknown policy \"dp-drop\"; did you mean \"dp_drop\"?");
}

TEST_CASE("inputs that cannot affect the result are named") {
  const auto& table = sim::policy_table();
  const bool boost_is_read_by_ntp_pw_only = std::ranges::all_of(table, [](const sim::PolicyInfo& policy) {
    return policy.boosts ==
           (std::ranges::find(policy.settings, "/power/boost_limit") != policy.settings.end());
  });
  CHECK(boost_is_read_by_ntp_pw_only);
  const auto dp_drop = said("ntp-paper-32k", {}, {"dp_drop"});
  check_says(dp_drop,
             "warning /power/boost_limit: no chosen policy reads it, so it has no effect (read by: ntp_pw)");
  check_says(said("small", {"power.boost_limit=1.1"}),
             "warning /power/boost_limit: no chosen policy reads it");
  CHECK(said("small", {"power.boost_limit=1.1"}, {"dp_drop", "ntp_pw"}).empty());
  check_says(said("small", {"training.expert_tensor_parallel_size=1"}),
             "warning /training/expert_tensor_parallel_size");
  check_says(
      said("small", {"training.use_distributed_optimizer=false", "training.overlap_param_gather=true"}),
      "warning /training/overlap_param_gather");
  CHECK_FALSE(any_holds(said("small", {"training.use_distributed_optimizer=false"}), "overlap_param_gather"));
  check_says(said("small", {"training.tensor_model_parallel_size=1", "training.sequence_parallel=true"},
                  {"dp_drop"}),
             "warning /training/sequence_parallel");
  check_says(said("ntp-paper-32k", {"cluster.gpus_per_tray=4"}), "warning /cluster/gpus_per_tray");
  CHECK(said("small", {"cluster.gpus_per_tray=4"}).empty());
  check_says(said("small", {"failures={}"}),
             "warning /failures/classes: there are none, so nothing ever fails");
  check_says(said("small", {"policies=[\"hot_spares\"]"}), "warning /policies/0: hot_spares has no spares");
  CHECK(said("small", {"policies=[\"hot_spares\"]", "training.data_parallel_size=4"}).empty());
}

TEST_CASE("an inline cluster") {
  const std::string cluster = R"(cluster={"gpu": "b200", "gpus": 128, "domain_size": 16,
      "nvlink_bandwidth": "900 GB/s", "nic_bandwidth": "400 Gbit/s"})";
  const Scenario scenario = scenario_of("small", {cluster});
  CHECK(scenario.cluster.system.gpu == *models::find_gpu("b200"));
  CHECK(scenario.cluster.system.gpus_per_tray == 16);
  CHECK(scenario.cluster.system.nic_bandwidth == Bandwidth(50e9));
  CHECK(scenario.cluster.domains() == 8);
  const auto lines = said("small", {R"(cluster={"gpus": 128})"});
  for (const std::string key : {"gpu", "domain_size", "nvlink_bandwidth", "nic_bandwidth"}) {
    check_says(lines, "error /cluster/" + key + ": missing; a cluster without \"system\" needs it");
  }
  CHECK(scenario_of("small", {"cluster.nic_bandwidth=100 Gbit/s"}).cluster.system.nic_bandwidth ==
        Bandwidth(12.5e9));
}

TEST_CASE("all violations are reported at once") {
  const auto lines = said(
      "small", {"training.seq_lenght=1", "training.micro_batch_size=0", "horizon=5", "cluster.gpus=\"8\"",
                "failures.classes.1.component=rack", "seed=-1", "training.precision=fp4",
                "checkpoint.save=-1 s", "policies.0=dpdrop", "replications=1000001", "minibatch=8"});
  CHECK(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("error"); }) ==
        11);
}

TEST_CASE("sizes at their limits do not overflow") {
  check_says(said("small", {"cluster.gpus=9223372036854775807"}), "from 1 to 20000000");
  check_says(said("small", {"cluster.gpus=18446744073709551615"}), "found the number 18446744073709551615");
  check_says(said("small", {"seed=18446744073709551616"}),
             "expected a whole number from 0 to 18446744073709551615");
  CHECK(scenario_of("small", {"seed=18446744073709551615"}).run.seed ==
        std::numeric_limits<std::uint64_t>::max());
  check_says(
      said("small",
           {"cluster.gpus=20000000", "cluster.domain_size=4096", "cluster.gpus_per_tray=4096",
            "training.tensor_model_parallel_size=4096", "training.pipeline_model_parallel_size=4096",
            "training.virtual_pipeline_model_parallel_size=4096", "training.context_parallel_size=4096",
            "training.expert_model_parallel_size=4096", "training.expert_tensor_parallel_size=4096",
            "training.data_parallel_size=20000000", "training.micro_batch_size=1000000000",
            "training.global_batch_size=1000000000", "training.seq_length=1000000000"}),
      "error");
}

TEST_CASE("hardware has bounds, and peaks that a GPU may lack can be zero") {
  const auto gpu_with = [](const std::string& key, const std::string& value) {
    const std::string gpu =
        R"(cluster.gpu={"peak_bf16": "1 PFLOP/s", "memory": "80 GB", "memory_bandwidth": "3 TB/s", "tdp": "1 kW"})";
    return said("small", {gpu, "cluster.gpu." + key + "=" + value}, {"ntp"});
  };
  CHECK(gpu_with("peak_fp8", "0 FLOP/s").empty());
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"peak_bf16", "0 FLOP/s"},
                                                        {"peak_bf16", "1e300 FLOP/s"},
                                                        {"peak_fp8", "1 FLOP/s"},
                                                        {"peak_fp8", "1e25 FLOP/s"},
                                                        {"attainable", "0.001"},
                                                        {"memory", "1 kB"},
                                                        {"memory", "1e16 B"},
                                                        {"memory_bandwidth", "1e-3 B/s"},
                                                        {"memory_bandwidth", "1e16 B/s"},
                                                        {"tdp", "0.5 W"},
                                                        {"tdp", "2 MW"}}) {
    CAPTURE(key);
    CAPTURE(value);
    CHECK(any_holds(gpu_with(key, value), "error /cluster/gpu/" + key + ": "));
  }
  check_says(said("small", {"cluster.nic_bandwidth=1 kB/s"}), "error /cluster/nic_bandwidth: found text");
  check_says(said("small", {"cluster.nvlink_bandwidth=1e300 B/s"}), "error /cluster/nvlink_bandwidth: found");
}

TEST_CASE("a step has limits in tokens and in time") {
  check_says(said("small", {"training.global_batch_size=1000000000", "training.seq_length=1000000001"}),
             "error /training/seq_length: found the number 1000000001");
  check_says(
      said("small", {"training.global_batch_size=1000000000", "training.seq_length=8000000"}),
      "error /training/global_batch_size: global_batch_size x seq_length = 1000000000 x 8000000 tokens");
  check_says(said("small", {"training.global_batch_size=6400000"}),
             "error /training: one step of the healthy job takes ");
}

TEST_CASE("the work to simulate has limits, and the message names what to lower") {
  check_says(said("small", {"policies.2.spare_domains=2600000"}),
             "are 20800128 GPUs, expected at most 20000000; lower spare_domains");
  check_says(said("small", {"replications=1000000", "horizon=10 y"}),
             "error /replications: would simulate about");
  check_says(said("small", {"failures.classes.1.rate=0.9 /s", "horizon=100 y"}),
             "most of them of class \"host\"; expected at most 2e+09 in all; shorten the horizon");
  const auto plain = [](std::vector<std::string> sets) {
    const std::string system = R"(cluster={"gpu": "b200", "domain_size": 1, "gpus": 4194304,
                                 "nvlink_bandwidth": "900 GB/s", "nic_bandwidth": "400 Gbit/s"})";
    sets.insert(sets.begin(),
                {system, "model=llama3-8b", "training.tensor_model_parallel_size=1",
                 "training.pipeline_model_parallel_size=4", "training.global_batch_size=1048576",
                 "failures.classes=[]", "training.seq_length=1024"});
    return said("small", std::move(sets));
  };
  const auto policies = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) {
      list += (list.empty() ? "" : ", ") + (R"({"name": "dp_drop", "label": "p)" + std::to_string(i) + "\"}");
    }
    return "policies=[" + list + "]";
  };
  CHECK_FALSE(any_holds(plain({policies(23)}), "error"));
  check_says(plain({policies(24)}), "100663296 domains to simulate, expected at most 100000000");
  check_says(plain({policies(24)}), "lower the number of policies");
  check_says(plain({policies(33)}), "error /policies: found a list of 33, expected at most 32 entries");
  check_says(said("small", {}, std::vector<std::string>(33, "ntp")),
             "found 33 policies, expected at most 32");
}

TEST_CASE("many reduced degrees: the first 64 by default, at most 64 given") {
  const std::vector<std::string> wide = {
      R"(cluster={"gpu": "b200", "domain_size": 1024, "gpus": 4096,
          "nvlink_bandwidth": "900 GB/s", "nic_bandwidth": "400 Gbit/s"})",
      R"(model={"num_layers": 4, "hidden_size": 65536, "num_attention_heads": 1024,
          "ffn_hidden_size": 65536, "vocab_size": 32000})",
      "training.tensor_model_parallel_size=1024", "training.pipeline_model_parallel_size=1"};
  const auto degrees = scenario_of("small", wide, {"ntp"}).policies[0].reduced_degrees;
  CHECK(degrees.size() == 64);
  CHECK(degrees.front() == 1023);
  CHECK(degrees.back() == 960);
  std::string list;
  for (int i = 1; i <= 65; ++i) list += (list.empty() ? "" : ",") + std::to_string(i);
  check_says(said("small", {R"(policies.3={"name":"ntp","reduced_degrees":[)" + list + "]}"}),
             "/policies/3/reduced_degrees: found a list of 65, expected at most 64 entries");
}

TEST_CASE("shapes stay where means and quantiles make sense") {
  const auto shape = [](const std::string& family, const std::string& key, const std::string& value) {
    return said("small", {R"(failures.classes.0.distribution={"family": ")" + family + R"(", ")" + key +
                          "\": " + value + "}"});
  };
  for (const std::string family : {"weibull", "gamma"}) {
    CHECK(shape(family, "shape", "0.2").empty());
    CHECK(shape(family, "shape", "20").empty());
    check_says(shape(family, "shape", "0.19"), "/distribution/shape: found the number 0.19");
    check_says(shape(family, "shape", "20.1"), "expected a number from 0.2 to 20");
  }
  CHECK(shape("lognormal", "sigma", "0.01").empty());
  CHECK(shape("lognormal", "sigma", "3").empty());
  check_says(shape("lognormal", "sigma", "3.1"), "expected a number from 0.01 to 3");
  check_says(shape("lognormal", "sigma", "0.001"), "expected a number from 0.01 to 3");
}

TEST_CASE("a rate may be as small as any") {
  const Scenario rare = scenario_of("small", {"failures.classes.1.rate=1e-200 /y"});
  CHECK(rare.failures.classes[1].lifetime.mean_s() == doctest::Approx(365 * kDay * 1e200));
  check_says(said("small", {"failures.classes.1.rate=0 /y"}), "error /failures/classes/1/rate: found text");
  check_says(said("small", {"failures.classes.1.rate=1e-310 /s"}), "error /failures/classes/1");
}

TEST_CASE("a resolved scenario gives no warning that the original did not give, under any policy") {
  for (const std::string& name : kShipped) {
    for (const sim::PolicyInfo& policy : sim::policy_table()) {
      CAPTURE(name);
      CAPTURE(policy.name);
      const LoadOptions options{{}, {std::string(policy.name)}};
      const auto first = scenario::load_scenario(path_of(name), options);
      REQUIRE(first);
      const auto second = scenario::parse_scenario(first->resolved_json, "resolved.json", {});
      REQUIRE(second);
      check_equal(first->scenario, second->scenario);
      CHECK(first->resolved_json == second->resolved_json);
      std::vector<std::string> known;
      for (const Diagnostic& each : first->warnings.items()) known.push_back(each.message);
      for (const Diagnostic& each : second->warnings.items()) {
        CAPTURE(to_string(each));
        CHECK(std::ranges::find(known, each.message) != known.end());
      }
    }
  }
}

TEST_CASE("overlap and age without effect are named") {
  check_says(said("small", {"training.tp_comm_overlap=true", "training.sequence_parallel=false"}),
             "warning /training/tp_comm_overlap: only collectives of sequence_parallel are hidden");
  check_says(said("small",
                  {"training.tp_comm_overlap=true", "training.tensor_model_parallel_size=1",
                   "training.pipeline_model_parallel_size=16"},
                  {"dp_drop"}),
             "warning /training/tp_comm_overlap: tensor_model_parallel_size is 1");
  CHECK(said("small", {"training.tp_comm_overlap=true"}).empty());
  CHECK(said("small", {"failures.initial_age=new"}).empty());
  const std::string idle = "warning /failures/initial_age: no class has lives that depend on age";
  check_says(said("small", {"failures.initial_age=new", "failures.classes.0.distribution=exponential"}),
             idle);
  check_says(said("small", {"failures={\"initial_age\": \"stationary\"}"}), idle);
}

TEST_CASE("layers and experts must fit each other") {
  const auto moe = [](const std::string& dense, const std::string& shared) {
    return said("small",
                {R"(model={"num_layers": 80, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 9,
        "ffn_hidden_size": 4, "experts": {"num_experts": 8, "router_topk": 2, "ffn_hidden_size": 64,
        "dense_layers": )" +
                 dense + R"(, "shared_expert_intermediate_size": )" + shared + "}}"},
                {"dp_drop"});
  };
  CHECK_FALSE(any_holds(moe("0", "0"), "error"));
  check_says(moe("1", "0"), "found 8, expected at most 4, the FFN width");
  check_says(moe("0", "6"), "found 8, expected at most 6, the width of the shared experts");
  check_says(moe("80", "0"), "error /model/experts/dense_layers: found 80, expected less than num_layers");
}

TEST_CASE("names are short and printable; descriptions hold anything") {
  const std::string expected = "expected text of 1 to 200 characters without control characters";
  for (const std::string& bad : {std::string(), std::string("a\nb"), std::string("\x1b[31m"),
                                 std::string("a\x7f"), std::string("a\xC2\x9b"), std::string(201, 'x')}) {
    CAPTURE(bad);
    check_says(said("small", {"name=" + bad}), "error /name: found text ");
    check_says(said("small", {"name=" + bad}), expected);
    check_says(said("small", {"cluster.name=" + bad}), "error /cluster/name: ");
    check_says(said("small", {"failures.classes.0.name=" + bad}), "error /failures/classes/0/name: ");
    check_says(said("small", {"policies.2.label=" + bad}), "error /policies/2/label: ");
    CHECK(scenario_of("small", {"description=" + bad}).description == bad);
  }
  std::string widest;
  for (int i = 0; i < 200; ++i) widest += "\xC3\xA9";
  CHECK(scenario_of("small", {"name=" + widest}).name == widest);
}

TEST_CASE("messages cut and escape what users wrote") {
  const std::string longest(10'000, 'x');
  for (const std::string& line : said("small", {"training." + longest + "=1", "minibatch=" + longest,
                                                "horizon=" + longest, "name=" + longest})) {
    CAPTURE(line);
    CHECK(line.size() < 900);  // with all the keys that are known
    CHECK(line.find("xxx...\"") != std::string::npos);
  }
  check_says(said("small", {"minibatch=\"\\u001b\\n\""}), "unknown minibatch rule \"\\u001b\\n\"");
  // Cut between characters, never within one.
  std::string wide = "x";
  for (int i = 0; i < 100; ++i) wide += "\xC3\xA9";
  for (const std::string& line : said("small", {"minibatch=" + wide})) {
    CHECK(line.find("\xC3\xA9...\"") != std::string::npos);
    CHECK(line.find("\xEF\xBF\xBD") == std::string::npos);
  }
  std::string keys;
  for (int i = 0; i < 100'000; ++i) keys += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  const auto lines = said("small", {"recovery={" + keys + "}"});
  CHECK(lines.size() == 51);
  CHECK(lines.back() == "error /recovery: and 99950 more unknown keys");
}

TEST_CASE("suggestions are what would be accepted") {
  check_says(said("small", {"policies=[{\"name\":\"ntp\",\"label\":\"wide spares\"}]"}, {"wide spare"}),
             "unknown policy \"wide spare\"; did you mean \"wide spares\"?");
  const auto lines =
      said("small", {"cluster.gpus=19999999", "cluster.domain_size=4096", "cluster.gpus_per_tray=1"});
  check_says(lines, "expected a multiple of domain_size 4096, such as 19996672");
  CHECK_FALSE(any_holds(lines, "20000768"));
}
