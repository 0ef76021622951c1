# The rules of cmake --install BUILD --prefix P: see docs/install.md. No installed file holds a path of this machine. So the folder P
# can be moved, and another machine makes the same files.
# SPDX-License-Identifier: Apache-2.0

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(fed_abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}) # before 1.0 each minor release may change structs
set(fed_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fed)
set(fed_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Sort LINK_LIBRARIES of a target into variables of the caller, for programs that link to the installed library:
#   fed_names      names of our own libraries, such as common and codecs
#   fed_targets    the targets of our own libraries
#   fed_modules    pkg-config's names of other libraries, such as libcurl
#   fed_needs      these modules as component/PREFIX/module, and the modules that our own libraries need
#   fed_flags_of   linker flags of libraries that pkg-config does not know, such as -lm -pthread
#   fed_others     CMake's names of all libraries that are not ours
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
# with the headers of include/, libfedNAME.pc, and fed::NAME of the CMake package. A project that adds this one by add_subdirectory
# links to fed::NAME, too. Call it last in a library's CMakeLists.txt.
function(fed_install_library target name description)
  add_library(fed::${name} ALIAS ${target})
  if(NOT FED_INSTALL)
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
    get_target_property(units ${target} SOURCES) # sources that are compiled in targets of their own
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

# fed_install_program(TARGET SUMMARY): install the program, and its manual page, which is made of the program's --help.
# TARGET may be the path of a script, which is installed with the name that it has there.
function(fed_install_program target summary)
  if(NOT FED_INSTALL)
    return()
  endif()
  if(TARGET ${target})
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    get_target_property(name ${target} OUTPUT_NAME)
    set(program $<TARGET_FILE:${target}>)
    if(NOT name)
      set(name ${target})
    endif()
  else()
    install(PROGRAMS ${target} DESTINATION ${CMAKE_INSTALL_BINDIR})
    get_filename_component(name ${target} NAME)
    set(program ${target})
  endif()
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING OR FED_SANITIZE)
    return()
  endif()
  set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
  set(script ${PROJECT_SOURCE_DIR}/deploy/man.py)
  add_custom_command(OUTPUT ${page} DEPENDS ${target} ${script} ${PROJECT_SOURCE_DIR}/deploy/program_help.py VERBATIM
    COMMAND Python3::Interpreter -B ${script} ${program} ${summary} ${page})
  add_custom_target(${name}_page ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  set_property(GLOBAL APPEND PROPERTY fed_program_names ${name})
  set_property(GLOBAL APPEND PROPERTY fed_program_files ${program})
  set_property(GLOBAL APPEND PROPERTY fed_program_targets ${target})
endfunction()

# Install files with which bash, zsh and fish complete the programs' options, in the folders below the prefix where the shells look.
function(fed_install_completion)
  get_property(names GLOBAL PROPERTY fed_program_names)
  get_property(files GLOBAL PROPERTY fed_program_files)
  get_property(targets GLOBAL PROPERTY fed_program_targets)
  if(NOT names)
    return()
  endif()
  set(FED_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Where zsh looks for completions; Debian has its own place")
  set(FED_BASH_DIR ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  set(FED_FISH_DIR ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  set(out ${PROJECT_BINARY_DIR}/completion)
  set(script ${PROJECT_SOURCE_DIR}/deploy/completion.py)
  foreach(name ${names})
    list(APPEND made ${out}/bash/${name} ${out}/zsh/_${name} ${out}/fish/${name}.fish)
    install(FILES ${out}/bash/${name} DESTINATION ${FED_BASH_DIR})
    install(FILES ${out}/zsh/_${name} DESTINATION ${FED_ZSH_DIR})
    install(FILES ${out}/fish/${name}.fish DESTINATION ${FED_FISH_DIR})
  endforeach()
  add_custom_command(OUTPUT ${made} DEPENDS ${targets} ${script} ${PROJECT_SOURCE_DIR}/deploy/program_help.py VERBATIM
    COMMAND Python3::Interpreter -B ${script} ${out} ${files})
  add_custom_target(fed_completion ALL DEPENDS ${made})
endfunction()

# Install the CMake package of the libraries that are built. Call it after them in the top CMakeLists.txt.
function(fed_install_package)
  if(NOT FED_INSTALL)
    return()
  endif()
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
endfunction()

# fed_install_documents(SOURCE=PLACE...): install the documents. Without Python they are installed as they are, and their links lead to
# files that only the sources have. SOURCE=PLACE is explained in deploy/documents.py.
function(fed_install_documents)
  file(GLOB_RECURSE pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} docs/*.md docs/*.svg docs/*.png)
  list(APPEND pages README.md CHANGELOG.md CONTRIBUTING.md CODE_OF_CONDUCT.md SECURITY.md LICENSE deploy/systemd/README.md)
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    foreach(page ${pages})
      get_filename_component(folder ${page} DIRECTORY)
      install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
    endforeach()
    return()
  endif()
  set(out ${PROJECT_BINARY_DIR}/documents)
  set(script ${PROJECT_SOURCE_DIR}/deploy/documents.py)
  list(TRANSFORM pages PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  add_custom_command(OUTPUT ${out}/README.md DEPENDS ${sources} ${script} VERBATIM
    COMMAND Python3::Interpreter -B ${script} ${PROJECT_SOURCE_DIR} ${out} ${ARGN})
  add_custom_target(fed_documents ALL DEPENDS ${out}/README.md)
  install(DIRECTORY ${out}/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()

# Install what only the whole project has: scripts, completion, units, documents, examples. Call it last in the top CMakeLists.txt.
function(fed_install_extras)
  if(NOT FED_INSTALL)
    return()
  endif()
  configure_file(deploy/systemd/fedserver-init.in ${PROJECT_BINARY_DIR}/scripts/fedserver-init @ONLY)
  fed_install_program(${PROJECT_BINARY_DIR}/scripts/fedserver-init "make a coordinator that runs as a service")
  fed_install_completion()

  # systemd's units name the program by its path, which is known only when it is installed.
  install(CODE "set(fed_bindir \"${CMAKE_INSTALL_BINDIR}\")\nset(fed_source \"${PROJECT_SOURCE_DIR}\")")
  install(SCRIPT deploy/cmake/units.cmake)

  set(examples fedclient/examples/minimal.c fedclient/examples/allreduce.c codecs/gpu/examples/opencl_program.c
               codecs/gpu/examples/cuda_program.cu deploy/conf deploy/monitoring deploy/sim/scenarios)
  foreach(example ${examples})
    get_filename_component(name ${example} NAME)
    list(APPEND places ${example}=examples/${name})
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${example})
      install(DIRECTORY ${example} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
    else()
      install(FILES ${example} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
    endif()
  endforeach()
  fed_install_documents(${places})
endfunction()
