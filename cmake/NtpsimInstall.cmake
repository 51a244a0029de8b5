# Installs ntpsim::plan for other CMake projects (find_package(ntpsim)), and the program where it is built. The other rooms
# are not installed: their interfaces are not promised to anybody.
include(CMakePackageConfigHelpers)
set(NTPSIM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/ntpsim)

install(TARGETS ntpsim_core ntpsim_plan EXPORT ntpsimTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ntpsim/core include/ntpsim/plan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ntpsim
  PATTERN version.h EXCLUDE)  # its functions are the program's, not the libraries'
install(EXPORT ntpsimTargets NAMESPACE ntpsim:: DESTINATION ${NTPSIM_CMAKE_DIR})

configure_package_config_file(cmake/ntpsimConfig.cmake.in ntpsimConfig.cmake INSTALL_DESTINATION ${NTPSIM_CMAKE_DIR})
write_basic_package_version_file(ntpsimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ntpsimConfig.cmake ${PROJECT_BINARY_DIR}/ntpsimConfigVersion.cmake
  DESTINATION ${NTPSIM_CMAKE_DIR})

if(TARGET ntpsim_cli)
  install(TARGETS ntpsim_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
