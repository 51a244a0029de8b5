#pragma once

#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ntpsim::testing {

/// Does calling `action` break an invariant, and so abort? Tries it in a child process whose stderr is
/// discarded.
template <class Action>
[[nodiscard]] bool aborts(const Action& action) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // doctest's handler would report a crash of the test
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    action();
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGABRT;
}

}  // namespace ntpsim::testing
