/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the muon plugin: its pass, its ops and their kernels for the device "cpu". */
#ifndef WEFT_MUON_H
#define WEFT_MUON_H

#include <weft/marks.h>
#include <weft/plugin.h>

#include <math.h>

/* Adds the step_end graph of the matrices that it takes. self: the host. */
void muon_joint(void *self, weft_graph *graph);

extern const weft_op *const muon_ops[];
extern const weft_kernel muon_cpu_kernels[];

/* Where the matrices of a stack lie: matrix j in slot (first + j) mod slots. */
typedef struct muon_slots {
    int64_t slots, first, matrices;
} muon_slots;

static inline int64_t muon_slot(const muon_slots *s, int64_t matrix)
{
    return (s->first + matrix) % s->slots;
}

/* Which matrix is in the slot; at least `matrices`: none. */
static inline int64_t muon_matrix(const muon_slots *s, int64_t slot)
{
    return (slot - s->first + s->slots) % s->slots;
}

/* Of an update: the length of a step at rate 1, by the size of the whole matrix. The mean square of
 * what newton_schulz gives is about 1 / max(rows, cols). */
static inline double muon_step(const weft_call *call)
{
    const weft_tensor *p = &call->ins[0];
    double rows = (double)p->whole[p->n_dims - 2], cols = (double)p->whole[p->n_dims - 1];
    return weft_call_int(call, "original") ? sqrt(fmax(1, rows / cols))
                                           : 0.2 * sqrt(fmax(rows, cols));
}

#endif
