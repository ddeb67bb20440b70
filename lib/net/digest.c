/* SPDX-License-Identifier: Apache-2.0 */
#include "net/digest.h"
#include "base/array.h"
#include "net/agree.h"
#include "print/graph.h"

#include <stdio.h>
#include <string.h>
#include <weft/random.h>

/* One thing that must be equal: a key and its value, or a hash of what is too long to send. */
typedef struct item {
    char key[96];
    char value[72];   /* a SHA-256 is 64 digits */
    int32_t of_stage; /* equal on ranks that hold the same stages of a pipeline alone */
} item;

typedef struct digest {
    item *items;
    int n, capacity;
    weft_status status;
} digest;

static void add(digest *d, const char *prefix, const char *key, const char *value)
{
    if (d->status)
        return;
    item *i = weft_array_push(&d->items, &d->n, &d->capacity, sizeof *i);
    if (!i) {
        d->status = WEFT_ERR_MEMORY;
        return;
    }
    snprintf(i->key, sizeof i->key, "%s%s", prefix, key);
    if (strlen(value) < sizeof i->value)
        snprintf(i->value, sizeof i->value, "%s", value);
    else
        snprintf(i->value, sizeof i->value, "%.40s... (%016llx)", value,
                 (unsigned long long)weft_hash_name(value));
}

static void add_section(digest *d, const char *section, const weft_param *table,
                        const weft_params *params)
{
    char prefix[56];
    snprintf(prefix, sizeof prefix, "[%s] ", section);
    for (; table && table->name; table++)
        if (!(table->flags & WEFT_PARAM_PER_RANK))
            add(d, prefix, table->name, weft_params_text(params, table->name));
}

static void add_text(digest *d, const char *key, const weft_text *text)
{
    char value[32];
    if (text->out_of_memory)
        d->status = WEFT_ERR_MEMORY;
    snprintf(value, sizeof value, "%016llx",
             (unsigned long long)weft_hash_bytes(0, weft_text_get(text), text->size));
    add(d, key, "", value);
}

static void print_collective(const weft_node *n, const weft_program *of, weft_text *text)
{
    weft_text_print(text, "%d %d %s", (int)of->part, of->stage, weft_dtype_name(n->outs[0]->dtype));
    for (int k = 0; k < n->n_steps; k++)
        weft_text_print(text, " %s %llx", weft_move_name(n->steps[k].move),
                        (unsigned long long)n->steps[k].after.bits);
}

/* Kind, dtype and sizes of everything that is sent, in the order in which it is entered. */
static void print_collectives(const weft_lowered *l, weft_text *text)
{
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            if (in->kind != WEFT_COLLECTIVE && in->kind != WEFT_POST_SEND &&
                in->kind != WEFT_POST_RECV)
                continue;
            weft_text_print(text, "%d ", (int)in->kind);
            for (int k = 0; k < (in->parts ? in->n_ins : 1); k++)
                print_collective(in->parts ? in->parts[k] : in->node, &l->programs[a], text);
            weft_text_add(text, "\n");
        }
}

static void add_plugins(digest *d, const weft_plugins *plugins, bool defaults, const char *list)
{
    for (int i = 0, number = 1; i <= plugins->n; i++) {
        char key[64];
        if (i < plugins->n && plugins->list[i].is_default != defaults)
            continue;
        snprintf(key, sizeof key, "plugin %d of [weft] %s", number++, list);
        add(d, key, "", i == plugins->n ? "(no more)" : plugins->list[i].module.plugin->name);
    }
}

static void make(digest *d, const weft_plan *plan)
{
    static const char *const modes[] = {"training graph", "evaluation graph", "generation graph",
                                        "decoding graph"};
    static const char *const collectives[] = {"training collectives", "evaluation collectives",
                                              "generation collectives", "decoding collectives"};
    add_plugins(d, plan->plugins, false, "plugins");
    add_plugins(d, plan->plugins, true, "defaults");
    for (int i = 0; i < plan->plugins->n; i++) {
        const weft_loaded *loaded = &plan->plugins->list[i];
        add(d, "version of plugin ", loaded->module.plugin->name, loaded->module.plugin->version);
        add(d, "SHA-256 of plugin ", loaded->module.plugin->name, loaded->module.id.sha256);
        add_section(d, loaded->module.plugin->name, loaded->module.plugin->params, loaded->params);
    }
    for (const weft_request *r = plan->plugins->asked; r; r = r->next) {
        char prefix[56];
        snprintf(prefix, sizeof prefix, "what the review of plugin %s asks for: ", r->by);
        add(d, prefix, r->what, r->value);
    }
    add_section(d, "train", weft_core_params("train"), plan->train);
    add_section(d, "mesh", weft_core_params("mesh"), plan->mesh_params);
    for (int m = 0; m < WEFT_MODES; m++) {
        weft_text text = {0};
        if (!plan->graphs[m])
            continue;
        weft_graph_print_whole(plan->graphs[m], &text);
        add_text(d, modes[m], &text);
        weft_text_clear(&text);
        print_collectives(plan->lowered[m], &text);
        add_text(d, collectives[m], &text);
        if (!d->status)
            d->items[d->n - 1].of_stage = weft_graph_stage_axis(plan->graphs[m]) >= 0;
        weft_text_release(&text);
    }
}

