#!/bin/sh
# Real clients of the PBS command line, each through a driver of its own, against a private
# installation of these programs. Prints each driver's last line; fails unless each passed.
# Usage: test-clients.sh FOLDER_OF_THE_PROGRAMS FOLDER_OF_THE_DRIVERS
#
# A driver is a program DRIVER.py that makes its client's environment when called with --setup, and says
# PASS or FAIL in the last line it prints. The first time, clients are fetched from the network, and kept
# (CLIENT_VENVS, else ~/.cache/lanai-clients). CLIENT_STRICT=1 counts what goes beyond stock PBS, too.
set -eu

drivers=${2:?the folder of the drivers}
if ! [ -d "$drivers" ]; then
    echo "test-clients: not run: there is no folder $drivers"
    exit 0
fi
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    echo "test-clients: not run: the drivers need python3 with venv and pip, which is not here"
    exit 0
fi
drivers=$(cd "$drivers" && pwd)
self=test-clients
. "$(dirname "$0")/private.sh"

# Clients count on four processors, whatever this machine has.
cat >"$LANAI_HOME/lanai.toml" <<CONFIG
[[node]]
name = "$(uname -n | cut -d. -f1)"
ncpus = 4
CONFIG

# What the network refuses is no fault of the client, and none of ours.
offline='NewConnectionError|connection broken|name resolution|Network is unreachable|ProxyError|ConnectTimeout'

# What is known of a failure, for people to read.
tell() {
    echo "--- $1: the end of what it said"
    tail -n 40 "$2"
    echo "---"
}

# Makes a client's environment: 0 when it is there, 1 when it cannot be had here, 2 on a fault.
prepare() {
    timeout --foreground 900 python3 "$1" --setup >"$folder/setup" 2>&1 </dev/null && return 0
    grep -qE "$offline" "$folder/setup" && return 1
    tell "$2" "$folder/setup" >&2
    return 2
}

# Runs a driver, and prints its last line. It ends itself after CLIENT_LIMIT seconds, if it can.
limit=${CLIENT_LIMIT:-50}
drive() {
    timeout --foreground -k 10 $((${limit%.*} + 60)) python3 "$1" >"$folder/said" 2>"$folder/details" </dev/null || true
    verdict=$(tail -n 1 "$folder/said")
    echo "$2: ${verdict:-said nothing}"
    case $verdict in PASS\ *) return 0 ;; esac
    tell "$2" "$folder/details" >&2
    return 1
}

cd "$folder"
# What a driver that is interrupted leaves goes with the folder.
[ -n "${CLIENT_KEEP:-}" ] || { TMPDIR=$folder && export TMPDIR; }
# If not even this runs, no client is to blame.
qsub -W block=true -N first -- /bin/true >/dev/null

failed=0 missed=0
for driver in "$drivers"/*.py; do
    name=$(basename "$driver" .py)
    got=0
    prepare "$driver" "$name" || got=$?
    case $got in
    0) drive "$driver" "$name" || failed=$((failed + 1)) ;;
    1) echo "$name: not run: the network gives no client to drive" && missed=$((missed + 1)) ;;
    *) echo "$name: FAIL: its environment cannot be made" && failed=$((failed + 1)) ;;
    esac
done
[ "$missed" -eq 0 ] || echo "test-clients: $missed of the drivers did not run"
[ "$failed" -eq 0 ]
