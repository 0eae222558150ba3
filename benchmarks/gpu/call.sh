#!/usr/bin/env bash
# call.sh CALL [--only TEXT] [--skip TEXT] [--budget S] [--again]: one call of at most ten minutes, see README.md.
# TINY=1 runs the same parts on a CPU with tiny models. What comes back lies in $OUT; the last lines are the summary.
set -u
began=$(date +%s)
call=${1:?which call: 1, 2, 3 or 4}
shift
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$kit/../.." && pwd)
place=${TMPDIR:-/tmp}/diagnose-gpu-$(id -u)
export OUT=${OUT:-$place/out} WORK=${WORK:-$place/work} TINY=${TINY:-0}
site=${SITE:-$place/site}
python=${PYTHON:-python3}
mkdir -p "$OUT" "$WORK"

"$python" "$kit/ready.py" "$repo" "$site" || exit 1
export PYTHONPATH=$site PATH=$site/bin:$PATH
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$WORK/hf
export TOKENIZERS_PARALLELISM=false DIAGNOSE_LEDGER=off DIAGNOSE_CACHE_DIR=$WORK/cache WANDB_DISABLED=true
export TRITON_CACHE_DIR=$WORK/triton TORCHINDUCTOR_CACHE_DIR=$WORK/inductor XDG_CACHE_HOME=$WORK/xdg
export TMPDIR=$WORK/tmp COLUMNS=110 NO_COLOR=1
unset CUDA_LAUNCH_BLOCKING PYTHONDONTWRITEBYTECODE PYTHONSAFEPATH
mkdir -p "$TMPDIR" "$DIAGNOSE_CACHE_DIR"
[[ $TINY == 1 ]] && export CUDA_VISIBLE_DEVICES=
# Away from the repository: `python3 -m diagnose` in its root would run the uncompiled sources there.
cd "$WORK" || exit 1
exec "$python" "$kit/drive.py" "$call" --repo "$repo" --began "$began" "$@"
