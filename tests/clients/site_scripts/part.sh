#!/bin/bash
#PBS -l select=1:ncpus=1
#PBS -l walltime=00:05:00
#PBS -j oe
#PBS -m n

cd $PBS_O_WORKDIR
STEP=$(cat checkpoint 2> /dev/null || echo 0)
echo "$PBS_JOBNAME goes on from step $STEP" >> simulation.log
echo $((STEP + 10)) > checkpoint
