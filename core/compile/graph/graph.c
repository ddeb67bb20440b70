/* SPDX-License-Identifier: Apache-2.0 */
/* A graph's life and its lists. */
#include "compile/graph/graph.h"
#include "base/array.h"

#include <stdio.h>
#include <string.h>

weft_status weft_graph_create(const weft_graph_config *config, weft_graph **out, weft_error *err)
{
    weft_graph *g = weft_alloc_zero(1, sizeof *g);
    *out = g;
    if (!g)
        return weft_fail_memory(err);
    g->config = *config;
    g->spot.block = WEFT_BLOCK_NONE;
    g->spot.chunk = -1;
    g->by = "core";
    weft_graph_dim(g, "batch", config->sizes.micro_batch, 1);
    weft_graph_dim(g, "seq", config->sizes.seq_len, 1);
    weft_graph_dim(g, "micro", config->sizes.micro_batches, 1);
    if (config->places)
        weft_graph_dim(g, "context", config->places, 1);
    weft_status s = weft_graph_status(g);
    if (!s)
        return WEFT_OK;
    weft_graph_destroy(g);
    *out = NULL;
    return weft_fail_memory(err);
}

void weft_graph_destroy(weft_graph *g)
{
    if (!g)
        return;
    weft_error_release(&g->error);
    weft_pool_release(&g->pool);
    weft_free(g);
}

weft_value *weft_graph_find(const weft_graph *g, const char *name)
{
    return weft_map_get(&g->names, name, strlen(name));
}
bool weft_graph_writes(const weft_graph *g)
{
    return g->config.mode == WEFT_MODE_GENERATE || g->config.mode == WEFT_MODE_DECODE;
}
int64_t weft_graph_seq_len(const weft_graph *g)
{
    return g->config.sizes.seq_len;
}
int weft_graph_blocks(const weft_graph *g)
{
    return g->n_blocks;
}

weft_status weft_graph_status(const weft_graph *g)
{
    weft_status s = weft_error_status(&g->error);
    return s || !g->pool.out_of_memory ? s : WEFT_ERR_MEMORY;
}

weft_error *weft_graph_error(weft_graph *g)
{
    g->error.out_of_memory = g->error.out_of_memory || g->pool.out_of_memory;
    return &g->error;
}

weft_value *weft_graph_fail(weft_graph *g, weft_status status, weft_where at, const char *format,
                            ...)
{
    va_list args;
    va_start(args, format);
    weft_vfail(&g->error, status, at, format, args);
    va_end(args);
    return NULL;
}

bool weft_graph_push(weft_graph *g, void ***list, int *n, int *capacity, void *p)
{
    void **at = weft_pool_push(&g->pool, list, n, capacity, sizeof *at);
    if (at)
        *at = p;
    return at;
}

void weft_graph_dim(weft_graph *g, const char *name, int64_t units, int64_t grain)
{
    weft_dim *d = weft_map_get(&g->dims, name, strlen(name));
    if (d) {
        if (d->size != units * grain || d->grain != grain)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "dim '%s' is declared as %lld and as %lld", name, (long long)d->size,
                            (long long)(units * grain));
        return;
    }
    if (units < 1 || grain < 1) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "dim '%s' (%s) has size %lld; it must be at least 1", name, g->by,
                        (long long)(units * grain));
        return;
    }
    d = weft_pool_alloc(&g->pool, sizeof *d);
    char *copy = weft_pool_strdup(&g->pool, name);
    if (d && copy && weft_map_set(&g->dims, &g->pool, name, strlen(name), d))
        *d = (weft_dim){copy, units * grain, grain};
}

/* Of names "base.2", "base.3", ... the last that was given; those before it are taken. */
static int *last_number(weft_graph *g, const char *base)
{
    const size_t size = strlen(base);
    int *last = weft_map_get(&g->numbers, base, size);
    if (last || !(last = weft_pool_alloc(&g->pool, sizeof *last)))
        return last;
    *last = 2;
    return weft_map_set(&g->numbers, &g->pool, base, size, last) ? last : NULL;
}

