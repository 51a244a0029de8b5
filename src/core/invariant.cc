#include "ntpsim/core/invariant.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace ntpsim {

void invariant_broken(std::string_view message, const std::source_location& where) {
  fmt::print(stderr, "ntpsim: broken invariant: {}\n  at {}:{} in {}\n", message, where.file_name(),
             where.line(), where.function_name());
  std::abort();
}

}  // namespace ntpsim
