#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One rank for each of this host's GPUs (or RANKS of them), on all hosts at the same time:
#   NODES=2 HEAD=node1 ./torchrun.sh run.ini
# The INI lists ucx. torchrun starts processes and gives them numbers; weft does the rest.
exec torchrun --no-python --nnodes "${NODES:-1}" --nproc-per-node "${RANKS:-gpu}" \
    --rdzv-backend c10d --rdzv-endpoint "${HEAD:-localhost}:${PORT:-29400}" --max-restarts 0 \
    "${WEFT:-weft}" train "$@"
