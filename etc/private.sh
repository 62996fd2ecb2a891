# A Lanai of a script's own: to be sourced, with the folder of the programs as $1 and the script's name
# in $self. Afterwards the programs are first on PATH, LANAI_HOME is a folder within $folder, and
# whatever way the script ends, its jobs, daemons and folder are gone then.

PATH=$(cd "${1:?the folder of the programs}" && pwd):$PATH
folder=$(mktemp -d "${TMPDIR:-/tmp}/lanai-$self.XXXXXX")
LANAI_HOME=$folder/home
export PATH LANAI_HOME
mkdir "$LANAI_HOME"

# The daemons of this script: its folder stands in their environment.
processes() {
    grep -lasF "LANAI_HOME=$LANAI_HOME" /proc/[0-9]*/environ | cut -d/ -f3 | while read -r pid; do
        case $(readlink "/proc/$pid/exe" 2>/dev/null) in */schedd | */noded) echo "$pid" ;; esac
    done
}

# Ends all there is, whatever has happened; fails if something stays.
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
        echo "$self: these processes stayed and are killed:" $left >&2
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
