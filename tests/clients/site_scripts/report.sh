#!/bin/bash
#PBS -l select=1:ncpus=1,walltime=00:01:00
#PBS -j oe
cd $PBS_O_WORKDIR
echo "$PARTS parts, the last step is $(cat checkpoint)"
cat simulation.log
