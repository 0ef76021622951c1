# cmake -D IN=index.html -D OUT=dashboard.c -P embed.cmake: the page as a C array.
file(READ ${IN} bytes HEX)
string(REGEX MATCH "^(..)*[89abcdef]." not_ascii "${bytes}")
if(not_ascii)
  message(FATAL_ERROR "${IN}: only ASCII may be in here; write entities such as &auml; or \\u00e4")
endif()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "/* Made by embed.cmake from index.html. */
#include \"fedserver/dashboard/dashboard.h\"

const char fedserver_dashboard_html[] = {
${bytes}0};
const size_t fedserver_dashboard_html_len = sizeof fedserver_dashboard_html - 1;
")
