#include "ntpsim/analysis/trace.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/core/invariant.h"

namespace ntpsim::analysis {
namespace {

constexpr Time kLongest = Time::from_ns(100LL * 86'400 * 1'000'000'000);

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with three decimals.
std::string micros(Time time) {
  constexpr std::int64_t kNsPerUs = 1000;
  return fmt::format("{}.{:03}", time.ns() / kNsPerUs, time.ns() % kNsPerUs);
}

std::string value_text(const SliceValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  return quoted(std::get<std::string>(value));
}

/// Perfetto takes process and thread 0 for its own.
std::size_t id_of(std::size_t index) {
  return index + 1;
}

/// Outer slices before those that they hold.
std::vector<std::size_t> in_order(const Timeline& timeline) {
  std::vector<std::size_t> order(timeline.slices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const TimelineSlice& first = timeline.slices[a];
    const TimelineSlice& second = timeline.slices[b];
    return std::tuple(first.process, first.track, first.start, second.length) <
           std::tuple(second.process, second.track, second.start, first.length);
  });
  return order;
}

void check_nesting(const Timeline& timeline, const std::vector<std::size_t>& order) {
  std::vector<const TimelineSlice*> open;
  for (const std::size_t index : order) {
    const TimelineSlice& slice = timeline.slices[index];
    invariant(slice.process < timeline.processes.size() &&
                  slice.track < timeline.processes[slice.process].tracks.size(),
              "a slice is on a track of the timeline");
    invariant(slice.start >= Time() && slice.length >= Time() && slice.end() <= kLongest,
              "a slice lies within the trace");
    const auto is_over = [&](const TimelineSlice* outer) {
      return outer->process != slice.process || outer->track != slice.track || outer->end() <= slice.start;
    };
    while (!open.empty() && is_over(open.back())) open.pop_back();
    invariant(open.empty() || slice.end() <= open.back()->end(),
              "slices of a track nest or follow each other");
    open.push_back(&slice);
  }
}

class Writer {
 public:
  void event(const std::string& fields) {
    fmt::format_to(std::back_inserter(text_), "{}\n{{{}}}", first_ ? "" : ",", fields);
    first_ = false;
  }

  void metadata(std::size_t pid, std::size_t tid, const char* name, const std::string& argument) {
    event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}})", pid, tid, name, argument));
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool first_ = true;
};

void write_names(const Timeline& timeline, Writer& to) {
  for (std::size_t p = 0; p < timeline.processes.size(); ++p) {
    const TimelineProcess& process = timeline.processes[p];
    to.metadata(id_of(p), 0, "process_name", R"("name":)" + quoted(process.name));
    to.metadata(id_of(p), 0, "process_sort_index", fmt::format(R"("sort_index":{})", p));
    for (std::size_t t = 0; t < process.tracks.size(); ++t) {
      to.metadata(id_of(p), id_of(t), "thread_name", R"("name":)" + quoted(process.tracks[t]));
      to.metadata(id_of(p), id_of(t), "thread_sort_index", fmt::format(R"("sort_index":{})", t));
    }
  }
}

void write_slice(const TimelineSlice& slice, Writer& to) {
  std::string arguments;
  for (const auto& [name, value] : slice.arguments) {
    arguments += fmt::format("{}{}:{}", arguments.empty() ? "" : ",", quoted(name), value_text(value));
  }
  to.event(fmt::format(R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{},"args":{{{}}})",
                       id_of(slice.process), id_of(slice.track), micros(slice.start), micros(slice.length),
                       quoted(slice.name), quoted(slice.category), arguments));
}

/// A flow leaves within its first slice (at its start, which lies in it whatever the rounding) and arrives at
/// the start of the other.
void write_flow(const Timeline& timeline, std::size_t id, const TimelineFlow& flow, Writer& to) {
  const TimelineSlice& from = timeline.slices.at(flow.from);
  const TimelineSlice& target = timeline.slices.at(flow.to);
  const auto side = [&](const char* phase, const char* binding, const TimelineSlice& slice) {
    to.event(fmt::format(R"("ph":"{}"{},"id":{},"pid":{},"tid":{},"ts":{},"name":{},"cat":"flow")", phase,
                         binding, id, id_of(slice.process), id_of(slice.track), micros(slice.start),
                         quoted(flow.name)));
  };
  side("s", "", from);
  side("f", R"(,"bp":"e")", target);
}

}  // namespace

std::string trace_json(const Timeline& timeline) {
  const std::vector<std::size_t> order = in_order(timeline);
  check_nesting(timeline, order);
  Writer events;
  write_names(timeline, events);
  for (const std::size_t index : order) write_slice(timeline.slices[index], events);
  for (std::size_t i = 0; i < timeline.flows.size(); ++i)
    write_flow(timeline, id_of(i), timeline.flows[i], events);
  return fmt::format(R"({{"schemaVersion":1,"displayTimeUnit":"ms","traceName":{},"traceEvents":[{}
]}})",
                     quoted(timeline.name), events.text()) +
         "\n";
}

}  // namespace ntpsim::analysis
