# Functions that make this project's targets; every target of it is made by one of them.

# Compiler settings of our own code. Not exported: they are nobody else's business.
add_library(ntpsim_build_options INTERFACE)
target_compile_features(ntpsim_build_options INTERFACE cxx_std_20)
target_compile_options(ntpsim_build_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  $<$<BOOL:${NTPSIM_WERROR}>:-Werror>)

# The rooms each room may link, itself left out: the arrows of docs/architecture.md. ntpsim_room() refuses any other.
set(NTPSIM_ARROWS_core "")
set(NTPSIM_ARROWS_plan core)
set(NTPSIM_ARROWS_models core plan)
set(NTPSIM_ARROWS_sim core plan models)
set(NTPSIM_ARROWS_scenario core plan models sim)
set(NTPSIM_ARROWS_analysis core plan models sim scenario)
set(NTPSIM_ARROWS_cli core plan models sim scenario analysis)

# ntpsim_room(NAME SOURCES file... [ROOMS room...] [PUBLIC target...] [PRIVATE target...])
# A static library ntpsim::NAME. Its public headers are include/ntpsim/NAME. A header check compiles each of them alone
# against the room's own include directories, so a room cannot include one that it does not link.
function(ntpsim_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ROOMS;PUBLIC;PRIVATE")
  foreach(room IN LISTS arg_ROOMS)
    if(NOT room IN_LIST NTPSIM_ARROWS_${name})
      message(FATAL_ERROR "room ${name} must not depend on room ${room} (see docs/architecture.md)")
    endif()
  endforeach()
  set(target ntpsim_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(ntpsim::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Each room sees its own headers and those of the rooms it links, through one staged directory of links per room.
  set(staged ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${staged}/ntpsim)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/ntpsim/${name} ${staged}/ntpsim/${name} SYMBOLIC)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${staged}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:ntpsim_build_options> ${arg_PRIVATE})
  foreach(room IN LISTS arg_ROOMS)
    target_link_libraries(${target} PUBLIC ntpsim_${room})
  endforeach()
endfunction()
