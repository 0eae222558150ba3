#!/bin/bash
# Names the folder for the captures of a job: TaskProlog in slurm.conf, or srun --task-prolog.
# What it prints as `export NAME=value` is in the environment of the task.
echo "export DIAGNOSE_RUN=${DIAGNOSE_ROOT:-/shared/diagnose-runs}/${SLURM_JOB_USER:-$(/usr/bin/id -un)}/$SLURM_JOB_ID"
