# Make a C file with the texts of kernels: cmake -D NAME=symbol -D OUT=path -D FILES=a;b -P kernels.cmake
# SPDX-License-Identifier: Apache-2.0
set(all "")
foreach(file ${FILES})
  file(READ ${file} text HEX)
  string(APPEND all ${text})
endforeach()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${all}")
string(REPEAT "0x..," 16 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
