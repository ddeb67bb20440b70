/* SPDX-License-Identifier: Apache-2.0 */
#include "study/plan.h"

#include "about.h"
#include "console/built_in.h"
#include "execute/run.h"
#include "forecast/forecast.h"
#include "settings/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { N_MEMBERS = 20 };

/* ---- settings, defaults folded in ---- */

/* As one would write it: equal numbers are equal texts. */
static json_t *value_of(const weft_params *params, const weft_param *p)
{
    const char *text = weft_params_text(params, p->name);
    weft_text out = {0};
    if ((p->flags & WEFT_PARAM_LIST) || !*text || p->type == WEFT_PARAM_STRING ||
        p->type == WEFT_PARAM_PATH || p->type == WEFT_PARAM_CHOICE)
        return json_string(text);
    if (p->type == WEFT_PARAM_BOOL)
        return json_string(weft_params_bool(params, p->name) ? "yes" : "no");
    if (p->choices)
        for (int i = 0; p->choices[i]; i++)
            if (strcmp(p->choices[i], text) == 0)
                return json_string(text);
    if (p->type == WEFT_PARAM_INT)
        weft_text_print(&out, "%" PRId64, weft_params_int(params, p->name));
    else
        weft_text_add_real(&out, weft_params_real(params, p->name));
    json_t *value = out.out_of_memory ? NULL : json_string(weft_text_get(&out));
    weft_text_release(&out);
    return value;
}

/* The run folder and the list are no settings of what is computed: the list has its own place. */
static bool is_left_out(const char *section, const char *key)
{
    return strcmp(section, "weft") == 0 && (strcmp(key, "dir") == 0 || strcmp(key, "plugins") == 0);
}

static void add_section(json_t *to, const char *name, const weft_param *table,
                        const weft_params *params)
{
    json_t *section = json_object();
    for (const weft_param *p = table; p && p->name; p++)
        if (!is_left_out(name, p->name))
            json_object_set_new(section, p->name, value_of(params, p));
    if (json_object_size(section) > 0)
        json_object_set(to, name, section);
    json_decref(section);
}

/* What words of the model stand for, where they are numbers: {section: {key: "8"}}. */
static void add_in_force(json_t *to, const weft_loaded *l)
{
    weft_pool pool = {0};
    json_t *section = json_object();
    for (const weft_param *p = l->module.plugin->params; p && p->name; p++) {
        const char *text = weft_keeper_text(&pool, l, p);
        if (text && strcmp(text, weft_params_text(l->params, p->name)) != 0)
            json_object_set_new(section, p->name, json_string(text));
    }
    if (json_object_size(section) > 0)
        json_object_set(to, l->module.plugin->name, section);
    json_decref(section);
    weft_pool_release(&pool);
}

static void add_settings(json_t *o, const weft_session *s, const weft_plan *plan)
{
    static const char *const tiers[] = {"bitwise", "tolerance", "changes"};
    json_t *settings = json_object(), *list = json_array(), *numerics = json_object(),
           *in_force = json_object();
    const weft_listed *listed;
    const int n = weft_settings_plugins(s->settings, &listed);
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(listed[i].name));
    add_section(settings, "weft", weft_core_params("weft"), s->run);
    add_section(settings, "train", weft_core_params("train"), plan->train);
    add_section(settings, "mesh", weft_core_params("mesh"), plan->mesh_params);
    for (int i = 0; i < s->plugins->n; i++) {
        const weft_loaded *l = &s->plugins->list[i];
        add_section(settings, l->module.plugin->name, l->module.plugin->params, l->params);
        add_in_force(in_force, l);
        json_object_set_new(numerics, l->module.plugin->name,
                            json_string(tiers[l->module.plugin->numerics]));
    }
    json_object_set_new(o, "plugins", list);
    json_object_set_new(o, "numerics", numerics);
    json_object_set_new(o, "settings", settings);
    json_object_set_new(o, "in_force", in_force);
}

/* ---- sizes ---- */

static void add_bytes(json_t *memory, const char *name, int64_t bytes)
{
    const json_int_t before = json_integer_value(json_object_get(memory, name));
    if (bytes)
        json_object_set_new(memory, name, json_integer(before + bytes));
}

static const char *state_class(const weft_state_entry *e)
{
    static const char *const names[] = {[WEFT_STATE_OPTIMIZER] = "optimizer state",
                                        [WEFT_STATE_AVERAGE] = "averages",
                                        [WEFT_STATE_HISTORY] = "histories",
                                        [WEFT_STATE_BUFFER] = "buffers",
                                        [WEFT_STATE_CACHE] = "cache"};
    return weft_node_is(e->value->node, WEFT_OP_PARAMETER) ? "parameters" : names[e->value->kind];
}

