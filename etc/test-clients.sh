#!/bin/sh
# Tests a temporary installation of these programs with real clients of the PBS command line. Each client
# has a driver. Prints each driver's last line; fails unless all pass.
# Usage: test-clients.sh DIRECTORY_OF_THE_PROGRAMS DIRECTORY_OF_THE_DRIVERS
#
# A driver is a program DRIVER.py. With --setup it creates its client's environment. Otherwise it runs the
# client, and prints PASS or FAIL in its last line. The first run downloads the clients to CLIENT_VENVS, by
# default ~/.cache/lanai-clients. CLIENT_STRICT=1 also counts failures of checks that exceed stock PBS.
set -eu

drivers=${2:?missing: directory of the drivers}
if ! [ -d "$drivers" ]; then
    echo "test-clients: skipped: no directory $drivers"
    exit 0
fi
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    echo "test-clients: skipped: the drivers require python3 with venv and pip"
    exit 0
fi
drivers=$(cd "$drivers" && pwd)
self=test-clients
. "$(dirname "$0")/private.sh"

# The clients expect four processors.
cat >"$LANAI_HOME/lanai.toml" <<CONFIG
[[node]]
name = "$(uname -n | cut -d. -f1)"
ncpus = 4
CONFIG

# Network errors, which are not failures of a client or of Lanai.
offline='NewConnectionError|connection broken|name resolution|Network is unreachable|ProxyError|ConnectTimeout'

# Prints the end of a failed driver's output.
show_end() {
    echo "--- $1: end of its output"
    tail -n 40 "$2"
    echo "---"
}

# Creates a client's environment. Returns 0 on success, 1 without network, 2 on another error.
prepare() {
    timeout --foreground 900 python3 "$1" --setup >"$folder/setup" 2>&1 </dev/null && return 0
    grep -qE "$offline" "$folder/setup" && return 1
    show_end "$2" "$folder/setup" >&2
    return 2
}

# Runs a driver, and prints its last line. A driver ends itself after CLIENT_LIMIT seconds; timeout kills it
# a minute later.
limit=${CLIENT_LIMIT:-50}
drive() {
    timeout --foreground -k 10 $((${limit%.*} + 60)) python3 "$1" >"$folder/output" 2>"$folder/details" </dev/null || true
    verdict=$(tail -n 1 "$folder/output")
    echo "$2: ${verdict:-no output}"
    case $verdict in PASS\ *) return 0 ;; esac
    show_end "$2" "$folder/details" >&2
    return 1
}

cd "$folder"
# Temporary files of drivers are removed with the directory.
[ -n "${CLIENT_KEEP:-}" ] || { TMPDIR=$folder && export TMPDIR; }
# If this job fails, the installation does not work.
qsub -W block=true -N first -- /bin/true >/dev/null

failed=0 skipped=0
for driver in "$drivers"/*.py; do
    name=$(basename "$driver" .py)
    status=0
    prepare "$driver" "$name" || status=$?
    case $status in
    0) drive "$driver" "$name" || failed=$((failed + 1)) ;;
    1) echo "$name: skipped: its client cannot be downloaded" && skipped=$((skipped + 1)) ;;
    *) echo "$name: FAIL: its environment cannot be created" && failed=$((failed + 1)) ;;
    esac
done
[ "$skipped" -eq 0 ] || echo "test-clients: $skipped drivers skipped"
[ "$failed" -eq 0 ]
