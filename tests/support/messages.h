#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/diagnostics.h"

namespace ntpsim::testing {

/// What is said against a result that must be refused.
template <class T>
[[nodiscard]] std::vector<std::string> messages(const Result<T>& result) {
  std::vector<std::string> found;
  REQUIRE_FALSE(result.has_value());
  for (const Diagnostic& diagnostic : result.error().items()) found.push_back(diagnostic.message);
  return found;
}

}  // namespace ntpsim::testing
