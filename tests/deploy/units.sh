#!/usr/bin/env bash
# The systemd units: systemd can read them, and its own security check scores each under 2.0.
#   units.sh SOURCE     exits with 77 where systemd-analyze is not installed, or too old to read units from files
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$1/deploy/systemd"

if ! systemd-analyze --help 2>/dev/null | grep -q -- --offline; then
    echo "skipped: systemd-analyze 250 or later is not installed"
    exit 77
fi
for unit in *.service; do
    # The program is not installed here, and systemd before 254 lacks two keys: messages about either are not faults of the unit.
    faults=$(systemd-analyze verify --man=no "./$unit" 2>&1 | grep -F "${unit%%[@.]*}" |
        grep -v -e "is not executable: No such file" -e "Unknown key.*'Restart\(Steps\|MaxDelaySec\)'" || true)
    if [ -n "$faults" ]; then
        echo "$unit: systemd-analyze verify found: $faults"
        exit 1
    fi
    systemd-analyze security --offline=true --threshold=20 "./$unit" | tail -n 1
    keys="AssertPathExists= StartLimitIntervalSec=0 EnvironmentFile= Documentation= LimitCORE=0"
    # Devices and helpers connect to others, and serve nobody.
    [ "$unit" = fedclientd@.service ] || [ "$unit" = fedserver-helper.service ] ||
        keys="$keys Type=notify WatchdogSec= Restart=always RestartMaxDelaySec= ExecReload="
    for key in $keys; do
        grep -q "^$key" "$unit" || { echo "$unit lacks $key"; exit 1; }
    done
done
