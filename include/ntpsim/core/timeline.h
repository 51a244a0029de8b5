#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ntpsim/core/time.h"

// What happened when, predicted or measured. A timeline has processes (pipeline stages, nodes), each with
// tracks (streams); a slice is one operation on a track. Slices of a track nest or follow each other.

namespace ntpsim {

using SliceValue = std::variant<std::int64_t, std::string>;

struct TimelineSlice {
  std::size_t process = 0;
  std::size_t track = 0;
  std::string name;
  std::string category;  ///< "compute", "comm", ...
  Time start;
  Time length;
  std::vector<std::pair<std::string, SliceValue>> arguments = {};

  [[nodiscard]] Time end() const { return start + length; }
};

/// Something that goes from one slice to another, a message for one.
struct TimelineFlow {
  std::string name;
  std::size_t from = 0;  ///< index of a slice; leaves at its end
  std::size_t to = 0;    ///< index of a slice; arrives at its start
};

struct TimelineProcess {
  std::string name;
  std::vector<std::string> tracks;
};

struct Timeline {
  std::string name;
  std::vector<TimelineProcess> processes;
  std::vector<TimelineSlice> slices;
  std::vector<TimelineFlow> flows;
};

}  // namespace ntpsim
