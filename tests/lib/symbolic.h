/* SPDX-License-Identifier: Apache-2.0 */
/* Runs lowered programs without numbers: follows which value every byte range holds, and compares
 * that with what the graph says each instruction reads. Knows nothing of how buffers came to be
 * shared. */
#ifndef SYMBOLIC_H
#define SYMBOLIC_H

#include "compile/program/lower.h"

/* steps whole steps (evaluate, generate: steps times FORWARD after one BEGIN). seed: of the order
 * in which queues advance, as far as waits allow. The first thing that is wrong is appended to
 * `wrong`; true if nothing is. */
bool symbolic_run(const weft_lowered *l, int64_t micro_batches, int steps, uint64_t seed,
                  weft_text *wrong);

#endif
