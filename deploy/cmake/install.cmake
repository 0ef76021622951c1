# `cmake --install BUILD --prefix P` and what it puts there: see docs/install.md. Nothing of it holds a path of this machine, so that
# the folder P can be moved, and another machine makes the same files.
# SPDX-License-Identifier: Apache-2.0

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(fed_abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}) # before 1.0 each minor release may change structs
set(fed_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fed)
set(fed_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What links to a library needs: sorts LINK_LIBRARIES of a target into variables of the caller.
#   fed_names      our own libraries: common codecs
#   fed_targets    their targets
#   fed_modules    pkg-config's names of others: libcurl
#   fed_needs      the same as component/PREFIX/module, its own libraries' needs among them
#   fed_flags_of   what the linker is told of the rest: -lm -pthread
#   fed_others     the rest as CMake has it
macro(fed_sort_links target name)
  foreach(variable names targets modules needs flags_of others)
    set(fed_${variable} "")
  endforeach()
  get_target_property(links ${target} LINK_LIBRARIES)
  foreach(link ${links})
    get_property(its_name GLOBAL PROPERTY fed_name_of_${link})
    if(its_name)
      list(APPEND fed_names ${its_name})
      list(APPEND fed_targets ${link})
      get_property(its_needs GLOBAL PROPERTY fed_needs_of_${its_name})
      foreach(need ${its_needs})
        string(REGEX REPLACE "^[^/]+/" "${name}/" need ${need})
        list(APPEND fed_needs ${need})
      endforeach()
    elseif(link MATCHES "^PkgConfig::(.*)$")
      list(APPEND fed_modules ${${CMAKE_MATCH_1}_MODULE_NAME})
      list(APPEND fed_needs ${name}/${CMAKE_MATCH_1}/${${CMAKE_MATCH_1}_MODULE_NAME})
      list(APPEND fed_others ${link})
    elseif(link STREQUAL "Threads::Threads")
      list(APPEND fed_flags_of -pthread)
      list(APPEND fed_others ${link})
    elseif(NOT link MATCHES "fed_flags")
      list(APPEND fed_flags_of -l${link})
      list(APPEND fed_others ${link})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES fed_needs)
endmacro()

# fed_install_library(TARGET NAME DESCRIPTION): TARGET becomes libfedNAME.a, and libfedNAME.so of the same objects; both are installed,
# with the headers of include/, libfedNAME.pc, and fed::NAME of the CMake package. Last in a library's CMakeLists.txt.
function(fed_install_library target name description)
  if(NOT FED_ROOMS STREQUAL "all")
    return()
  endif()
  fed_sort_links(${target} ${name})
  set_property(GLOBAL PROPERTY fed_name_of_${target} ${name})
  set_property(GLOBAL PROPERTY fed_needs_of_${name} ${fed_needs})
  set_property(GLOBAL APPEND PROPERTY fed_components ${name})
  set_property(GLOBAL APPEND PROPERTY fed_needs ${fed_needs})

  set_target_properties(${target} PROPERTIES OUTPUT_NAME fed${name} EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT fedStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY include/ ${CMAKE_CURRENT_BINARY_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*.modulemap")

  list(TRANSFORM fed_names PREPEND libfed OUTPUT_VARIABLE requires)
  list(JOIN requires " " requires)
  list(JOIN fed_modules " " modules)
  list(JOIN fed_flags_of " " flags)
  file(RELATIVE_PATH up /prefix/${fed_pkgconfig_dir} /prefix)
  string(REGEX REPLACE "/$" "" up ${up})
  configure_file(${PROJECT_SOURCE_DIR}/deploy/cmake/library.pc.in libfed${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libfed${name}.pc DESTINATION ${fed_pkgconfig_dir})

  if(FED_SHARED)
    get_target_property(units ${target} SOURCES) # objects that were compiled in targets of their own
    list(FILTER units INCLUDE REGEX TARGET_OBJECTS)
    add_library(${target}_shared SHARED $<TARGET_OBJECTS:${target}> ${units})
    list(TRANSFORM fed_targets APPEND _shared)
    target_link_libraries(${target}_shared PUBLIC ${fed_targets} PRIVATE ${fed_others})
    target_link_options(${target}_shared PRIVATE -Wl,--no-undefined)
    set_target_properties(${target}_shared PROPERTIES OUTPUT_NAME fed${name} EXPORT_NAME ${name} LINKER_LANGUAGE C
                          VERSION ${PROJECT_VERSION} SOVERSION ${fed_abi} BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH $ORIGIN)
    install(TARGETS ${target}_shared EXPORT fedSharedTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
endfunction()

# fed_install_program(TARGET SUMMARY): the program, and its manual page, which is made of what the program itself says with --help.
function(fed_install_program target summary)
  if(NOT FED_ROOMS STREQUAL "all")
    return()
  endif()
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING OR FED_SANITIZE)
    return()
  endif()
  get_target_property(name ${target} OUTPUT_NAME)
  if(NOT name)
    set(name ${target})
  endif()
  set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
  set(script ${PROJECT_SOURCE_DIR}/deploy/man.py)
  add_custom_command(OUTPUT ${page} DEPENDS ${target} ${script} VERBATIM
    COMMAND Python3::Interpreter ${script} $<TARGET_FILE:${target}> ${summary} ${page})
  add_custom_target(${target}_page ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()

# What belongs to no room. Last in the top CMakeLists.txt.
function(fed_install_package)
  get_property(fed_components GLOBAL PROPERTY fed_components)
  get_property(fed_needs GLOBAL PROPERTY fed_needs)
  list(REMOVE_DUPLICATES fed_needs)
  configure_package_config_file(deploy/cmake/fedConfig.cmake.in fedConfig.cmake INSTALL_DESTINATION ${fed_package_dir})
  write_basic_package_version_file(fedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/fedConfig.cmake ${PROJECT_BINARY_DIR}/fedConfigVersion.cmake DESTINATION ${fed_package_dir})
  install(EXPORT fedStaticTargets NAMESPACE fed:: DESTINATION ${fed_package_dir})
  if(FED_SHARED)
    install(EXPORT fedSharedTargets NAMESPACE fed:: DESTINATION ${fed_package_dir})
  endif()

  # The units name the program by its path, which is known when it is installed.
  install(CODE "set(fed_bindir \"${CMAKE_INSTALL_BINDIR}\")\nset(fed_source \"${PROJECT_SOURCE_DIR}\")")
  install(SCRIPT deploy/cmake/units.cmake)

  file(GLOB pages docs/*.md)
  install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
  install(FILES fedclient/examples/minimal.c fedclient/examples/allreduce.c
                codecs/gpu/examples/opencl_program.c codecs/gpu/examples/cuda_program.cu DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  install(DIRECTORY deploy/conf deploy/monitoring DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  install(DIRECTORY deploy/sim/scenarios DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
endfunction()
