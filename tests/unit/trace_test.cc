#include "ntpsim/analysis/trace.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "aborts.h"

namespace {

using nlohmann::json;
using ntpsim::Time;
using ntpsim::Timeline;
using ntpsim::TimelineSlice;
using ntpsim::analysis::trace_json;

Time ns(std::int64_t count) {
  return Time::from_ns(count);
}

TimelineSlice slice(std::size_t process, std::size_t track, std::int64_t start, std::int64_t length) {
  return {.process = process,
          .track = track,
          .name = "pass",
          .category = "compute",
          .start = ns(start),
          .length = ns(length)};
}

/// Two stages, one slice each, and a message between them.
Timeline small() {
  return {.name = "step",
          .processes = {{.name = "stage 0", .tracks = {"compute", "sends"}},
                        {.name = "stage 1", .tracks = {"compute"}}},
          .slices = {slice(0, 0, 0, 1'500), slice(1, 0, 2'001, 500)},
          .flows = {{.name = "microbatch", .from = 0, .to = 1}}};
}

/// The events of a phase, in order.
std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> of_phase;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) of_phase.push_back(event);
  }
  return of_phase;
}

std::vector<json> events(const Timeline& timeline, const std::string& phase) {
  return events(json::parse(trace_json(timeline)), phase);
}

TEST_CASE("a trace says what it is") {
  const json trace = json::parse(trace_json(small()));
  CHECK(trace.at("schemaVersion") == 1);
  CHECK(trace.at("displayTimeUnit") == "ms");
  CHECK(trace.at("traceName") == "step");
}

TEST_CASE("every process and track is named and keeps its place, also without slices") {
  std::vector<std::string> names;
  for (const json& event : events(small(), "M")) {
    const json& given = event.at("args");
    names.push_back(event.at("name").get<std::string>() + " " + event.at("pid").dump() + " " +
                    event.at("tid").dump() + " " + given.begin().value().dump());
  }
  CHECK(names == std::vector<std::string>{R"(process_name 1 0 "stage 0")", "process_sort_index 1 0 0",
                                          R"(thread_name 1 1 "compute")", "thread_sort_index 1 1 0",
                                          R"(thread_name 1 2 "sends")", "thread_sort_index 1 2 1",
                                          R"(process_name 2 0 "stage 1")", "process_sort_index 2 0 1",
                                          R"(thread_name 2 1 "compute")", "thread_sort_index 2 1 0"});
}

TEST_CASE("times are microseconds, to the nanosecond") {
  const std::string text = trace_json(small());
  CHECK(text.find(R"("ts":0.000,"dur":1.500,)") != std::string::npos);
  CHECK(text.find(R"("ts":2.001,"dur":0.500,)") != std::string::npos);
}

TEST_CASE("the nanoseconds of 99 days are kept as Perfetto reads them") {
  constexpr std::int64_t kStart = 99LL * 86'400 * 1'000'000'000 + 123'456'789;
  Timeline timeline = small();
  timeline.slices = {slice(0, 0, kStart, 1)};
  timeline.flows.clear();
  const auto slices = events(timeline, "X");
  REQUIRE(slices.size() == 1);
  CHECK(std::llround(slices[0].at("ts").get<double>() * 1000) == kStart);
}

TEST_CASE("slices carry their category and arguments in the order given") {
  Timeline timeline = small();
  timeline.slices[0].arguments = {{"Collective name", std::string("all-reduce")},
                                  {"Group size", std::int64_t{8}},
                                  {"In msg nelems", std::int64_t{1} << 40},
                                  {"dtype", std::string("BFloat16")}};
  CHECK(trace_json(timeline).find(R"("cat":"compute","args":{"Collective name":"all-reduce","Group size":8,)"
                                  R"("In msg nelems":1099511627776,"dtype":"BFloat16"}})") !=
        std::string::npos);
}

