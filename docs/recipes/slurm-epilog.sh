#!/bin/bash
# One line in the output of a job, from the capture that it left: srun --epilog, or Epilog in slurm.conf.
# It ends with 0 whatever happens: Slurm drains a node whose Epilog fails.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin # and the folder of scontrol, if it is elsewhere
user=${SLURM_JOB_USER:-$(id -un)}
if [ "$(id -u)" = 0 ] && [ "$user" != root ]; then # what a user wrote is read, and told, as that user
    runuser -u "$user" -- "$0"
    exit 0
fi
run=${DIAGNOSE_ROOT:-/shared/diagnose-runs}/$user/$SLURM_JOB_ID
[ -d "$run" ] || exit 0
mkdir "$run.told" 2>/dev/null || exit 0 # the epilog of another node, or step, is there already
line=$(nice -n 19 timeout 120 "${DIAGNOSE:-/opt/diagnose/bin/diagnose}" analyze "$run" --quiet 2>&1 | tr -s '[:space:]' ' ')
line="diagnose: ${line:-no answer within two minutes }(again: diagnose analyze $run)"
if [ "$SLURM_SCRIPT_CONTEXT" = epilog_slurmd ]; then # what it prints is lost, and its SLURM_JOB_STDOUT is not expanded
    output=$(timeout 20 scontrol show job "$SLURM_JOB_ID" | sed -n "/^JobId=$SLURM_JOB_ID /,/^\$/s/^ *StdOut=//p")
fi
if [ -f "$output" ]; then
    echo "$line" >>"$output"
else
    echo "$line"
fi
exit 0