/* All ranks' parts together, each once: what a checkpoint holds. */
static int64_t count_state(const weft_plan *plan)
{
    int64_t total = 0;
    for (int i = 0; i < plan->states.n; i++) {
        const weft_value *v = plan->states.list[i].value;
        int64_t bytes = (int64_t)weft_dtype_size(v->dtype);
        for (int d = 0; d < v->n_dims; d++)
            bytes *= v->dims[d].size;
        total += bytes;
    }
    return total;
}

static void add_memory(json_t *o, const weft_plan *plan)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    const weft_held held = weft_plan_held(plan);
    json_t *memory = json_object();
    add_bytes(memory, "total", (int64_t)weft_plan_bytes(plan));
    for (int i = 0; i < plan->states.n; i++)
        if (!plan->states.list[i].far)
            add_bytes(memory, state_class(&plan->states.list[i]), plan->states.list[i].bytes);
    add_bytes(memory, "far", held.far);
    add_bytes(memory, "cache", held.caches);
    add_bytes(memory, "inputs", held.inputs);
    add_bytes(memory, "checkpoint buffer", held.store);
    add_bytes(memory, "arena", held.arena);
    for (int i = 0; i < l->n_buffers; i++) { /* what the arena is full of at its peak */
        const weft_buffer *b = &l->buffers[i];
        if (b->base == WEFT_BASE_ARENA && b->first <= l->peak_position &&
            b->last >= l->peak_position)
            add_bytes(memory, weft_class_name(b->kind), b->bytes);
    }
    json_object_set_new(o, "memory", memory);
    json_object_set_new(o, "state", json_integer(count_state(plan)));
}

/* ---- what is sent ---- */

static const weft_step *sends_in(const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (weft_step_communicates(&n->steps[i]))
            return &n->steps[i];
    return NULL;
}

/* "all_gather of bf16 over dp_shard in forward, by fsdp". */
static void name_collective(const weft_plan *plan, const weft_program *p, const weft_node *node,
                            const weft_step *step, weft_text *name)
{
    const weft_mesh *mesh = &plan->lowered[WEFT_MODE_TRAIN]->graph->config.mesh;
    weft_text_print(name, "%s of %s over ", weft_move_name(step->move),
                    weft_dtype_name(node->outs[0]->dtype));
    for (int a = 0; a < step->n_axes; a++)
        weft_text_print(name, "%s%s", a ? "," : "", mesh->axis[step->axes[a]].name);
    weft_text_print(name, " in %s, by %s", weft_part_name(p->part), node->by ? node->by : "-");
}

static int64_t count_one(json_t *rows, const weft_plan *plan, const weft_program *p,
                         const weft_instruction *in)
{
    const bool sends = in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND;
    const weft_step *step = sends && in->node ? sends_in(in->node) : NULL;
    if (!step)
        return 0;
    const bool micro = p->part == WEFT_PART_F || p->part == WEFT_PART_B;
    const int64_t times = micro ? plan->micro_batches : 1,
                  bytes = times * weft_instruction_bytes(plan->graphs[WEFT_MODE_TRAIN], in);
    weft_text name = {0};
    name_collective(plan, p, in->node, step, &name);
    json_t *row = json_object_get(rows, weft_text_get(&name));
    json_t *fresh =
        json_pack("[I, I]", (json_int_t)(json_integer_value(json_array_get(row, 0)) + times),
                  (json_int_t)(json_integer_value(json_array_get(row, 1)) + bytes));
    json_object_set_new(rows, weft_text_get(&name), fresh);
    weft_text_release(&name);
    return bytes;
}

static void add_sent(json_t *o, const weft_plan *plan)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    json_t *rows = json_object();
    int64_t bytes = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            bytes += count_one(rows, plan, &l->programs[a], &l->programs[a].list[i]);
    json_object_set_new(o, "sent", json_integer(bytes));
    json_object_set_new(o, "collectives", rows);
}

/* ---- the rest ---- */

static void add_passes(json_t *o, const weft_plan *plan)
{
    json_t *passes = json_object();
    for (int i = 0; i < plan->n_records; i++) {
        const weft_pass_record *r = &plan->records[i];
        weft_text name = {0};
        weft_text_print(&name, "%s, %s", r->plugin, r->stage);
        const json_int_t before = json_integer_value(json_object_get(passes, weft_text_get(&name)));
        json_object_set_new(passes, weft_text_get(&name),
                            json_integer(before + r->nodes_after - r->nodes_before));
        weft_text_release(&name);
    }
    json_object_set_new(o, "passes", passes);
}

