# ntpsim_version: what include/ntpsim/core/version.h declares. The revision is looked up in every build, and its source is
# rewritten, and so compiled, only when it has changed.
set(NTPSIM_VERSION_SOURCE ${PROJECT_BINARY_DIR}/version/version.cc)
add_custom_target(ntpsim_revision
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
          -D OUTPUT=${NTPSIM_VERSION_SOURCE} -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${NTPSIM_VERSION_SOURCE}
  COMMENT "Looking up the revision"
  VERBATIM)

add_library(ntpsim_version STATIC ${NTPSIM_VERSION_SOURCE})
add_library(ntpsim::version ALIAS ntpsim_version)
add_dependencies(ntpsim_version ntpsim_revision)
target_link_libraries(ntpsim_version PUBLIC ntpsim::core PRIVATE ntpsim_build_options)
