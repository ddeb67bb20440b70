/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, sends and receives of the fake NCCL, as its streams do them. */
#include "fake_nccl.h"

#include <weft/base.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long begun;

/* ---- files ---- */

static void name_of(char *out, size_t size, const comm *c, const op *o, int from, int to)
{
    if (o->kind == SEND || o->kind == RECV)
        snprintf(out, size, "%s.p%d-%d.%ld", c->path, from, to, o->number);
    else
        snprintf(out, size, "%s.%ld.%d", c->path, o->number, from);
}

void fake_write(const char *name, const head *h, const void *data, size_t bytes)
{
    char early[260];
    snprintf(early, sizeof early, "%s.new", name);
    FILE *f = fopen(early, "we");
    if (!f || fwrite(h, sizeof *h, 1, f) != 1 || (bytes && fwrite(data, bytes, 1, f) != 1)) {
        perror(early);
        abort();
    }
    fclose(f);
    rename(early, name);
}

char *fake_read(const char *name, head *h, size_t *bytes)
{
    FILE *f = fopen(name, "re");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f) - sizeof *h;
    rewind(f);
    char *data = malloc(*bytes + 1);
    if (fread(h, sizeof *h, 1, f) != 1 || (*bytes && fread(data, *bytes, 1, f) != 1))
        abort();
    fclose(f);
    return data;
}

size_t fake_size_of(int type)
{
    return type == F32 ? 4 : type == F64 ? 8 : type == BF16 ? 2 : 1;
}

/* ---- collectives: everyone's part is a file ---- */

size_t fake_sent_bytes(const op *o)
{
    size_t bytes = o->count * fake_size_of(o->type);
    return o->kind == SCATTER                             ? bytes * (size_t)o->of->n
           : o->kind == BROADCAST && o->with != o->of->me ? 0
                                                          : bytes;
}

size_t fake_received_bytes(const op *o)
{
    size_t bytes = o->count * fake_size_of(o->type);
    return !o->recv ? 0 : o->kind == GATHER ? bytes * (size_t)o->of->n : bytes;
}

static double get(const char *data, int type, size_t i)
{
    return type == F32   ? ((const float *)(const void *)data)[i]
           : type == F64 ? ((const double *)(const void *)data)[i]
                         : weft_bf16_to_f32(((const uint16_t *)(const void *)data)[i]);
}

static void put(char *data, int type, size_t i, double v)
{
    if (type == F32)
        ((float *)(void *)data)[i] = (float)v;
    else if (type == F64)
        ((double *)(void *)data)[i] = v;
    else
        ((uint16_t *)(void *)data)[i] = weft_f32_to_bf16((float)v);
}

/* Round the ring, from another rank for every element, rounded at each. */
static void sum(const op *o, char *const *parts, size_t offset)
{
    const int n = o->of->n;
    for (size_t i = 0; i < o->count; i++) {
        int first = (int)((i + 1) % (size_t)n);
        put(o->recv, o->type, i, get(parts[first], o->type, offset + i));
        for (int k = 1; k < n; k++)
            put(o->recv, o->type, i,
                get(o->recv, o->type, i) + get(parts[(first + k) % n], o->type, offset + i));
    }
}

static void finish(op *o, char *const *parts)
{
    comm *c = o->of;
    size_t bytes = o->count * fake_size_of(o->type);
    switch (o->kind) {
    case GATHER:
        for (int r = 0; r < c->n; r++)
            memcpy(o->recv + (size_t)r * bytes, parts[r], bytes);
        break;
    case SCATTER:
        sum(o, parts, (size_t)c->me * o->count);
        break;
    case REDUCE:
        sum(o, parts, 0);
        break;
    case BROADCAST:
        memcpy(o->recv, parts[o->with], bytes);
        break;
    case SEND:
    case RECV:
        break;
    }
}

/* What all ranks must agree in. A broadcast's sender is where it receives. */
static head head_of(const op *o)
{
    const comm *c = o->of;
    return (head){.kind = o->kind,
                  .type = o->type,
                  .count = o->count,
                  .send = fake_place(c, o->send, o->kind == BROADCAST ? 0 : fake_sent_bytes(o)),
                  .recv = fake_place(c, o->recv, fake_received_bytes(o))};
}

