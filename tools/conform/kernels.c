/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels against the plain one: every dtype that they accept, memory of the device with guards
 * around it, exactly the workspace that they ask for, and that full of NaN. */
#include "trial.h"

#include <math.h>
#include <string.h>

/* A joined op rounds what is between as its operand is rounded, and the plain kernel has it in f64
 * here: of 8 bits a result may then be the neighbour. */
static double tolerance_of(const conform_trial *t, int r, weft_dtype dtype)
{
    const weft_tensor *out = &t->outs[r];
    if (!t->u->node->op->pattern)
        return conform_trial_tolerance(out, dtype);
    if (weft_dtype_is_f8(out->dtype))
        return out->dtype == WEFT_F8E5M2 ? 1.0 / 4 : 1.0 / 8;
    return conform_trial_tolerance(out, t->ins[0].dtype == WEFT_BF16 ? WEFT_BF16 : dtype);
}

static void compare(const conform_trial *t, weft_dtype dtype, int threads)
{
    for (int r = 0; r < t->u->node->n_outs; r++) {
        int64_t at = conform_differ(&t->want[r], &t->outs[r], tolerance_of(t, r, dtype));
        if (at < 0)
            continue;
        weft_text what = {0};
        conform_print_difference(&t->want[r], &t->outs[r], r, at, &what);
        conform_trial_fail(t, "%s: unlike the plain kernel's: %s, on %d thread%s%s",
                           isnan(weft_tensor_get(&t->outs[r], at)) ? "nan" : "values",
                           weft_text_get(&what), threads, threads > 1 ? "s" : "",
                           isnan(weft_tensor_get(&t->outs[r], at))
                               ? "; a result was not written, or workspace read that was not"
                               : "");
        weft_text_release(&what);
        return;
    }
}

/* Returns whether the kernel took the call. */
static bool try_dtype(conform_trial *t, weft_dtype dtype, int threads)
{
    weft_error err = {0};
    bool taken = false;
    if (!conform_trial_make(t, dtype))
        goto done;
    weft_call call = conform_trial_call(t, threads);
    taken = conform_trial_accepts(t, &call);
    if (!taken)
        goto done;
    if (dtype == WEFT_DTYPES && !t->accumulate)
        conform_check_prepare(t->c, t->kernel, &call);
    weft_status s = conform_trial_upload(t, &call, &err);
    s = s ? s : conform_trial_launch(t, &call, &err);
    s = s ? s : conform_trial_download(t, &err);
    if (s)
        conform_trial_fail(t, "fails: %s", weft_error_text(&err));
    else
        compare(t, dtype, threads);
done:
    weft_error_release(&err);
    conform_trial_release(t);
    return taken;
}

/* Has it taken a call? */
static bool check_kernel(const conform *c, const conform_use *u, const conform_plan *p,
                         const weft_kernel *k)
{
    static const weft_dtype dtypes[] = {WEFT_DTYPES, WEFT_F32, WEFT_BF16, WEFT_F64};
    static const char *const names[] = {"the run's dtypes", "f32", "bf16", "f64"};
    conform_trial *t = weft_alloc_zero(1, sizeof *t);
    int taken = 0;
    for (int i = 0; t && i < 8; i++) {
        *t = (conform_trial){
            .c = c, .u = u, .p = p, .kernel = k, .as = names[i % 4], .accumulate = i / 4};
        if (t->accumulate && !k->accumulates)
            continue;
        conform_now(c, "kernel %s of op %s (%s)", k->name, k->op, t->as);
        taken += try_dtype(t, dtypes[i % 4], p->host.threads);
    }
    if (t)
        weft_free(t);
    conform_count(c, "kernel launches", taken);
    if (taken == 0 && c->whole)
        conform_count(c, "uses that a kernel does not accept", 1);
    return taken > 0;
}

static bool is_for(const weft_kernel *k, const conform_use *u, const conform_plan *p)
{
    return strcmp(k->op, u->node->op->name) == 0 && strcmp(k->device, p->plan->device->name) == 0;
}

/* Kernels run on a device that is open, and some devices are of hardware that is not here. */
static bool open_device(const conform *c, const conform_plan *p)
{
    weft_error err = {0};
    weft_status s = WEFT_OK;
    conform_now(c, "plugin: open");
    for (int i = 0; i < p->plugins->n && !s; i++) {
        weft_loaded *l = &p->plugins->list[i];
        if (l->self == p->plan->device_self || strcmp(l->module.plugin->name, c->plugin) == 0)
            s = weft_loaded_open(l, &err);
    }
    if (s)
        conform_skip(c, "kernels of device %s: %s", p->plan->device->name, weft_error_text(&err));
    weft_error_release(&err);
    return s == WEFT_OK;
}

void conform_check_kernels(const conform *c, const conform_use *u, const conform_plan *p,
                           conform_kernels *seen)
{
    bool opened = false;
    for (int i = 0; i < p->plugins->n; i++) {
        const weft_plugin *plugin = p->plugins->list[i].module.plugin;
        if (!c->plugin || strcmp(plugin->name, c->plugin) != 0)
            continue;
        for (const weft_kernel *k = plugin->kernels; k && k->op; k++) {
            if (!is_for(k, u, p))
                continue;
            if (!opened && !open_device(c, p))
                return;
            opened = true;
            const bool taken = check_kernel(c, u, p, k);
            if (k - plugin->kernels < CONFORM_MOST_KERNELS)
                seen->of[k - plugin->kernels] |=
                    taken ? CONFORM_TRIED | CONFORM_TAKEN : CONFORM_TRIED;
        }
    }
    if (opened)
        weft_plugins_close(p->plugins);
}
