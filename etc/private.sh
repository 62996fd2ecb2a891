# Sets up a temporary Lanai installation for the script that sources this file, with the directory of the
# programs as $1 and the script's name in $self. The programs become first in PATH, and LANAI_HOME a
# directory in $folder. When the script exits, its jobs, daemons and directory are removed.

PATH=$(cd "${1:?missing: directory of the programs}" && pwd):$PATH
folder=$(mktemp -d "${TMPDIR:-/tmp}/lanai-$self.XXXXXX")
LANAI_HOME=$folder/home
export PATH LANAI_HOME
mkdir "$LANAI_HOME"

# Prints the pids of this script's daemons, which have its LANAI_HOME in their environment.
processes() {
    grep -lasF "LANAI_HOME=$LANAI_HOME" /proc/[0-9]*/environ | cut -d/ -f3 | while read -r pid; do
        case $(readlink "/proc/$pid/exe" 2>/dev/null) in */schedd | */noded) echo "$pid" ;; esac
    done
}

# Deletes the jobs and stops the daemons; fails if a daemon has to be killed.
clean_up() {
    status=$?
    trap - EXIT
    if [ -d "$LANAI_HOME/spool" ]; then
        qselect 2>/dev/null | xargs -r qdel >/dev/null 2>&1 || true
        schedd --stop >/dev/null 2>&1 || true
    fi
    left=$(processes) waited=0
    while [ -n "$left" ] && [ "$waited" -lt 100 ]; do
        sleep 0.1
        left=$(processes) waited=$((waited + 1))
    done
    cd /
    if [ -n "$left" ]; then
        echo "$self: killing processes that did not stop:" $left >&2
        kill -KILL $left
        status=1
    fi
    rm -rf "$folder"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
