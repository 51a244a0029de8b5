#pragma once

#include <source_location>
#include <string_view>

namespace ntpsim {

/// Prints `message` with its place to stderr and aborts. Never returns.
[[noreturn]] void invariant_broken(std::string_view message, const std::source_location& where);

/// Checks something that only a defect of this program can break; active in release builds too.
/// Bad user input is never an invariant: it is reported through `Diagnostics`.
inline void invariant(bool holds, std::string_view message,
                      const std::source_location& where = std::source_location::current()) {
  if (!holds) [[unlikely]] {
    invariant_broken(message, where);
  }
}

}  // namespace ntpsim
