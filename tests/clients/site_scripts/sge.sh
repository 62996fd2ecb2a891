#!/bin/bash
#$ -N sge_demo
#$ -cwd
#$ -S /bin/bash
#$ -pe smp 2
#$ -l h_rt=00:10:00,s_rt=00:09:00
#$ -l h_vmem=256M
#$ -t 1-5:2
#$ -tc 2
#$ -j y
#$ -o logs
#$ -m n -R y -notify
#$ -V

. /etc/profile > /dev/null 2>&1

echo "Job $JOB_ID ($JOB_NAME) in queue $QUEUE"
echo "Task $SGE_TASK_ID of $SGE_TASK_FIRST-$SGE_TASK_LAST:$SGE_TASK_STEPSIZE"
echo "$NSLOTS slots on $NHOSTS host in $PE"
awk '{ print "slots: " $2 }' $PE_HOSTFILE
echo "submitted in $SGE_O_WORKDIR, runs in $PWD"
echo "given: $*"
