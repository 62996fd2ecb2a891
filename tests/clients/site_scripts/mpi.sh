#!/bin/bash
#PBS -N mpi_hello
#PBS -l nodes=4:ppn=2
#PBS -l walltime=00:10:00
#PBS -j oe
#PBS -V

# Go to the directory the job was submitted from
cd $PBS_O_WORKDIR

NPROCS=$(wc -l < $PBS_NODEFILE)
NNODES=$(sort -u $PBS_NODEFILE | wc -l)
echo "Job $PBS_JOBID runs $NPROCS processes on $NNODES nodes:"
sort $PBS_NODEFILE | uniq -c

mpirun -np $NPROCS -machinefile $PBS_NODEFILE ./hello
