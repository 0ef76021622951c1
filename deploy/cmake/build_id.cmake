# Write the source OUT, which names the commit that is being built, or ID if that is given. This runs in every build, and changes OUT
# only if the commit or ID has changed.
#   cmake -D SOURCE=... -D OUT=... [-D ID=...] -P build_id.cmake
# SPDX-License-Identifier: Apache-2.0
find_program(GIT git)
set(id unknown)
if(ID)
  set(id ${ID})
elseif(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty=+changes --abbrev=10 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(id ${described})
  endif()
endif()
set(text "/* The release and the commit of this build, by deploy/cmake/build_id.cmake. */
#include \"fed/version.h\"

const char *fed_version(void) {
    return FED_VERSION;
}

const char *fed_build_id(void) {
    return \"${id}\";
}
")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
