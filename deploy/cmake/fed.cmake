# The flags that every library, program and test of this project is compiled with, and the functions that define them.
# SPDX-License-Identifier: Apache-2.0

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(fed_flags INTERFACE)
# Floating point must give the same bits on every machine: no contraction, no fast-math. The trainer's kernels opt out.
target_compile_options(fed_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -ffp-contract=off
                       $<$<BOOL:${FED_WERROR}>:-Werror>)
if(NOT CMAKE_UNITY_BUILD) # a name of one source may be a local variable in the next: join.cmake
  target_compile_options(fed_flags INTERFACE -Wshadow)
endif()
# The sources use constants of an enum as integer constants, also in sums with floats. clang 16 and later would warn of such sums.
target_compile_options(fed_flags INTERFACE $<$<C_COMPILER_ID:Clang>:-Wno-enum-float-conversion>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "s390") # by this machine's ABI, strict C would compute floats in double
  target_compile_options(fed_flags INTERFACE -fexcess-precision=fast)
endif()
# Support large files and large inode numbers on 32-bit machines, too.
target_compile_definitions(fed_flags INTERFACE _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64)
if(FED_SANITIZE)
  target_compile_options(fed_flags INTERFACE -fsanitize=${FED_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(fed_flags INTERFACE -fsanitize=${FED_SANITIZE})
  # Sanitizers' reports name sources by their path from the top. So the objects are the same in each clone, and ccache finds them.
  target_compile_options(fed_flags INTERFACE -fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.)
endif()
if(FED_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FED_FUZZ needs libFuzzer, which comes with clang: configure with CC=clang, or use --preset clang")
  endif()
  target_compile_options(fed_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(fed_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The same objects are used for static and shared libraries. Only public headers make a symbol visible (fed/api.h). Calls inside a
# library can't be replaced from outside, so that position-independent code is as fast as other code.
if(FED_SHARED)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_C_VISIBILITY_PRESET hidden)
  target_compile_options(fed_flags INTERFACE -fno-semantic-interposition)
endif()

# A small build: the linker drops each function that nothing calls.
if(FED_SMALL)
  target_compile_definitions(fed_flags INTERFACE FED_SMALL=1)
  target_compile_options(fed_flags INTERFACE -ffunction-sections -fdata-sections -fno-unwind-tables
                         -fno-asynchronous-unwind-tables)
  target_link_options(fed_flags INTERFACE -Wl,--gc-sections)
endif()

# Internal headers are included by their path from the top: "codecs/prim/golomb.h".
target_include_directories(fed_flags INTERFACE ${PROJECT_SOURCE_DIR})

# fed_library(NAME SOURCES ... [PUBLIC libs ...] [PRIVATE libs ...]): a static library with its include/ folder.
function(fed_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>)
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE $<BUILD_INTERFACE:fed_flags> ${ARG_PRIVATE})
  fed_join(${name} ${ARG_SOURCES})
endfunction()

# fed_program(NAME SOURCES ... LIBS ...): a program, linked with these libraries.
function(fed_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE fed_flags ${ARG_LIBS})
  fed_join(${name} ${ARG_SOURCES})
endfunction()

# fed_kernels(VARIABLE NAME FILE...): make a C file that holds the joined texts of kernels as const char NAME[]. VARIABLE becomes its path.
function(fed_kernels variable name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(script ${PROJECT_SOURCE_DIR}/deploy/cmake/kernels.cmake)
  add_custom_command(OUTPUT ${out} DEPENDS ${ARGN} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D NAME=${name} -D OUT=${out} "-D FILES=${ARGN}" -P ${script})
  set(${variable} ${out} PARENT_SCOPE)
endfunction()