TEST_CASE("names of any kind come back as they were") {
  Timeline timeline = small();
  const std::string odd = "a \"quoted\" \\ name\nof two lines\t\x01 and \xc3\xa9";
  timeline.name = odd;
  timeline.processes[0].name = odd;
  timeline.processes[0].tracks[0] = odd;
  timeline.slices[0].name = odd;
  timeline.slices[0].category = odd;
  timeline.slices[0].arguments = {{odd, odd}};
  timeline.flows[0].name = odd;
  const json trace = json::parse(trace_json(timeline));
  CHECK(trace.at("traceName") == odd);
  CHECK(events(trace, "M")[0].at("args").at("name") == odd);
  CHECK(events(trace, "M")[2].at("args").at("name") == odd);
  CHECK(events(trace, "X")[0].at("name") == odd);
  CHECK(events(trace, "X")[0].at("cat") == odd);
  CHECK(events(trace, "X")[0].at("args").at(odd) == odd);
  CHECK(events(trace, "s")[0].at("name") == odd);
}

TEST_CASE("a name that is no UTF-8 still gives JSON") {
  Timeline timeline = small();
  timeline.slices[0].name = "broken \xff";
  CHECK(json::accept(trace_json(timeline)));
}

TEST_CASE("a flow starts within one slice and ends within the other") {
  Timeline timeline = small();
  timeline.flows.push_back({.name = "microbatch", .from = 0, .to = 1});
  const json trace = json::parse(trace_json(timeline));
  const auto starts = events(trace, "s");
  const auto ends = events(trace, "f");
  REQUIRE(starts.size() == 2);
  REQUIRE(ends.size() == 2);
  CHECK(starts[0].at("id") != starts[1].at("id"));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(starts[i].at("id") == ends[i].at("id"));
    CHECK(starts[i].at("cat") == ends[i].at("cat"));
    CHECK(starts[i].at("name") == ends[i].at("name"));
    CHECK(starts[i].at("pid") == 1);
    CHECK(starts[i].at("ts").get<double>() < 1.5);
    CHECK(ends[i].at("pid") == 2);
    CHECK(ends[i].at("bp") == "e");
    CHECK(ends[i].at("ts").get<double>() == 2.001);
  }
}

TEST_CASE("slices come in order of track and time, outer ones first, in whatever order they are given") {
  Timeline timeline = small();
  timeline.flows.clear();
  timeline.slices = {slice(1, 0, 10, 5), slice(0, 0, 20, 5), slice(0, 0, 20, 30), slice(0, 1, 0, 9),
                     slice(0, 0, 0, 20)};
  const std::string text = trace_json(timeline);
  CHECK(text == trace_json(timeline));
  std::vector<std::string> places;
  for (const json& event : events(json::parse(text), "X")) {
    places.push_back(event.at("pid").dump() + event.at("tid").dump() + " " + event.at("ts").dump() + "+" +
                     event.at("dur").dump());
  }
  CHECK(places == std::vector<std::string>{"11 0.0+0.02", "11 0.02+0.03", "11 0.02+0.005", "12 0.0+0.009",
                                           "21 0.01+0.005"});
}

TEST_CASE("slices may hold others, follow them or be empty") {
  Timeline timeline = small();
  timeline.flows.clear();
  timeline.slices = {slice(0, 0, 0, 100), slice(0, 0, 0, 40),  slice(0, 0, 40, 60),
                     slice(0, 0, 50, 0),  slice(0, 0, 100, 7), slice(0, 1, 90, 20)};
  CHECK(events(timeline, "X").size() == 6);
}

TEST_CASE("what no viewer could show is refused") {
  const auto refused = [](const std::vector<TimelineSlice>& slices) {
    Timeline timeline = small();
    timeline.flows.clear();
    timeline.slices = slices;
    return ntpsim::testing::aborts([&] { static_cast<void>(trace_json(timeline)); });
  };
  CHECK_FALSE(refused({slice(0, 0, 0, 10), slice(0, 0, 10, 10)}));
  CHECK(refused({slice(0, 0, 0, 10), slice(0, 0, 9, 10)}));
  CHECK(refused({slice(0, 0, 0, 100), slice(0, 0, 10, 50), slice(0, 0, 40, 30)}));
  CHECK(refused({slice(2, 0, 0, 10)}));
  CHECK(refused({slice(1, 1, 0, 10)}));
  CHECK(refused({slice(0, 0, -1, 10)}));
  CHECK(refused({slice(0, 0, 10, -1)}));
  CHECK(refused({slice(0, 0, 0, 101LL * 86'400 * 1'000'000'000)}));
}

TEST_CASE("an empty timeline is a trace") {
  CHECK(json::parse(trace_json({})).at("traceEvents").empty());
}

}  // namespace
