#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One rank for each of this host's GPUs (or RANKS of them), on all hosts at the same time:
#   NODES=2 HEAD=node1 ./torchrun.sh run.ini
# The INI lists ucx. torchrun starts processes and gives them numbers; weft does the rest. torchrun
# ends with 1 whatever they end with, so that they leave their exit code, which is the same for all.
set -u
code=$(mktemp) || exit 1
trap 'rm -f "$code"' EXIT
WEFT_CODE=$code torchrun --no-python --nnodes "${NODES:-1}" --nproc-per-node "${RANKS:-gpu}" \
    --rdzv-backend c10d --rdzv-endpoint "${HEAD:-localhost}:${PORT:-29400}" --max-restarts 0 \
    bash -c '"$0" "$@" & p=$!
        trap "kill -TERM $p" TERM INT # the signal ends the wait, not the rank
        code=129
        while [ $code -gt 128 ] && kill -0 $p 2>/dev/null; do wait $p; code=$?; done
        [ $code -le 128 ] || { wait $p; code=$?; }
        echo $code >>"$WEFT_CODE"
        exit $code' "${WEFT:-weft}" train "$@"
outer=$?
exit "$(grep -vx 0 "$code" | sort -rn | head -n 1 | grep . || echo $outer)"
