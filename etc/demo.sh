#!/bin/sh
# Demonstration: submits jobs to a temporary installation, shows them, and waits for them.
# Usage: demo.sh DIRECTORY_OF_THE_PROGRAMS
set -eu

self=demo
. "$(dirname "$0")/private.sh"

# Shows a command, then runs it.
show() {
    echo "\$ $*"
    "$@"
    echo
}

attribute() {
    qstat -x -f "$1" | sed -n "s/^ *$2 = //p"
}

# Waits until a job has finished; fails after a minute.
await() {
    waited=0
    until [ "$(attribute "$1" job_state)" = F ]; do
        waited=$((waited + 1))
        if [ "$waited" -gt 300 ]; then
            echo "demo: $1 has not finished after a minute:" >&2
            qstat -x -f "$1" >&2
            return 1
        fi
        sleep 0.2
    done
}

cd "$folder"
cat >primes.sh <<'END'
#!/bin/sh
#PBS -N primes
#PBS -l select=1:ncpus=1
#PBS -l walltime=5:00
#PBS -j oe
echo "Job $PBS_JOBID counts the primes below ten million:"
seq 2 9999999 | factor | grep -c ': [0-9]*$'
END

show cat primes.sh
echo "\$ qsub primes.sh"
id=$(qsub primes.sh)
echo "$id"
echo
show qstat
echo "\$ qsub -N answer -W block=true -- /bin/sh -c 'exit 3'"
blocked=0
qsub -N answer -W block=true -- /bin/sh -c 'exit 3' || blocked=$?
echo "(qsub waited for the job and exited with its status: $blocked)"
echo
[ "$blocked" -eq 3 ] || { echo "demo: qsub exited with $blocked, not with 3" >&2; exit 1; }

await "$id"
show qstat -x
show cat "primes.o${id%%.*}"
grep -qx 664579 "primes.o${id%%.*}" || { echo "demo: primes.o${id%%.*} does not contain 664579, the number of primes" >&2; exit 1; }
echo "\$ qstat -x -f ${id%%.*} | grep Exit_status"
qstat -x -f "$id" | grep Exit_status
[ "$(attribute "$id" Exit_status)" = 0 ]
