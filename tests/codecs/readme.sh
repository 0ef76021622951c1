#!/bin/sh
# The program in codecs/README.md compiles with the commands given there, with all codecs and with some, from copies of the two
# folders that it names.
#
#   readme.sh ROOT FOLDER     builds in FOLDER, which is made anew
# SPDX-License-Identifier: Apache-2.0
set -eu
root=$1
folder=$2

block() { # LANGUAGE NUMBER: print the code block of this language with this number, from 1
    awk -v open="\`\`\`$1" -v number="$2" \
        '$0 == "```" { inside = 0 } inside { print } $0 == open { inside = ++count == number }' "$root/codecs/README.md"
}

rm -rf "$folder"
mkdir -p "$folder"
cp -r "$root/codecs" "$root/common" "$folder"
block c 1 >"$folder/small.c"
block sh 1 >"$folder/all.sh"
block text 1 >"$folder/few.def"
block sh 2 >"$folder/few.sh"
cd "$folder"
sh -eu all.sh >all.out
cat all.out
grep -Eqx '[0-9]+ bytes instead of 400000' all.out
sh -eu few.sh >few.out
cmp all.out few.out
sed 's/sbc:p=0.01/3lc/' small.c >other.c
sed 's/-o few small.c/-o other other.c/; s/^\.\/few/! .\/other/' few.sh >other.sh
sh -eu other.sh 2>other.out
grep -q 'unknown codec "3lc"; there are float32, sbc' other.out
