#!/bin/sh
### Job name and shell
#PBS -N torque_demo
#PBS -S /bin/sh
### Declare job non-rerunable, send no mail
#PBS -r n
#PBS -m n
#PBS -j oe
### One node, two cores, half a gigabyte for each process
#PBS -l nodes=1:ppn=2,pmem=512mb,walltime=0:10:00
#PBS -l naccesspolicy=singlejob
#PBS -W x=NACCESSPOLICY:SINGLEJOB
### Tasks 1 to 3 and 7, two at a time
#PBS -t 1-3,7%2

cd $PBS_O_WORKDIR
echo "Server: $PBS_O_SERVER, queue: $PBS_QUEUE"
echo "Task $PBS_ARRAYID has $PBS_NUM_PPN cores on $PBS_NUM_NODES node, $PBS_NP processes"
echo "Seconds: $PBS_WALLTIME"
echo "Arguments: $# ($1, $2)"
