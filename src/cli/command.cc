#include "command.h"

#include <array>

namespace ntpsim::cli {

std::span<const Command> commands() {
  static constexpr std::array kCommands = {
      Command{"run", "simulate a scenario: the Goodput of each policy", run_help, run_command},
      Command{"availability", "what a given share of failed GPUs costs under each policy", availability_help,
              availability_command},
      Command{"plan", "which rank holds what and what moves when TP groups lose GPUs", plan_help,
              plan_command},
      Command{"step", "what one healthy training step spends its time on, and its trace", step_help,
              step_command},
      Command{"search", "the fastest parallelism of a job that fits its GPUs", search_help, search_command},
      Command{"validate", "compare predicted with measured step times of training runs", validate_help,
              validate_command},
      Command{"calibrate", "fit the efficiencies of the catalog to measured training runs", calibrate_help,
              calibrate_command},
      Command{"list", "what the catalogs hold: gpus, systems, models, policies, distributions", list_help,
              list_command},
      Command{"schema", "print the JSON Schema of scenario files", schema_help, schema_command},
  };
  return kCommands;
}

}  // namespace ntpsim::cli
