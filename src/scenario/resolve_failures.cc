#include <cmath>
#include <set>

#include <fmt/format.h>

#include "resolve.h"

namespace ntpsim::scenario {
namespace {

using models::Distribution;

constexpr std::string_view kObserved = "/failures/observed";
constexpr std::string_view kClasses = "/failures/classes";

std::int64_t total(const std::map<std::string, std::int64_t>& causes) {
  std::int64_t sum = 0;
  for (const auto& [cause, count] : causes) sum += count;
  return sum;
}

// The part of the observed interruptions that a class takes; nothing when it gives its rate itself.
std::optional<double> observed_share(const FailureClassDoc& doc, const Observed& observed) {
  if (doc.share) return doc.share;
  if (!doc.causes) return std::nullopt;
  return static_cast<double>(total(*doc.causes)) / static_cast<double>(observed.interruptions);
}

void check_rate_keys(const FailureClassDoc& doc, const FailuresDoc& failures, const std::string& pointer,
                     Reader& reader) {
  const int given = static_cast<int>(doc.mean_time_between_failures_s.has_value()) +
                    static_cast<int>(doc.rate_per_s.has_value()) + static_cast<int>(doc.share.has_value()) +
                    static_cast<int>(doc.causes.has_value());
  if (given != 1) {
    reader.error(pointer,
                 fmt::format("found {} of mean_time_between_failures, rate, share and causes; expected "
                             "exactly one",
                             given == 0 ? "none" : fmt::format("{}", given)));
    return;
  }
  if ((doc.share || doc.causes) && !failures.observed && reader.good({kObserved})) {
    reader.error(pointer, fmt::format("{} needs /failures/observed, of which it is a part",
                                      doc.share ? "share" : "causes"));
  }
  if (doc.causes && total(*doc.causes) == 0) {
    reader.error(child_pointer(pointer, "causes"), "the counts sum to 0: leave the class out instead");
  }
}

// Mean time between failures of one unit, in seconds. REQUIRES: the class passed `check_rate_keys`.
double mean_time_between_failures(const FailureClassDoc& doc, const FailuresDoc& failures,
                                  const models::SystemSpec& system) {
  if (doc.mean_time_between_failures_s) return *doc.mean_time_between_failures_s;
  if (doc.rate_per_s) return 1 / *doc.rate_per_s;
  const Observed observed = failures.observed.value_or(Observed());
  const double gpu_seconds = observed.duration_s * static_cast<double>(observed.gpus);
  const double share = observed_share(doc, observed).value_or(0);
  const double rate_per_gpu = share * static_cast<double>(observed.interruptions) / gpu_seconds;
  return 1 / (rate_per_gpu * sim::gpus_of(doc.component, system));
}

models::FailureClass resolve_class(const FailureClassDoc& doc, const FailuresDoc& failures,
                                   const models::SystemSpec& system, const std::string& pointer,
                                   Reader& reader) {
  models::FailureClass failure;
  failure.name = doc.name;
  failure.component = doc.component;
  failure.blast_radius = doc.blast_radius.value_or(doc.component);
  if (failure.blast_radius < failure.component) {
    reader.error(child_pointer(pointer, "blast_radius"),
                 fmt::format("found {}, expected at least the component, which is {}",
                             to_string(failure.blast_radius), to_string(failure.component)));
  }
  if (reader.good({pointer})) check_rate_keys(doc, failures, pointer, reader);
  if (!reader.good(
          {pointer, kObserved, "/cluster/system", "/cluster/domain_size", "/cluster/gpus_per_tray"})) {
    return failure;
  }
  const double mean_s = mean_time_between_failures(doc, failures, system);
  constexpr double kShortest = 1;
  if (mean_s < kShortest || !std::isfinite(mean_s)) {
    reader.error(pointer,
                 fmt::format("a {} fails every {} s on average, expected at least {} s between failures and "
                             "no rate that is all but 0",
                             to_string(doc.component), mean_s, kShortest));
    return failure;
  }
  failure.lifetime = Distribution(doc.distribution.family, mean_s, doc.distribution.shape);
  if (doc.repair_time) {
    failure.repair_time =
        Distribution(doc.repair_time->family, doc.repair_time->mean_s, doc.repair_time->shape);
  }
  return failure;
}

void check_shares(const FailuresDoc& doc, Reader& reader) {
  if (!doc.observed || !reader.good({kObserved, kClasses})) return;
  double sum = 0;
  bool any = false;
  for (const FailureClassDoc& each : doc.classes) {
    const auto share = observed_share(each, *doc.observed);
    any = any || share.has_value();
    sum += share.value_or(0);
  }
  if (!any) {
    reader.warning(std::string(kObserved), "no class has a share or causes of it, so it has no effect");
    return;
  }
  constexpr double kRounding = 1e-9;
  const auto all = static_cast<double>(doc.observed->interruptions);
  const auto figure = [](double count) { return std::round(count * 100) / 100; };
  if (sum > 1 + kRounding) {
    reader.error(std::string(kClasses),
                 fmt::format("shares and causes sum to {} interruptions, expected at most the {} observed",
                             figure(sum * all), doc.observed->interruptions));
  } else if (sum < 1 - kRounding) {
    reader.warning(std::string(kClasses), fmt::format("{} of the {} observed interruptions are in no class",
                                                      figure((1 - sum) * all), doc.observed->interruptions));
  }
}

void check_names(const FailuresDoc& doc, Reader& reader) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < doc.classes.size(); ++i) {
    const std::string pointer = child_pointer(child_pointer(kClasses, i), "name");
    if (!reader.good({pointer}) || names.insert(doc.classes[i].name).second) continue;
    reader.error(pointer,
                 fmt::format("the name {} is taken by another class", in_quotes(doc.classes[i].name)));
  }
}

}  // namespace

sim::FailureSpec resolve_failures(const FailuresDoc& doc, const models::SystemSpec& system, Reader& reader) {
  sim::FailureSpec failures;
  failures.initial_age = doc.initial_age;
  check_names(doc, reader);
  for (std::size_t i = 0; i < doc.classes.size(); ++i) {
    failures.classes.push_back(
        resolve_class(doc.classes[i], doc, system, child_pointer(kClasses, i), reader));
  }
  check_shares(doc, reader);
  return failures;
}

}  // namespace ntpsim::scenario
