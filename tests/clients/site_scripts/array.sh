#!/bin/bash
#PBS -N sweep
#PBS -J 1-6%2
#PBS -l select=1:ncpus=1:mem=200mb
#PBS -l walltime=00:05:00
#PBS -j oe

cd "$PBS_O_WORKDIR"

# Line N of the list is the input of subjob N
INPUT=$(sed -n "${PBS_ARRAY_INDEX}p" inputs.txt)
echo "subjob $PBS_ARRAY_INDEX of $PBS_ARRAY_ID works on $INPUT"
echo "$INPUT" | tr a-z A-Z > "result.${PBS_ARRAY_INDEX}"
sleep 0.2
