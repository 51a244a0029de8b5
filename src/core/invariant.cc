#include "ntpsim/core/invariant.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace ntpsim {

void invariant_broken(std::string_view message, const std::source_location& where) {
  // Not fmt::print, which would throw where stderr is closed.
  (void)std::fputs(fmt::format("ntpsim: broken invariant: {}\n  at {}:{} in {}\n", message, where.file_name(),
                               where.line(), where.function_name())
                       .c_str(),
                   stderr);
  std::abort();
}

}  // namespace ntpsim
