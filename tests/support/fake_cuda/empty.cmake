# Empty a folder: cmake -D FOLDER=path -P empty.cmake
# SPDX-License-Identifier: Apache-2.0
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
