/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions as they were run: what is always the same of one is kept once, what differs is a few
 * numbers, so that recording costs little more than looking at the clock. */
#include "profile.h"

#include <string.h>
#include <time.h>

/* Places of a program's instructions in the list of kinds. */
struct profile_program {
    weft_mode mode;
    const char *name; /* the core's */
    int stage, n;
    int *kinds; /* [n]; -1: not seen yet */
    profile_program *next;
};

void profile_record_begin(profile_record *r)
{
    struct timespec utc = {0};
    *r = (profile_record){.epoch_s = weft_now()};
    if (clock_gettime(CLOCK_REALTIME, &utc) == 0)
        r->epoch_utc_ns = (int64_t)utc.tv_sec * 1000000000 + utc.tv_nsec;
}

void profile_record_release(profile_record *r)
{
    weft_free(r->kinds);
    weft_free(r->events);
    weft_free(r->steps);
    weft_pool_release(&r->pool);
    *r = (profile_record){0};
}

static bool grow(void **list, int64_t n, int64_t *capacity, size_t size)
{
    if (n < *capacity)
        return true;
    int64_t more = *capacity ? 2 * *capacity : 256;
    void *fresh = weft_realloc(*list, (size_t)more * size);
    if (!fresh)
        return false;
    *list = fresh;
    *capacity = more;
    return true;
}

static int64_t since_epoch(const profile_record *r, double now)
{
    return (int64_t)((now - r->epoch_s) * 1e9 + 0.5);
}

/* ---- kinds ---- */

static bool is_program(const profile_program *p, const weft_instruction_view *in)
{
    return p->name == in->program && p->mode == in->mode && p->stage == in->nodes[0]->stage &&
           p->n == in->n;
}

static profile_program *find_program(profile_record *r, const weft_instruction_view *in)
{
    if (r->last && is_program(r->last, in))
        return r->last;
    profile_program *p = r->programs;
    while (p && !is_program(p, in))
        p = p->next;
    if (!p) {
        p = weft_pool_alloc(&r->pool, sizeof *p);
        int *kinds = weft_pool_alloc(&r->pool, (size_t)in->n * sizeof *kinds);
        if (!p || !kinds)
            return NULL;
        memset(kinds, -1, (size_t)in->n * sizeof *kinds);
        *p = (profile_program){in->mode, in->program, in->nodes[0]->stage,
                               in->n,    kinds,       r->programs};
        r->programs = p;
    }
    return r->last = p;
}

/* Of a redistribute the first step that sends something; where none does, the first. */
static const char *move_of(const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (n->steps[i].move != WEFT_SLICE && n->steps[i].move != WEFT_ZERO &&
            n->steps[i].move != WEFT_KEEP)
            return weft_move_name(n->steps[i].move);
    return n->n_steps ? weft_move_name(n->steps[0].move) : n->op->name;
}

static const char *name_of(const weft_instruction_view *in)
{
    switch (in->kind) {
    case WEFT_COMPUTE:
        return in->nodes[0]->op->name;
    case WEFT_COLLECTIVE:
        return move_of(in->nodes[0]);
    case WEFT_ZERO_FILL:
        return "zero";
    case WEFT_COPY:
        return "copy";
    case WEFT_OBSERVE:
        return "observe";
    case WEFT_POST_SEND:
        return "send";
    case WEFT_POST_RECV:
        return "recv";
    case WEFT_AWAIT:
        return "await";
    case WEFT_FETCH:
        return "fetch";
    case WEFT_EVICT:
        return "evict";
    case WEFT_ARRIVE:
        return "arrive";
    }
    return "instruction";
}

/* What an await awaits was counted when it was posted. */
static int64_t bytes_of(const weft_instruction_view *in)
{
    switch (in->kind) {
    case WEFT_AWAIT:
    case WEFT_POST_RECV:
    case WEFT_ARRIVE:
        return 0;
    case WEFT_FETCH: /* of what is there and what comes: once */
    case WEFT_EVICT:
        return in->bytes / 2;
    default:
        return in->bytes;
    }
}

static weft_status add_kind(profile_record *r, const weft_instruction_view *in, int *place,
                            weft_error *err)
{
    static const char *const modes[] = {"train", "evaluate", "generate", "decode"};
    const weft_node *n = in->nodes[0];
    int64_t capacity = r->kinds_capacity;
    if (!grow((void **)&r->kinds, r->n_kinds, &capacity, sizeof *r->kinds))
        return weft_fail_memory(err);
    r->kinds_capacity = (int)capacity;
    profile_kind k = {.op = weft_pool_strdup(&r->pool, name_of(in)),
                      .value = weft_pool_strdup(&r->pool, n->n_outs ? n->outs[0]->name : ""),
                      .by = weft_pool_strdup(&r->pool, n->by ? n->by : ""),
                      .kernel = in->kernel ? weft_pool_strdup(&r->pool, in->kernel) : NULL,
                      .mode = (size_t)in->mode < sizeof modes / sizeof modes[0] ? modes[in->mode]
                                                                                : "other",
                      .program = weft_pool_strdup(&r->pool, in->program),
                      .kind = in->kind,
                      .stage = n->stage,
                      .block = n->block,
                      .queue = in->queue,
                      .flops = in->flops,
                      .bytes = bytes_of(in)};
    if (!k.op || !k.value || !k.by || !k.program || (in->kernel && !k.kernel))
        return weft_fail_memory(err);
    *place = r->n_kinds;
    r->kinds[r->n_kinds++] = k;
    return WEFT_OK;
}

/* ---- events ---- */

weft_status profile_record_add(profile_record *r, const weft_run_view *run, double start,
                               double end, weft_error *err)
{
    const weft_instruction_view *in = run->instruction;
    profile_program *p = find_program(r, in);
    if (!p || !grow((void **)&r->events, r->n_events, &r->events_capacity, sizeof *r->events))
        return weft_fail_memory(err);
    if (p->kinds[in->index] < 0) {
        weft_status s = add_kind(r, in, &p->kinds[in->index], err);
        if (s)
            return s;
    }
    r->events[r->n_events++] =
        (profile_event){p->kinds[in->index], (int32_t)run->micro_batch, run->step,
                        since_epoch(r, start), since_epoch(r, end)};
    return WEFT_OK;
}

weft_status profile_record_step(profile_record *r, int64_t step, double start, double end,
                                weft_error *err)
{
    int64_t capacity = r->steps_capacity;
    if (!grow((void **)&r->steps, r->n_steps, &capacity, sizeof *r->steps))
        return weft_fail_memory(err);
    r->steps_capacity = (int)capacity;
    r->steps[r->n_steps++] = (profile_step){step, since_epoch(r, start), since_epoch(r, end)};
    return WEFT_OK;
}
