/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that NCCL is told of, so that it may send from where values lie. What is told of one
 * communicator is nothing to another, so each gets all of a run's memory: a few large pieces. */
#include "nccl.h"

static const char what[] = "memory cannot be registered";

static weft_status add(transport *t, comm *c, int i, weft_error *err)
{
    const nccl_piece *p = &t->pieces[i];
    int r = t->api.ncclCommRegister(c->handle, p->at, p->bytes, &c->registered[i]);
    return r == NCCL_SUCCESS ? WEFT_OK : nccl_error(t, c->handle, r, what, err);
}

weft_status nccl_register(transport *t, comm *c, weft_error *err)
{
    weft_status s = WEFT_OK;
    c->registers = true;
    for (int i = 0; i < NCCL_MOST_PIECES && !s; i++)
        if (t->pieces[i].at)
            s = add(t, c, i, err);
    return s;
}

weft_status nccl_add_memory(void *self, void *memory, size_t bytes, weft_error *err)
{
    transport *t = self;
    weft_status s = WEFT_OK;
    int i = 0;
    if (t->registers == NCCL_REGISTERS_NOTHING)
        return WEFT_OK;
    while (i < NCCL_MOST_PIECES && t->pieces[i].at)
        i++;
    if (i == NCCL_MOST_PIECES)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "nccl: a run has more than %d pieces of memory", NCCL_MOST_PIECES);
    t->pieces[i] = (nccl_piece){memory, bytes};
    for (comm *c = t->comms; c && !s; c = c->next)
        if (c->registers)
            s = add(t, c, i, err);
    return s;
}

/* Before it is given back, and before communicators end. */
void nccl_remove_memory(void *self, void *memory, size_t bytes)
{
    transport *t = self;
    (void)bytes;
    for (int i = 0; i < NCCL_MOST_PIECES; i++) {
        if (t->pieces[i].at != memory)
            continue;
        nccl_close_windows(t, i);
        t->pieces[i].at = NULL;
        for (comm *c = t->comms; c; c = c->next) {
            if (c->registered[i])
                t->api.ncclCommDeregister(c->handle, c->registered[i]);
            c->registered[i] = NULL;
        }
    }
}
