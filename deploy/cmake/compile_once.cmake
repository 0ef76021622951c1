# If ccache is installed, compile through it: a source that was compiled before, even in another clone, is not compiled again.
# FED_COMPILE_CACHE=OFF turns this off. If CMAKE_C_COMPILER_LAUNCHER is set already, as a variable or in the environment, it stays.
# SPDX-License-Identifier: Apache-2.0
option(FED_COMPILE_CACHE "Compile through ccache, where it is installed" ON)
if(FED_COMPILE_CACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
  find_program(FED_CCACHE_PROGRAM ccache NO_CMAKE_FIND_ROOT_PATH)
  find_program(FED_ENV_PROGRAM env NO_CMAKE_FIND_ROOT_PATH)
  if(FED_CCACHE_PROGRAM AND FED_ENV_PROGRAM)
    # Paths below the sources are hashed as relative ones, so that each clone finds what another has compiled.
    get_filename_component(fed_sources ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
    set(CMAKE_C_COMPILER_LAUNCHER ${FED_ENV_PROGRAM} CCACHE_BASEDIR=${fed_sources} ${FED_CCACHE_PROGRAM})
  endif()
endif()
