/* SPDX-License-Identifier: Apache-2.0 */
/* What a run would refuse that a plan can see, though it opens nothing: what the transport and
 * kernels say of the device. */
#include "forecast/forecast.h"
#include "host/enter.h"

#include <string.h>
#include <weft/graph.h>

/* Is the device listed before the transport? Whatever stands around either of them. */
static bool device_is_first(const weft_plugins *plugins)
{
    int plugin = 0, item = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    while (weft_plugins_next(plugins, WEFT_SERVICE, &plugin, &item, &loaded, &c))
        if (strcmp(c->service, "device") == 0 || strcmp(c->service, "transport") == 0)
            return strcmp(c->service, "device") == 0;
    return false;
}

static weft_status check_transport(const weft_plan *plan, weft_error *err)
{
    void *self;
    const weft_plugins *plugins = plan->plugins;
    const weft_transport *t = weft_plugins_service(plugins, "transport", &self);
    if (!t || !t->takes)
        return WEFT_OK;
    return t->takes(self, device_is_first(plugins) ? plan->device : NULL, err);
}

static weft_status check_instruction(const weft_plan *plan, const weft_instruction *in,
                                     weft_error *err)
{
    if (in->kind != WEFT_COMPUTE || !in->kernel || !in->kernel->check)
        return WEFT_OK;
    const weft_call call = weft_instruction_call(in, &plan->kernels);
    const weft_entry entry = weft_enter_op(in->owner, "check", in->kernel->op, err);
    return weft_leave(&entry, in->kernel->check(&call, err));
}

enum { SAID = 16 };

/* The dims that inputs have, each once; but that of micro-batches, which are each a graph's. */
static int list_dims(const weft_graph *g, const char *names[SAID])
{
    int n_names = 0;
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int d = 0; weft_node_is(n, WEFT_OP_INPUT) && d < n->outs[0]->n_dims; d++) {
            const char *name = n->outs[0]->dims[d].name;
            int i = 0;
            while (i < n_names && strcmp(names[i], name) != 0)
                i++;
            if (i == n_names && i < SAID && strcmp(name, "micro") != 0)
                names[n_names++] = name;
        }
    return n_names;
}

/* What is to be cut, and is not there, would leave all ranks of an axis with the same to do. */
static weft_status check_axis(const weft_axis *axis, int n, const char *const *names,
                              weft_error *err)
{
    weft_text text = {0};
    for (int i = 0; i < n; i++) {
        const bool is_one = strcmp(axis->cuts, "seq") == 0 && weft_is_sequence(names[i]);
        if (is_one || strcmp(names[i], axis->cuts) == 0) {
            weft_text_release(&text);
            return WEFT_OK;
        }
        weft_text_print(&text, "%s%s", i ? ", " : "", names[i]);
    }
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, axis->at,
                              "plugin '%s': its axis %s is to cut dim '%s' of all inputs, and no "
                              "input of this model has such a dim; theirs are %s; list another "
                              "model, or give the axis one rank",
                              axis->by, axis->name, axis->cuts, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

static bool is_sound(const weft_field *f, const weft_field *all)
{
    for (const weft_field *o = all; o != f; o++)
        if (strcmp(o->name, f->name) == 0)
            return false;
    return weft_is_name(f->name, "_") && f->shape && strncmp(f->shape, "batch", 5) == 0 &&
           strcspn(f->shape, " ") == 5 && f->dtype >= 0 && f->dtype < WEFT_DTYPES &&
           (f->dtype == WEFT_I32 || weft_dtype_is_float(f->dtype));
}

/* A model that reads none of a wrong one has room made for it all the same. */
weft_status weft_plan_check_fields(const weft_plan *plan, weft_error *err)
{
    const weft_graph *g = weft_plan_model(plan);
    const weft_field *all = g ? g->config.fields : NULL;
    for (const weft_field *f = all; f && f->name; f++)
        if (!is_sound(f, all))
            return weft_fail(err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                             "the data of plugin '%s': field %d, '%s', of shape '%s', is none: its "
                             "name is letters, digits and '_', of no other field, batch the first "
                             "dim of its shape, and its type i32 or one of real numbers",
                             g->config.fields_by, (int)(f - all), f->name,
                             f->shape ? f->shape : "");
    return WEFT_OK;
}

weft_status weft_plan_check_axes(const weft_plan *plan, weft_error *err)
{
    const weft_graph *g = weft_plan_model(plan);
    const char *names[SAID];
    const int n = g ? list_dims(g, names) : 0;
    weft_status s = WEFT_OK;
    for (int a = 0; n > 0 && a < plan->mesh.n_axes && !s; a++)
        if (plan->mesh.axis[a].cuts)
            s = check_axis(&plan->mesh.axis[a], n, names, err);
    return s;
}

weft_status weft_plan_check(const weft_plan *plan, weft_error *err)
{
    weft_status s = weft_plan_check_axes(plan, err);
    s = s ? s : weft_plan_check_fields(plan, err);
    s = s ? s : check_transport(plan, err);
    s = s ? s : weft_plan_reach_far(plan, err);
    for (int m = 0; m < WEFT_MODES; m++) {
        const weft_lowered *l = plan->lowered[m];
        for (int a = 0; l && a < l->n_programs; a++)
            for (int i = 0; i < l->programs[a].n && !s; i++)
                s = check_instruction(plan, &l->programs[a].list[i], err);
    }
    return s;
}
