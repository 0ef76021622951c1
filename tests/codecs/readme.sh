#!/bin/sh
# The program in codecs/README.md compiles with the command given there, from copies of the two folders that it names.
#
#   readme.sh ROOT FOLDER     builds in FOLDER, which is made anew
set -eu
root=$1
folder=$2

block() { # LANGUAGE: the first such block of the page
    awk -v open="\`\`\`$1" '$0 == "```" && inside { exit } inside { print } $0 == open { inside = 1 }' \
        "$root/codecs/README.md"
}

rm -rf "$folder"
mkdir -p "$folder"
cp -r "$root/codecs" "$root/common" "$folder"
block c >"$folder/small.c"
block sh >"$folder/build.sh"
cd "$folder"
sh -eu build.sh >output
cat output
grep -Eqx '[0-9]+ bytes instead of 400000' output
