#include "ntpsim/models/failure_class.h"

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {

std::string_view to_string(Scope scope) {
  switch (scope) {
    case Scope::kGpu:
      return "gpu";
    case Scope::kTray:
      return "tray";
    case Scope::kDomain:
      return "domain";
  }
  invariant_broken("every scope has a name", std::source_location::current());
}

}  // namespace ntpsim::models
