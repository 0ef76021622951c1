#!/usr/bin/env bash
# Downloads from a cache: 20 devices behind nginx with deploy/conf/nginx-cache.conf, over plain HTTP and over TLS.
#   caches.sh SOURCE BIN     exits with 77 where nginx is not installed
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source=$1 bin=$2
devices=20 rounds=4
if ! command -v nginx >/dev/null; then
    echo "skipped: nginx is not installed"
    exit 77
fi
. "$source/tests/deploy/behind.sh"

start_coordinator() {
    front=$(free_port)
    "$bin/fedserver" run --dir "$work/fed" --front-port "$front" --devices-port "$(free_port)" --page all \
        >"$work/fed.out" 2>"$work/fed.log" &
    children+=($!)
    await grep -q devices "$work/fed.out"
}

# Make the cache's certificate. Its CA is not the coordinator's.
make_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/cdn.key" -out "$work/cdn.pem" \
        -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
}

start_nginx() {
    sed -e "s/coordinator.internal:8443/127.0.0.1:$front/" -e "s/coordinator.internal/localhost/" \
        -e "s/worker_processes auto/worker_processes 1/" \
        -e "s#listen 443 ssl;#listen 127.0.0.1:$plain; listen 127.0.0.1:$secure ssl;#" \
        -e "s# cdn\\.# $work/cdn.#" -e "s# ca.pem# $work/fed/ca.pem#" \
        -e "s#access_log cache.log#access_log $work/cache.log#" -e "s#proxy_cache_path cache#proxy_cache_path $work/cache#" \
        -e "s#^http {#http { client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; \
uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;#" "$source/deploy/conf/nginx-cache.conf" >"$work/nginx.conf"
    nginx -p "$work" -c "$work/nginx.conf" -g "daemon off; master_process off; user $(id -un); pid $work/nginx.pid; error_log $work/nginx.log;" &
    nginx=$!
    children+=("$nginx")
    await curl -s -o /dev/null "http://127.0.0.1:$plain/"
}

add_task() { # [downloads]
    local more=${1:+, \"downloads\": \"$1\"}
    echo "{\"model\": \"lr\", \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"rounds\": $rounds," \
        "\"goal\": $devices, \"cohort\": $devices, \"minimum\": $devices, \"batch\": 4, \"local_steps\": 2 $more}" >"$work/task.json"
    "$bin/fedserver" task --dir "$work/fed" "$work/task.json" >/dev/null
}

device() { # NUMBER [options]: start a device, which ends when the task is finished
    local number=$1 token=()
    if [ ! -e "$work/token$number" ]; then
        "$bin/fedserver" token --dir "$work/fed" "${token_options[@]}" >"$work/token$number"
        token=(--token-file "$work/token$number")
    fi
    timeout 200 "$bin/fedclientd" --server "https://localhost:$front" --ca "$work/fed/ca.pem" --state "$work/device$number" \
        "${token[@]}" --data "$work/data" --shard "$((number % devices))/$devices" --hold 30 --until-finished \
        "${@:2}" 2>>"$work/device$number.log" &
    running+=($!)
    children+=($!)
}

all_devices() { # [options]
    running=() token_options=()
    for number in $(seq "$devices"); do
        device "$number" "$@"
    done
}

all_end() {
    for pid in "${running[@]}"; do
        wait "$pid" || die "a device failed"
    done
}

digest() { # TASK: print the digest of its newest model
    "$bin/fedserver" export --dir "$work/fed" --task "$1" "$work/model$1.safetensors" >/dev/null
    sha256sum <"$work/model$1.safetensors"
}

metric() { # NAME
    curl -s --cacert "$work/fed/ca.pem" "https://localhost:$front/metrics" | awk -v name="$1" '$1 == name { print $2 }'
}

misses() {
    grep -c '^MISS 20' "$work/cache.log" || true
}

names() {
    awk '$2 ~ /^20/ { print $3 }' "$work/cache.log" | sort -u | wc -l
}

"$bin/fedserver" init --dir "$work/fed" --host localhost --host 127.0.0.1 >/dev/null
make_data
plain=$(free_port) secure=$(free_port)
make_certificate
start_coordinator
start_nginx

add_task
all_devices
all_end
[ "$(metric fed_cache_downloads_total)" = 0 ] || die "a task without a cache has told devices to download from one"

add_task "http://127.0.0.1:$plain/v1/blob/"
all_devices
all_end
[ "$(digest 1)" = "$(digest 2)" ] || die "the model differs from that of a run without a cache"
named=$(metric fed_cache_downloads_total)
[ "$named" -ge $((devices * rounds)) ] || die "only $named downloads from the cache were named to devices"
[ "$(names)" = $((rounds + 1)) ] || die "the cache got requests for $(names) names, not for a snapshot and $rounds deltas"
[ "$(misses)" = "$(names)" ] || die "the cache asked the front $(misses) times for $(names) names, not once for each"
[ "$(metric fed_front_blobs_total)" = "$(misses)" ] || die "the front counts $(metric fed_front_blobs_total) requests of the cache"
[ "$(grep -c '^HIT 20' "$work/cache.log")" = $((named - $(misses))) ] || die "not all other requests were hits"
echo "nginx: $named downloads of $devices devices, $(misses) of them from the front; the same bits as without"

running=() token_options=(--role evaluator)
device 99 --evaluate
all_end
[ "$(misses)" = $((rounds + 2)) ] || die "a new device's snapshot did not come through the cache"
echo "nginx: a new device took its snapshot from the cache"

before=$(metric fed_front_blobs_total)
add_task "https://localhost:$secure/v1/blob/"
all_devices --downloads-ca "$work/cdn.pem"
all_end
grep -q 'comes from the coordinator' "$work"/device?.log && die "over TLS the cache failed"
[ "$(digest 1)" = "$(digest 3)" ] || die "over TLS the model differs"
[ "$(metric fed_front_blobs_total)" -lt $((before + rounds + 2)) ] || die "over TLS the front was asked for each download"
echo "nginx: over TLS, with a CA of its own, the cache serves the same downloads"

add_task "https://localhost:$secure/v1/blob/"
all_devices # without --downloads-ca they do not trust the cache's CA
all_end
[ "$(grep -l 'comes from the coordinator' "$work"/device*.log | wc -l)" = "$devices" ] || die "a device took a download from the cache, whose CA it does not trust"
[ "$(digest 1)" = "$(digest 4)" ] || die "without the cache's CA the model differs"
echo "nginx: to devices that do not trust the cache's CA, the coordinator sends the downloads"

rm "$work"/device*.log
rounds=40
add_task "http://127.0.0.1:$plain/v1/blob/"
before=$(metric fed_cache_downloads_total)
all_devices
named_again() { [ "$(metric fed_cache_downloads_total)" -ge $((before + 2 * devices)) ]; }
await named_again
kill -9 "$nginx"
all_end
[ "$(grep -l 'comes from the coordinator' "$work"/device*.log | wc -l)" = "$devices" ] || die "not all devices turned to the coordinator after nginx was killed"
"$bin/fedserver" tasks --dir "$work/fed" | grep -q running && die "the task is not finished"
echo "nginx: killed in the middle of a task, which went on to its end"
