#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ntpsim/core/nearest.h"
#include "ntpsim/core/version.h"

#include "command.h"
#include "options.h"

namespace ntpsim::cli {
namespace {

std::string overview() {
  std::string text =
      "ntpsim: what Goodput will a training job get when GPUs fail?\n\n"
      "Usage: ntpsim VERB [arguments]\n\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<14}{}\n", command.name, command.summary);
  }
  return text +
         "  help [VERB]   this text, or that of a verb\n"
         "  version       version and commit\n\n"
         "From the source tree, ./ntpsim also has test, bench and check, which build first.\n"
         "Results go to standard output, messages to standard error.\n"
         "Exit code: 0 done, 1 failed, 2 wrong usage or bad input.\n";
}

const Command* find_command(std::string_view name) {
  const auto all = commands();
  const auto found = std::ranges::find(all, name, &Command::name);
  return found == all.end() ? nullptr : &*found;
}

ExitCode unknown_verb(const std::string& name) {
  std::vector<std::string_view> names = {"help", "version"};
  for (const Command& command : commands()) names.push_back(command.name);
  const auto near = nearest_name(name, names);
  say(fmt::format("error: command line: unknown verb '{}'{}\nsee 'ntpsim help'\n", name,
                  near ? fmt::format("; did you mean '{}'?", *near) : ""));
  return ExitCode::kBadInput;
}

ExitCode help(Arguments arguments) {
  if (arguments.empty() || arguments[0] == "help" || arguments[0] == "--help")
    return write_output(overview());
  const Command* const command = find_command(arguments[0]);
  return command == nullptr ? unknown_verb(arguments[0]) : write_output(command->help());
}

ExitCode dispatch(Arguments arguments) {
  if (arguments.empty()) {
    say(overview());
    return ExitCode::kBadInput;
  }
  const std::string& verb = arguments[0];
  const Arguments rest = arguments.subspan(1);
  if (verb == "help" || verb == "--help" || verb == "-h") return help(rest);
  if (verb == "version" || verb == "--version") {
    return write_output(fmt::format("ntpsim {} ({})\n", version(), git_revision()));
  }
  const Command* const command = find_command(verb);
  return command == nullptr ? unknown_verb(verb) : command->run(rest);
}

}  // namespace
}  // namespace ntpsim::cli

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    return static_cast<int>(ntpsim::cli::dispatch(arguments));
  } catch (const std::bad_alloc&) {
    ntpsim::cli::say("error: out of memory\n");
  } catch (const std::exception& error) {
    ntpsim::cli::say(fmt::format("error: {}\n", error.what()));
  }
  return static_cast<int>(ntpsim::cli::ExitCode::kFailed);
}
