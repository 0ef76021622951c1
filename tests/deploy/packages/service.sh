#!/usr/bin/env bash
# What an operator does with the packages: README's two devices as services, an upgrade in an open round, tasks of each user, removal, purge.
#   service.sh STAGE     as root, in a Debian that runs systemd, in this order: start, upgraded, finish, users, removed, purged, again
# The driver (deploy/packages-test.sh) installs and removes packages between the stages. A stage that fails says why.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
trap 'echo "service.sh: failed in line $LINENO: $BASH_COMMAND" >&2' ERR

state=/var/lib/fed
notes=/srv/notes # values that a later stage compares with
server=https://localhost:8443

fail() {
    echo "service.sh: $*" >&2
    systemctl status --no-pager --lines=15 fedserver fedserver-front 'fedclientd@*' >&2 || true
    exit 1
}

ask() { # KEY: print a number of the coordinator's status: number of the round, received updates in it, or version
    runuser -u fed -- fedserver status --dir $state --json | sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" | head -n 1
}

wait_until() { # COMMAND: repeat it until it succeeds, for at most 10 minutes
    for _ in $(seq 600); do
        if "$@"; then
            return
        fi
        sleep 1
    done
    fail "for 10 minutes this failed: $*"
}

serves() {
    (: </dev/tcp/localhost/8443) 2>/dev/null && (: </dev/tcp/localhost/8444) 2>/dev/null
}

user_of() { # the user that a service's process runs as
    stat -c %U "/proc/$(systemctl show -P MainPID "$1")"
}

expect() { # FOUND WANTED: fail unless they are equal
    [ "$1" = "$2" ] || fail "line ${BASH_LINENO[0]}: found \"$1\", expected \"$2\""
}

# --- start: the packages start nothing by themselves; then a coordinator and two devices run ---

nothing_runs_yet() {
    ! serves || fail "ports 8443 and 8444 are open before there is a coordinator"
    for unit in fedserver fedserver-front; do
        expect "$(systemctl is-enabled $unit || true)" disabled
    done
    ! systemctl start fedserver 2>/dev/null || fail "fedserver starts without a coordinator"
    expect "$(stat -c '%U:%G %a' $state)" "fed:fed 2770"
    expect "$(stat -c '%U:%G %a' /etc/fed/devices)" "root:fedclient 2750"
}

python_finds_programs() { # Python's package finds the programs of other packages
    expect "$(python3 -c 'from fed._programs import find; print(find("fedserver"), find("fedsim"))')" "/usr/bin/fedserver /usr/bin/fedsim"
}

make_coordinator() {
    fedserver-init --host localhost
    expect "$(stat -c '%U %a' $state/ca.key)" "fed-front 400"
    expect "$(fedserver-init)" "$state holds a coordinator already: owners and modes of its files are set"
    # The operator changes the options. An upgrade must keep the change.
    sed -i 's/^RUN_OPTIONS=.*/RUN_OPTIONS="--bind 127.0.0.1 --devices-port 8444 --requests 200"/' /etc/fed/fedserver.conf
    # README's task, changed so that a round waits for both devices, however long the upgrade takes.
    sed 's/"rounds": 200/"rounds": 30/; s/"minimum": 1/"minimum": 2/; s/"deadline_s": 60/"deadline_s": 3600/' /usr/share/doc/fedserver/examples/two-devices.json >/srv/task.json
    runuser -u fed -- fedserver task --dir $state /srv/task.json
    systemctl enable --now fedserver fedserver-front
    wait_until serves
    expect "$(user_of fedserver) $(user_of fedserver-front)" "fed fed-front"
    tr '\0' ' ' <"/proc/$(systemctl show -P MainPID fedserver)/cmdline" | grep -q -- "--requests 200" || fail "fedserver.conf is not read"
}

make_device() { # NAME SHARD
    runuser -u fed -- fedserver token --dir $state --hours 1 >"/etc/fed/devices/$1.token"
    sed "s,^SERVER=.*,SERVER=$server,; s,^DATA=.*,DATA=/srv/mnist,; s,^OPTIONS=.*,OPTIONS=\"--shard $2\"," \
        /usr/share/doc/fedclient/examples/device.conf >"/etc/fed/devices/$1.conf"
    ! runuser -u nobody -- cat "/etc/fed/devices/$1.token" 2>/dev/null || fail "the user nobody can read the token of device $1"
}

