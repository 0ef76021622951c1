#!/usr/bin/env bash
# A coordinator behind nginx and behind Caddy, with the configurations of deploy/conf/.
#   proxies.sh SOURCE BIN     exits with 77 if neither nginx nor Caddy is installed
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
source=$1 bin=$2
has_nginx() {
    command -v nginx >/dev/null && [ -e /usr/lib/nginx/modules/ngx_stream_module.so ]
}
if ! has_nginx && ! command -v caddy >/dev/null; then
    echo "skipped: neither nginx with its module stream (Debian: libnginx-mod-stream) nor caddy is installed"
    exit 77
fi
. "$source/tests/deploy/behind.sh"

page() { # PORT [curl options]: print the HTTP status
    curl -s -o "$work/answer" -w '%{http_code}' --max-time 10 "${@:2}" "https://localhost:$1/v1/status" || true
}

answers() { # STATUS PORT [curl options]: whether the page answers with that HTTP status
    [ "$(page "${@:2}")" = "$1" ]
}

start_coordinator() { # options
    front=$(free_port) devices=$(free_port)
    "$bin/fedserver" run --dir "$work/fed" --front-port "$front" --devices-port "$devices" "$@" \
        >"$work/fed.out" 2>"$work/fed.log" &
    children+=($!)
    coordinator=$!
    await grep -q devices "$work/fed.out"
}

stop_coordinator() {
    kill "$coordinator"
    wait "$coordinator" || die "the coordinator failed"
}

# nginx has the coordinator's ports on another address of this machine: a device enrols and trains through it.
behind_nginx() {
    start_coordinator --proxy-protocol 127.0.0.1
    sed -e "s#modules/#/usr/lib/nginx/modules/#" \
        -e "s/listen 8443/listen 127.0.0.2:$front/" -e "s/listen 8444/listen 127.0.0.2:$devices/" \
        -e "s/coordinator.internal:8443/127.0.0.1:$front/" -e "s/coordinator.internal:8444/127.0.0.1:$devices/" \
        "$source/deploy/conf/nginx.conf" >"$work/nginx.conf"
    nginx -p "$work" -c "$work/nginx.conf" -g "daemon off; pid $work/nginx.pid; error_log $work/nginx.log;" &
    children+=($!)
    local through=(--cacert "$work/fed/ca.pem" --resolve "localhost:$front:127.0.0.2")
    await page "$front" "${through[@]}"
    answers 200 "$front" "${through[@]}" || die "the page through nginx: $(page "$front" "${through[@]}")"
    answers 000 "$front" --cacert "$work/fed/ca.pem" || die "the coordinator answers without a PROXY header"
    make_data
    echo '{"model": "lr", "rounds": 2, "cohort": 1, "batch": 4}' >"$work/task.json"
    "$bin/fedserver" task --dir "$work/fed" "$work/task.json" >/dev/null
    "$bin/fedserver" token --dir "$work/fed" >"$work/token"
    timeout 120 "$bin/fedclientd" --server "https://127.0.0.2:$front" --ca "$work/fed/ca.pem" --state "$work/device" \
        --token-file "$work/token" --data "$work/data" --until-finished 2>"$work/device.log" || die "a device behind nginx failed"
    "$bin/fedserver" status --dir "$work/fed" | grep -q finished || die "the task is not finished"
    stop_coordinator
    echo "nginx: passes TLS on; a device enrolled and trained through it, and without it nobody gets in"
}

behind_caddy() {
    local outer link cookies=$work/cookies
    outer=$(free_port)
    start_coordinator
    sed -e "s/^fed.example.org {/https:\/\/localhost:$outer {\n\ttls internal/" -e "s/127.0.0.1:8443/127.0.0.1:$front/" \
        -e "s#/var/lib/fed#$work/fed#" "$source/deploy/conf/Caddyfile" >"$work/Caddyfile"
    sed -i '1i {\n\tskip_install_trust\n\tadmin off\n\tauto_https disable_redirects\n}' "$work/Caddyfile"
    XDG_DATA_HOME=$work XDG_CONFIG_HOME=$work caddy run --config "$work/Caddyfile" --adapter caddyfile >"$work/caddy.log" 2>&1 &
    children+=($!)
    # A request through the proxy comes from this machine, and still needs a login.
    await answers 401 "$outer" -k
    bearer=$("$bin/fedserver" page --dir "$work/fed" --bearer)
    answers 200 "$outer" -k -H "Authorization: Bearer $bearer" || die "a bearer token does not get through Caddy"
    grep -q '"protocol"' "$work/answer" || die "Caddy passes on something else than the status"
    stop_coordinator
    echo "caddy: the page behind a public certificate, for those who log in"
}

"$bin/fedserver" init --dir "$work/fed" --host localhost --host 127.0.0.1 --host 127.0.0.2 >/dev/null
if has_nginx; then
    behind_nginx
else
    echo "left out: nginx, or its module stream (Debian: libnginx-mod-stream), is not installed"
fi
if command -v caddy >/dev/null; then
    behind_caddy
fi
