#include "progress_line.h"

#include <chrono>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "options.h"

namespace ntpsim::cli {

analysis::Progress progress_line(std::string_view unit, bool quiet) {
  if (quiet || isatty(STDERR_FILENO) == 0) return {};
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kRedraw(200);
  return [unit = std::string(unit), start = Clock::now(), drawn = Clock::now()](std::int64_t done,
                                                                                std::int64_t total) mutable {
    const Clock::time_point now = Clock::now();
    if (done == total) {
      say("\r\x1b[K");
      return;
    }
    if (now - drawn < kRedraw) return;
    drawn = now;
    const double elapsed_s = std::chrono::duration<double>(now - start).count();
    const double rate = static_cast<double>(done) / elapsed_s;
    say(fmt::format("\r\x1b[K{} of {} {}, {:.3g} a second, {:.0f} s left", done, total, unit, rate,
                    static_cast<double>(total - done) / rate));
  };
}

}  // namespace ntpsim::cli