static weft_status add_products(json_t *o, const weft_plan *plan, weft_error *err)
{
    weft_roofline r;
    weft_forecast f;
    json_t *products = json_object();
    weft_plan_roofline(plan, &r);
    weft_status s = weft_plan_forecast(plan, &r, &f, err);
    for (int d = 0; !s && d < WEFT_DTYPES; d++)
        if (f.products[d] > 0)
            json_object_set_new(products, weft_dtype_name((weft_dtype)d), json_real(f.products[d]));
    if (!s)
        weft_forecast_release(plan, &f);
    json_object_set_new(o, "products", products);
    return s;
}

static int64_t count_trained(const weft_graph *g)
{
    int64_t total = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        int64_t n = g->parameters[i]->frozen ? 0 : 1;
        for (int d = 0; d < g->parameters[i]->n_dims; d++)
            n *= g->parameters[i]->dims[d].size;
        total += n;
    }
    return total;
}

static void add_sizes(json_t *o, const weft_plan *plan, uint64_t program)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, program);
    json_object_set_new(o, "weft_plan", json_integer(1));
    json_object_set_new(o, "ranks", json_integer(plan->ranks));
    json_object_set_new(o, "program", json_string(hash));
    json_object_set_new(o, "parameters", json_integer(weft_plan_parameters(plan)));
    json_object_set_new(o, "trained", json_integer(count_trained(plan->graphs[WEFT_MODE_TRAIN])));
    json_object_set_new(o, "steps", json_integer(plan->steps));
    json_object_set_new(o, "tokens", json_integer(plan->units));
    json_object_set_new(o, "micro_batches", json_integer(plan->micro_batches));
    json_object_set_new(o, "flops", json_real(l->flops));
    json_object_set_new(o, "model_flops", json_real(l->model_flops));
}

weft_status weft_plan_to_json(const weft_session *session, const weft_plan *plan, json_t **out,
                              weft_error *err)
{
    uint64_t program;
    *out = json_object();
    weft_status s = *out ? weft_about_program(plan, &program, err) : weft_fail_memory(err);
    if (s)
        return s;
    add_sizes(*out, plan, program);
    add_settings(*out, session, plan);
    s = add_products(*out, plan, err);
    add_memory(*out, plan);
    add_sent(*out, plan);
    add_passes(*out, plan);
    if (!s &&
        json_object_size(*out) != N_MEMBERS) /* jansson's functions fail, and say so nowhere */
        s = weft_fail_memory(err);
    return s;
}

/* ---- of an INI ---- */

static void add_dropped(const weft_params *params, weft_text *names)
{
    for (int i = 0; params && i < params->n; i++) {
        const weft_checked *v = &params->values[i];
        if (v->dropped && !(v->param->flags & WEFT_PARAM_PER_RANK))
            weft_text_print(names, "%s[%s] %s", names->size ? ", " : "", params->section,
                            v->param->name);
    }
}

/* Without the files that its settings name a run is another one; what each rank may have as it
 * likes is left out in any case. */
static weft_status check_dropped(const weft_session *s, weft_error *err)
{
    weft_text names = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->plugins->n; i++)
        add_dropped(s->plugins->list[i].params, &names);
    if (names.size)
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "it names files or folders: %s",
                           weft_text_get(&names));
    weft_text_release(&names);
    return status;
}

weft_status weft_study_plan(const weft_cli_options *options, json_t **out, weft_error *err)
{
    const weft_plan_options how = {.ranks = options->ranks > 0 ? options->ranks : 1,
                                   .spread = WEFT_SPREAD,
                                   .broken = weft_plan_keep_broken};
    weft_session session = {0};
    weft_plan *plan = NULL;
    *out = NULL;
    weft_status s = weft_session_init(&session, options, 0, NULL, true, err);
    s = s ? s : check_dropped(&session, err);
    s = s ? s : weft_plan_create(session.plugins, session.settings, &how, &plan, err);
    s = s ? s : weft_plan_check(plan, err);
    s = s ? s : weft_session_check_updates(&session, plan, err);
    s = s ? s : weft_plan_to_json(&session, plan, out, err);
    weft_plan_destroy(plan);
    weft_session_release(&session);
    return s;
}
