#include "ntpsim/sim/failure_process.h"

#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "specs.h"

namespace {

using namespace ntpsim::testing;
using ntpsim::Time;
using ntpsim::models::Distribution;
using ntpsim::models::Scope;
using ntpsim::sim::ClusterSpec;
using ntpsim::sim::FailureProcess;
using ntpsim::sim::FailureSpec;
using ntpsim::sim::HealthEvent;
using ntpsim::sim::InitialAge;
using Family = Distribution::Family;
using Kind = HealthEvent::Kind;

std::vector<HealthEvent> all_events(const ClusterSpec& cluster, std::int64_t spares,
                                    const FailureSpec& failures, double days, std::uint64_t replication = 0) {
  FailureProcess process(cluster, spares, failures, Time::from_seconds(days * kDay), 42, replication);
  std::vector<HealthEvent> events;
  while (const auto event = process.next()) events.push_back(*event);
  return events;
}

bool same(const HealthEvent& a, const HealthEvent& b) {
  return a.kind == b.kind && a.at == b.at && a.first_gpu == b.first_gpu && a.gpus == b.gpus;
}

FailureSpec spec_of(Family family, double shape = 1) {
  return {
      .classes = {gpu_failures({family, 30 * kDay, shape}, Distribution(Family::kLognormal, 2 * kDay, 0.7))}};
}

TEST_CASE("events are in time order, inside the horizon, and each failure returns at most once") {
  for (const FailureSpec& spec : {spec_of(Family::kExponential), spec_of(Family::kWeibull, 0.7),
                                  spec_of(Family::kGamma, 3), spec_of(Family::kConstant)}) {
    const auto events = all_events(tiny_cluster(20), 0, spec, 60);
    REQUIRE(events.size() > 50);
    std::map<std::int64_t, bool> out;
    Time last;
    for (const HealthEvent& event : events) {
      CHECK(event.at >= last);
      CHECK(event.at < Time::from_seconds(60 * kDay));
      CHECK(event.gpus == 1);
      last = event.at;
      const bool failed = event.kind == Kind::kFailure;
      CHECK(out[event.first_gpu] != failed);
      out[event.first_gpu] = failed;
    }
  }
}

TEST_CASE("the same seed and replication give the same events, another replication others") {
  const FailureSpec spec = spec_of(Family::kWeibull, 1.5);
  const auto once = all_events(tiny_cluster(20), 0, spec, 60);
  const auto again = all_events(tiny_cluster(20), 0, spec, 60);
  const auto other = all_events(tiny_cluster(20), 0, spec, 60, 1);
  REQUIRE(once.size() == again.size());
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(same(once[i], again[i]));
  REQUIRE_FALSE(other.empty());
  CHECK_FALSE(same(once[0], other[0]));
}

TEST_CASE("spare domains leave the failures of the cluster as they are") {
  for (const FailureSpec& spec : {spec_of(Family::kExponential), spec_of(Family::kGamma, 2)}) {
    const ClusterSpec cluster = tiny_cluster(20);
    const auto alone = all_events(cluster, 0, spec, 60);
    std::vector<HealthEvent> beside;
    std::size_t in_spares = 0;
    for (const HealthEvent& event : all_events(cluster, 7, spec, 60)) {
      if (event.first_gpu < cluster.gpus) {
        beside.push_back(event);
      } else {
        ++in_spares;
        CHECK(event.first_gpu < cluster.gpus + 28);
      }
    }
    CHECK(in_spares > 0);
    // Nor do the failures of a spare depend on how many others stand by.
    std::vector<HealthEvent> of_first_two;
    for (const HealthEvent& event : all_events(cluster, 7, spec, 60)) {
      if (event.first_gpu >= cluster.gpus && event.first_gpu < cluster.gpus + 8)
        of_first_two.push_back(event);
    }
    std::vector<HealthEvent> of_two;
    for (const HealthEvent& event : all_events(cluster, 2, spec, 60)) {
      if (event.first_gpu >= cluster.gpus) of_two.push_back(event);
    }
    REQUIRE(of_two.size() == of_first_two.size());
    for (std::size_t i = 0; i < of_two.size(); ++i) CHECK(same(of_two[i], of_first_two[i]));
    REQUIRE(alone.size() == beside.size());
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same(alone[i], beside[i]));
  }
}

TEST_CASE("the blast radius covers the component that failed") {
  FailureSpec spec = spec_of(Family::kExponential);
  spec.classes[0].blast_radius = Scope::kTray;
  for (const HealthEvent& event : all_events(tiny_cluster(20), 0, spec, 30)) {
    CHECK(event.gpus == 2);
    CHECK(event.first_gpu % 2 == 0);
  }
  spec.classes[0].component = Scope::kDomain;
  spec.classes[0].blast_radius = Scope::kDomain;
  const auto domains = all_events(tiny_cluster(20), 0, spec, 60);
  REQUIRE_FALSE(domains.empty());
  for (const HealthEvent& event : domains) {
    CHECK(event.gpus == 4);
    CHECK(event.first_gpu % 4 == 0);
  }
}

TEST_CASE("a class without repair only interrupts") {
  for (const Family family : {Family::kExponential, Family::kWeibull}) {
    FailureSpec spec = spec_of(family);
    spec.classes[0].repair_time.reset();
    const auto events = all_events(tiny_cluster(20), 0, spec, 60);
    REQUIRE(events.size() > 50);
    for (const HealthEvent& event : events) CHECK(event.kind == Kind::kInterruption);
  }
}

TEST_CASE("new units of constant life all fail at once, stationary ones spread out") {
  FailureSpec spec = spec_of(Family::kConstant);
  spec.initial_age = InitialAge::kNew;
  for (const HealthEvent& event : all_events(tiny_cluster(20), 0, spec, 31)) {
    if (event.kind == Kind::kFailure) CHECK(event.at == Time::from_seconds(30 * kDay));
  }
  spec.initial_age = InitialAge::kStationary;
  int first_half = 0;
  int second_half = 0;
  for (const HealthEvent& event : all_events(tiny_cluster(200), 0, spec, 30)) {
    if (event.kind != Kind::kFailure) continue;
    ++(event.at < Time::from_seconds(15 * kDay) ? first_half : second_half);
  }
  // 800 units, each failing once at a uniform moment of the 30 days: 400 a half, standard deviation 14.
  CHECK(first_half == doctest::Approx(400).epsilon(0.12));
  CHECK(first_half + second_half == 800);
}

}  // namespace
