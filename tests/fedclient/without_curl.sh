#!/bin/sh
# Checks that the client library builds and links without libcurl, using mbedTLS if that supports TLS 1.3, else no transport.
#
#   without_curl.sh ROOT FOLDER COMPILER     builds in FOLDER
# SPDX-License-Identifier: Apache-2.0
set -eu
root=$1
folder=$2
compiler=$3

cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=MinSizeRel -DFED_CURL=OFF \
    -DFED_TESTS=OFF -DFED_WERROR=ON >"$folder.log" 2>&1 || { tail -20 "$folder.log"; exit 1; }
cmake --build "$folder" --target minimal >"$folder.log" 2>&1 || { tail -20 "$folder.log"; exit 1; }
program=$folder/bin/minimal
if readelf -d "$program" | grep libcurl || nm "$program" | grep -i curl_; then
    echo "minimal needs libcurl all the same"
    exit 1
fi
# The file is no CA certificate, but only a transport finds that out.
cp "$root/LICENSE" "$folder/ca.pem"
cd "$folder"
./bin/minimal https://127.0.0.1:1 ca.pem token 2>said && { echo "minimal took a licence for a CA"; exit 1; }
if grep -q 'FED_MBEDTLS_SPEAKS_TLS13:INTERNAL=1' CMakeCache.txt; then
    grep -q 'the CA is not a certificate' said
    nm bin/minimal | grep -q mbedtls_ssl_handshake
else
    grep -q 'this build has no transport' said
fi
cat said