static weft_status differs(int rank, int other, const item *mine, const item *first,
                           weft_error *err)
{
    if (strcmp(mine->key, first->key) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "rank %d and rank %d run different plugins: '%s' here, '%s' there", rank,
                         other, mine->key, first->key);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "rank %d and rank %d differ in %s: '%s' here, '%s' there; all ranks must run "
                     "the same: start "
                     "each with the same --with, --without and -o",
                     rank, other, mine->key, mine->value, first->value);
}

/* The rank that a rank's item must be equal to: the first, of its stages or of all. */
static int model_of(const weft_plan *plan, const item *it, int rank)
{
    int axis = weft_graph_stage_axis(weft_plan_model(plan));
    if (!it->of_stage || axis < 0)
        return 0;
    int stride = weft_mesh_stride(&plan->mesh, axis);
    return rank / stride % plan->mesh.axis[axis].size * stride;
}

/* Rank 0's items, one after the other, so that no size need be agreed on first. */
static weft_status compare(const digest *d, const weft_plan *plan, weft_control *control,
                           weft_error *err)
{
    static const item end = {.key = "(no more)"};
    item *all = weft_alloc((size_t)plan->ranks * sizeof *all);
    weft_status s = all ? WEFT_OK : weft_fail_memory(err), found = WEFT_OK;
    for (int i = 0; !s && i <= d->n; i++) {
        const item *mine = i < d->n ? &d->items[i] : &end;
        s = weft_control_exchange(control, plan->rank, mine, sizeof *mine, all, err);
        bool apart = false;
        for (int r = 0; r < plan->ranks && !s; r++) {
            int model = model_of(plan, mine, r);
            if (memcmp(&all[r], &all[model], sizeof *all) == 0)
                continue;
            apart = true;
            if (r == plan->rank)
                found = differs(r, model, mine, &all[model], err);
        }
        if (apart)
            break;
    }
    weft_free(all);
    return s ? s : found;
}

/* Two numbers first, of what all have and of what stages have: where they are the same, that is all
 * that is sent. */
static weft_status all_equal(const digest *d, const weft_plan *plan, weft_control *control,
                             bool *equal, weft_error *err)
{
    uint64_t mine[2] = {(uint64_t)d->n, (uint64_t)d->n};
    for (int i = 0; i < d->n; i++) {
        uint64_t *hash = &mine[d->items[i].of_stage != 0];
        *hash = weft_hash_bytes(*hash, &d->items[i], sizeof d->items[i]);
    }
    uint64_t *all = weft_alloc((size_t)plan->ranks * sizeof mine);
    weft_status s = all ? weft_control_exchange(control, plan->rank, mine, sizeof mine, all, err)
                        : weft_fail_memory(err);
    *equal = !s;
    for (int r = 0; r < plan->ranks && !s; r++)
        for (int k = 0; k < 2; k++) {
            int model = k ? model_of(plan, &(item){.of_stage = 1}, r) : 0;
            *equal = *equal && all[2 * r + k] == all[2 * model + k];
        }
    weft_free(all);
    return s;
}

weft_status weft_digest_check(const weft_plan *plan, weft_control *control, weft_error *err)
{
    if (!control)
        return WEFT_OK;
    digest d = {0};
    make(&d, plan);
    weft_status s = d.status ? weft_fail_memory(err) : WEFT_OK;
    s = weft_control_agree(control, plan->rank, "describing the run", s, err);
    bool equal = false;
    s = s ? s : all_equal(&d, plan, control, &equal, err);
    s = s || equal ? s : compare(&d, plan, control, err);
    weft_free(d.items);
    return s;
}
