# cmake -D DIR=dashboard -D OUT=dashboard.c -P embed.cmake: writes the page's files as C arrays. /page.js is made of all
# *.js files but login.js, one behind the other. So a file may use functions of any other, and code outside of functions
# must wait for DOMContentLoaded.
# SPDX-License-Identifier: Apache-2.0
file(GLOB scripts ${DIR}/*.js)
list(FILTER scripts EXCLUDE REGEX "/login\\.js$")
set(arrays "")
set(rows "")
function(embed path name type)
  set(all "")
  foreach(file ${ARGN})
    file(READ ${file} bytes HEX)
    string(REGEX MATCH "^(..)*[89abcdef]." not_ascii "${bytes}")
    if(not_ascii)
      message(FATAL_ERROR "${file}: only ASCII may be in here; write entities such as &auml; or \\u00e4")
    endif()
    string(APPEND all "${bytes}")
  endforeach()
  string(REGEX REPLACE "(..)" "0x\\1," all "${all}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" all "${all}")
  set(arrays "${arrays}static const char ${name}[] = {\n${all}0};\n" PARENT_SCOPE)
  set(rows "${rows}    {\"${path}\", \"${type}\", ${name}, sizeof ${name} - 1},\n" PARENT_SCOPE)
endfunction()
embed("/" index "text/html; charset=utf-8" ${DIR}/index.html)
embed("/login" login "text/html; charset=utf-8" ${DIR}/login.html)
embed("/page.css" style "text/css; charset=utf-8" ${DIR}/page.css)
embed("/page.js" script "text/javascript; charset=utf-8" ${scripts})
embed("/login.js" login_script "text/javascript; charset=utf-8" ${DIR}/login.js)
file(WRITE ${OUT} "/* Made by embed.cmake. */
#include \"fedserver/front/dashboard/dashboard.h\"

${arrays}
const fedserver_asset fedserver_assets[] = {
${rows}    {0}};
")
