#pragma once

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace ntpsim::testing {

/// Does calling `action` break an invariant, and so abort? Tries it in a child process without stderr.
template <class Action>
[[nodiscard]] bool aborts(const Action& action) {
  const pid_t child = fork();
  if (child == 0) {
    // The handler of doctest would report a crash of the test.
    const bool quiet = std::signal(SIGABRT, SIG_DFL) != SIG_ERR && close(STDERR_FILENO) == 0;
    if (quiet) action();
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGABRT;
}

}  // namespace ntpsim::testing
