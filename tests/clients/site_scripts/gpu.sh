#!/bin/bash
#PBS -N train
#PBS -l select=1:ncpus=4:ngpus=1:mem=1gb
#PBS -l walltime=00:30:00
#PBS -o train.out
#PBS -e train.err

cd ${PBS_O_WORKDIR}

export OMP_NUM_THREADS=4
echo "host: $(hostname)"
echo "GPUs: ${CUDA_VISIBLE_DEVICES}"
echo "CPUs: ${NCPUS}"
if [ -n "$CUDA_VISIBLE_DEVICES" ] ; then
    echo "training on $(echo $CUDA_VISIBLE_DEVICES | tr ',' '\n' | wc -l) GPU"
else
    echo "no GPU" >&2
    exit 1
fi
