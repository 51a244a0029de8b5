#pragma once

#include <string>

#include "ntpsim/core/timeline.h"

namespace ntpsim::analysis {

/// A timeline as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open: names of
/// processes and threads, complete events in microseconds to the nanosecond, flows bound to the slices that
/// they enclose. The same timeline gives the same bytes. REQUIRES: slices within the timeline's processes and
/// tracks, that nest or follow each other on a track, none negative, all within 100 days (past that a trace
/// viewer loses nanoseconds).
[[nodiscard]] std::string trace_json(const Timeline& timeline);

}  // namespace ntpsim::analysis