a_waits() { # whether device a's update of the open round is counted
    journalctl -u fedclientd@a -o cat --no-pager | grep -q "^round $(ask number): update counted"
}

hold_round_open() { # stop device b, so that the round stays open with device a's update in it
    systemctl stop fedclientd@b
    wait_until a_waits
    expect "$(ask received)" 1
    ask number >$notes/round
}

start() {
    mkdir -p $notes
    nothing_runs_yet
    python_finds_programs
    make_coordinator
    cp $state/ca.pem /etc/fed/devices/ca.pem
    make_device a 0/2
    make_device b 1/2
    systemctl enable --now fedclientd@a fedclientd@b
    wait_until eval '[ "$(ask number)" -ge 3 ]'
    expect "$(user_of fedclientd@a) $(stat -c '%U %a' /var/lib/fedclient/a)" "fedclient fedclient 700"
    hold_round_open
    fedserver --version >$notes/version
    for unit in fedserver fedserver-front fedclientd@a; do
        systemctl show -P MainPID $unit
    done >$notes/pids
    sha256sum /etc/fed/fedserver.conf /etc/fed/devices/* >$notes/conf
    echo "start: round $(cat $notes/round) is open with one update; $(cat $notes/version)"
}

# --- upgraded: new programs, the same round with the same update, the operator's files as they were ---

upgraded() {
    [ "$(fedserver --version)" != "$(cat $notes/version)" ] || fail "this is still the old version"
    wait_until serves
    local k=0
    mapfile -t pids <$notes/pids
    for unit in fedserver fedserver-front fedclientd@a; do
        expect "$(systemctl is-active $unit)" active
        [ "$(systemctl show -P MainPID $unit)" != "${pids[k]}" ] || fail "$unit still runs the old program"
        k=$((k + 1))
    done
    expect "$(systemctl is-active fedclientd@b || true)" inactive
    expect "$(ask number) $(ask received)" "$(cat $notes/round) 1"
    sha256sum --quiet -c $notes/conf || fail "the upgrade changed what the operator wrote"
    echo "upgraded: round $(cat $notes/round) is still open with that update; $(fedserver --version)"
}

# --- finish: the services do the rest of the task ---

finished() {
    runuser -u fed -- fedserver tasks --dir $state --json | grep -q '"state": "finished"'
}

finish() {
    systemctl start fedclientd@b
    wait_until finished
    fedserver export --dir $state /srv/model.safetensors # root may export, too
    install -d -o fed-front -m 700 /srv/backups
    runuser -u fed-front -- fedserver backup --dir $state /srv/backups/front
    fedserver backup --dir $state /srv/backups/root
    systemctl stop fedserver fedserver-front
    runuser -u fed -- fedserver check --dir $state | grep -F ": 0 rules broken"
    expect "$(find $state -user root | wc -l)" 0
    systemctl start fedserver
    wait_until serves # fedserver.service starts the front, too, so both serve again
    expect "$(journalctl -u fedserver -u fedserver-front -p err --no-pager -q | wc -l)" 0
    sha256sum $state/ca.key /srv/model.safetensors >$notes/kept
    echo "finish: 30 rounds, $(stat -c %s /srv/model.safetensors) bytes of model"
}

# --- users: each user queues a LeNet task, whose model lies in files; the page's download and `backup` work as docs/packages.md says ---

task_is_finished() { # TASK
    runuser -u fed -- fedserver tasks --dir $state --json |
        python3 -c 'import json, sys; sys.exit([t["state"] for t in json.load(sys.stdin) if t["id"] == int(sys.argv[1])] != ["finished"])' "$1"
}

download() { # TASK FILE: as a browser elsewhere does, which has no certificate but the link that `fedserver page` prints
    local link
    link=$(runuser -u fed -- fedserver page --dir $state | grep -o 'https://[^ ]*#[^ ]*')
    python3 - "$link" $state/ca.pem "$1" "$2" <<'END'
import http.cookiejar, ssl, sys, urllib.error, urllib.request
link, ca, task, path = sys.argv[1:]
site, token = link.split("/login#")
https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca))
browser = urllib.request.build_opener(https, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
browser.addheaders = [("Via", "1.1 proxy")]  # such a request comes from another machine
model = f"{site}/model.safetensors?task={task}"
try:
    browser.open(model)
    sys.exit("the model was read without a pass")
except urllib.error.HTTPError as error:
    if error.code != 401:
        raise
browser.open(f"{site}/v1/login", token.encode())
with open(path, "wb") as file:
    file.write(browser.open(model).read())
END
}

use_as() { # USER TASK: queue a task of one round, let it finish, and compare the model of the page with an exported one
    (umask 0077 && runuser -u "$1" -- fedserver task --dir $state /srv/one-round.json)
    wait_until task_is_finished "$2"
    runuser -u "$1" -- fedserver export --dir $state --task "$2" "/srv/of-$1/model.safetensors"
    download "$2" "/srv/of-$1/downloaded.safetensors"
    cmp "/srv/of-$1/model.safetensors" "/srv/of-$1/downloaded.safetensors"
    [ "$(stat -c %s "/srv/of-$1/downloaded.safetensors")" -gt 1048576 ] || fail "the model of task $2 is too small for this test"
}

users() {
    local user task=1
    sed 's/"rounds": 200/"rounds": 1/' /usr/share/doc/fedserver/examples/two-devices.json >/srv/one-round.json
    for user in root fed fed-front; do
        install -d -o "$user" -m 700 "/srv/of-$user"
        task=$((task + 1))
        use_as "$user" $task
    done
    for user in root fed-front; do
        runuser -u $user -- fedserver backup --dir $state "/srv/of-$user/backup"
        runuser -u $user -- fedserver check --dir "/srv/of-$user/backup" | grep -F ": 0 rules broken"
        runuser -u $user -- fedserver restore --dir "/srv/of-$user/restored" "/srv/of-$user/backup"
        runuser -u $user -- fedserver export --dir "/srv/of-$user/restored" --task 2 "/srv/of-$user/restored.safetensors"
        cmp "/srv/of-$user/restored.safetensors" /srv/of-root/model.safetensors
    done
    ! said=$(runuser -u fed -- fedserver backup --dir $state /srv/of-fed/backup 2>&1) || fail "the user fed can read the CA's key"
    grep -q "ca.key" <<<"$said" || fail "the refusal of fed's backup names no ca.key: $said"
    expect "$(find $state -user root | wc -l)" 0
    expect "$(journalctl -u fedserver -u fedserver-front -p err --no-pager -q | wc -l)" 0
    echo "users: root, fed and fed-front queued LeNet; the page gave each model; root and fed-front made backups"
}

# --- removed, purged: programs go; the operator's files go with a purge; a coordinator's state stays ---

removed() {
    ! serves || fail "ports 8443 and 8444 still accept connections"
    ! command -v fedserver fedclientd || fail "a program is still there"
    ! cat /proc/[0-9]*/comm 2>/dev/null | grep -qx 'fedserver\|fedclientd' || fail "a process still runs"
    sha256sum --quiet -c $notes/conf || fail "removal deleted what the operator wrote"
    sha256sum --quiet -c $notes/kept || fail "removal touched the coordinator's state"
    echo "removed: services stopped, files of the operator and state are there"
}

purged() {
    [ ! -e /etc/fed/fedserver.conf ] || fail "the purge left the conffile"
    sha256sum --quiet -c $notes/kept || fail "the purge touched the coordinator's state"
    [ -e /etc/fed/devices/a.conf ] && [ -d /var/lib/fedclient/a ] || fail "the purge deleted a device's options or state"
    # Look only for files of the purged packages, as fed-tools stays installed.
    expect "$(find /etc/systemd/system /lib/systemd/system /usr/bin -name 'fedserver*' -o -name 'fedclient*' | wc -l)" 0
    echo "purged: conffile, units and programs are gone; what the operator made stays"
}

# --- again: installed once more, the coordinator and the devices go on ---

again() {
    systemctl enable --now fedserver fedclientd@a
    wait_until serves
    sha256sum --quiet -c $notes/kept || fail "the coordinator's CA key, or the exported model, is not the one from before the purge"
    finished || fail "the coordinator does not list its task as finished any more"
    wait_until eval "journalctl -u fedclientd@a -o cat --no-pager | tail -n 5 | grep -q 'enrolled already'"
    echo "again: the same coordinator serves the same devices"
}

"$1"