static bool is_same_place(place a, place b)
{
    return a.window == b.window && a.offset == b.offset;
}

static void post(op *o)
{
    char name[256];
    const head h = head_of(o);
    name_of(name, sizeof name, o->of, o, o->of->me, o->with);
    fake_write(name, &h, o->send, fake_sent_bytes(o));
    o->posted = true;
}

/* Once all have written number k, all have read k - 1. */
static bool run_collective(op *o)
{
    comm *c = o->of;
    bool all = true, same = true;
    char name[256];
    if (!o->posted)
        post(o);
    for (int r = 0; r < c->n && all; r++) {
        name_of(name, sizeof name, c, o, r, 0);
        all = access(name, F_OK) == 0;
    }
    if (!all)
        return false;
    const head mine = head_of(o);
    bool placed = true;
    char **parts = calloc((size_t)c->n, sizeof *parts);
    for (int r = 0; r < c->n; r++) {
        head h;
        size_t bytes;
        name_of(name, sizeof name, c, o, r, 0);
        parts[r] = fake_read(name, &h, &bytes);
        same = same && h.kind == (int)o->kind && h.type == o->type && h.count == o->count;
        placed = placed && is_same_place(h.send, mine.send) && is_same_place(h.recv, mine.recv);
    }
    if (!placed)
        c->why = "a collective uses different places of a window";
    if (same && placed)
        finish(o, parts);
    else
        c->error = USAGE;
    for (int r = 0; r < c->n; r++)
        free(parts[r]);
    free(parts);
    o->number--;
    name_of(name, sizeof name, c, o, c->me, 0);
    unlink(name);
    return same && placed;
}

/* ---- sends and receives ---- */

static bool run_transfer(op *o)
{
    comm *c = o->of;
    char name[256];
    head h;
    size_t bytes;
    bool sends = o->kind == SEND;
    name_of(name, sizeof name, c, o, sends ? c->me : o->with, sends ? o->with : c->me);
    if (sends && !o->posted) {
        post(o);
        return false;
    }
    if (sends)
        return access(name, F_OK) != 0;
    char *data = fake_read(name, &h, &bytes);
    if (!data)
        return false;
    if (bytes == o->count * fake_size_of(o->type))
        memcpy(o->recv, data, bytes);
    else
        c->error = USAGE;
    free(data);
    unlink(name);
    return !c->error;
}

/* ---- on a stream ---- */

bool fake_run_batch(void *what)
{
    const batch *b = what;
    comm *c = b->of;
    bool over = true;
    if (c->aborted)
        return true;
    if (b->stalls || c->error || b->ticket != c->done)
        return false;
    for (op *o = b->ops; o; o = o->next) {
        if (!o->over && (is_transfer(o) || over)) /* collectives one after the other */
            o->over = is_transfer(o) ? run_transfer(o) : run_collective(o);
        over = over && o->over;
    }
    c->done += over;
    return over;
}

void fake_drop_batch(void *what)
{
    batch *b = what;
    b->of->persistent -= b->persistent;
    b->of->on_streams -= !b->persistent;
    for (op *o = b->ops, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(b);
}

void fake_give_numbers(batch *b)
{
    comm *c = b->of;
    b->ticket = c->issued++;
    c->on_streams++;
    for (op *o = b->ops; o; o = o->next)
        o->number = o->kind == SEND   ? c->sent[o->with]++
                    : o->kind == RECV ? c->received[o->with]++
                                      : c->number++;
    if (++begun && c->world == fake_number("WEFT_FAKE_NCCL_RANK", 0)) {
        b->stalls = begun == fake_number("WEFT_FAKE_NCCL_STALL", 0);
        if (begun == fake_number("WEFT_FAKE_NCCL_FAIL", 0))
            c->error = SYSTEM;
    }
}

void *fake_copy_batch(const void *what)
{
    batch *b = malloc(sizeof *b);
    *b = *(const batch *)what;
    b->persistent = false;
    for (op **at = &b->ops; *at; at = &(*at)->next) {
        op *o = malloc(sizeof *o);
        *o = **at;
        *at = o;
    }
    fake_give_numbers(b);
    return b;
}
