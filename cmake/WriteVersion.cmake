# cmake -D SOURCE_DIR=... -D VERSION=... -D OUTPUT=version.cc -P WriteVersion.cmake
# The revision is the commit's hash, with "-dirty" when a file that the program is built from differs from it, and
# "unknown" where there is no git or no repository.
set(revision unknown)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE hash RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} status --porcelain -- CMakeLists.txt CMakePresets.json cmake data/validation/measured.csv data/validation/models.json include src
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT failed)
    set(revision ${hash})
    if(changes)
      string(APPEND revision -dirty)
    endif()
  endif()
endif()

set(text "#include \"ntpsim/core/version.h\"

namespace ntpsim {

std::string_view version() {
  return \"${VERSION}\";
}

std::string_view git_revision() {
  return \"${revision}\";
}

}  // namespace ntpsim
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