const char *weft_graph_name(weft_graph *g, const char *base)
{
    const bool taken = weft_map_get(&g->names, base, strlen(base));
    int *last = taken ? last_number(g, base) : NULL;
    const char *name = taken ? NULL : weft_pool_strdup(&g->pool, base);
    while (last && (name = weft_pool_format(&g->pool, "%s.%d", base, *last)) &&
           weft_map_get(&g->names, name, strlen(name)))
        ++*last;
    return name;
}

weft_status weft_graph_check_reports(weft_graph *g)
{
    for (int i = 0; i < g->n_reports; i++) {
        const weft_report_value *r = &g->reports[i];
        if (weft_value_available(r->value) == WEFT_MICRO_BATCH)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "plugin %s reports '%s', %s, which differs between micro-batches, so "
                            "that only the last would count; weft_accumulate combines them",
                            r->by, r->name, r->value->name);
    }
    return weft_graph_status(g);
}

void weft_graph_report(weft_graph *g, const char *name, weft_value *v)
{
    char *copy = weft_pool_strdup(&g->pool, name);
    weft_report_value *r =
        weft_pool_push(&g->pool, &g->reports, &g->n_reports, &g->reports_capacity, sizeof *r);
    if (r)
        *r = (weft_report_value){copy, v, g->by, NULL, NULL};
}

void weft_graph_replace_root(weft_graph *g, const weft_value *v, weft_value *by)
{
    weft_value **const roots[] = {&g->loss, &g->loss_sum, &g->tokens, &g->logits};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        if (*roots[i] == v)
            *roots[i] = by;
    for (int i = 0; i < g->n_terms; i++)
        if (g->terms[i]->value == v)
            g->terms[i]->value = by;
    for (int i = 0; i < g->n_reports; i++)
        if (g->reports[i].value == v)
            g->reports[i].value = by;
}

/* ---- words ---- */

const char *weft_mode_name(weft_mode mode)
{
    static const char *const names[WEFT_MODES] = {"train", "evaluate", "generate", "decode"};
    return names[mode];
}

const char *weft_block_name(int block)
{
    return block == WEFT_BLOCK_EMBEDDING ? "embedding" : block == WEFT_BLOCK_HEAD ? "head" : NULL;
}

weft_block_words weft_block_describe(const char *before, int block)
{
    weft_block_words words = {""};
    if (weft_block_name(block))
        snprintf(words.text, sizeof words.text, "%sthe %s", before, weft_block_name(block));
    else if (block >= 0)
        snprintf(words.text, sizeof words.text, "%sblock %d", before, block);
    return words;
}

/* ---- all ops ---- */

static weft_status add_op(weft_ops *ops, const weft_op *op, const char *by, weft_error *err)
{
    size_t size = strlen(op->name);
    const weft_op *there = weft_map_get(&ops->by_name, op->name, size);
    const char *owner = there ? weft_ops_owner(ops, there) : NULL;
    if (there)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "plugin '%s' brings an op '%s', which %s%s%s has already; choose another "
                         "name",
                         by ? by : "?", op->name, owner ? "plugin '" : "weft", owner ? owner : "",
                         owner ? "'" : "");
    if (!weft_map_set(&ops->by_name, &ops->pool, op->name, size, (void *)(uintptr_t)op) ||
        (by && !weft_map_set(&ops->owners, &ops->pool, op->name, size, (void *)(uintptr_t)by)))
        return weft_fail_memory(err);
    return WEFT_OK;
}

weft_status weft_ops_init(weft_ops *ops, const weft_op *const *const *more,
                          const char *const *names, int n_more, weft_error *err)
{
    weft_status s = WEFT_OK;
    memset(ops, 0, sizeof *ops);
    for (int i = -1; i < n_more; i++) {
        const weft_op *const *list = i < 0 ? weft_core_ops() : more[i];
        for (; list && *list && !s; list++)
            s = add_op(ops, *list, i >= 0 && names ? names[i] : NULL, err);
    }
    return s;
}

const char *weft_ops_owner(const weft_ops *ops, const weft_op *op)
{
    return ops ? weft_map_get(&ops->owners, op->name, strlen(op->name)) : NULL;
}

void weft_ops_release(weft_ops *ops)
{
    weft_pool_release(&ops->pool);
    memset(ops, 0, sizeof *ops);
}

const weft_op *weft_ops_find(const weft_ops *ops, const char *name)
{
    return weft_map_get(&ops->by_name, name, strlen(name));
}
