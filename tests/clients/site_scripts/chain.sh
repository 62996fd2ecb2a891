#!/bin/bash
# Submits a simulation in three parts, each of which goes on where the last one ended.

FIRST=$(qsub -N part1 part.sh)
echo $FIRST
SECOND=$(qsub -N part2 -W depend=afterok:$FIRST part.sh)
echo $SECOND
THIRD=$(qsub -N part3 -W depend=afterok:$SECOND part.sh)
echo $THIRD
qsub -N report -W depend=afterany:$FIRST:$SECOND:$THIRD -v PARTS=3 report.sh
