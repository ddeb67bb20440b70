/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

typedef struct checks {
    const weft_host *host;
    bool replicas, memory, nan;
    check_memory *kept; /* NULL before MEMORY */
} checks;

static weft_status create(void *self, weft_error *err)
{
    checks *c = self;
    const weft_host *host = c->host;
    const weft_params *weft = host->weft;
    if (weft_params_has(weft, "check", "none") && weft_params_word(weft, "check", 1))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(weft, "check"),
                         "[weft] check = %s: none stands alone; leave it out, or the others",
                         weft_params_text(weft, "check"));
    c->replicas = host->ranks > 1 && weft_params_has(weft, "check", "replicas");
    c->memory = weft_params_has(weft, "check", "memory");
    c->nan = weft_params_has(weft, "check", "nan");
    return WEFT_OK;
}

static void close_run(void *self)
{
    checks *c = self;
    check_memory_destroy(c->kept);
    c->kept = NULL;
}

static unsigned wants(void *self)
{
    const checks *c = self;
    return WEFT_EVENT_NOT_FINITE | (c->replicas ? WEFT_EVENT_GRADIENTS | WEFT_EVENT_UPDATED : 0u) |
           (c->memory ? WEFT_EVENT_MEMORY | WEFT_EVENT_INSTRUCTION_BEGIN : 0u) |
           (c->memory || c->nan ? WEFT_EVENT_INSTRUCTION_END : 0u);
}

/* What is written where it should not be may well be a NaN: so memory comes first. */
static weft_status look_after(const checks *c, const weft_run_view *run, weft_error *err)
{
    weft_status s = c->memory ? check_memory_after(c->kept, run, err) : WEFT_OK;
    return !s && c->nan ? check_nan(run, err) : s;
}

static weft_status observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    checks *c = self;
    switch (event) {
    case WEFT_EVENT_MEMORY:
        close_run(c);
        return check_memory_create(c->host, run, &c->kept, err);
    case WEFT_EVENT_INSTRUCTION_BEGIN:
        return check_memory_before(c->kept, run, err);
    case WEFT_EVENT_INSTRUCTION_END:
        return look_after(c, run, err);
    case WEFT_EVENT_NOT_FINITE:
        return check_diagnose(c->host, run, err);
    default:
        return check_replicas(c->host, run, event == WEFT_EVENT_UPDATED, err);
    }
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_MEMORY | WEFT_EVENT_INSTRUCTION_BEGIN | WEFT_EVENT_INSTRUCTION_END |
               WEFT_EVENT_GRADIENTS | WEFT_EVENT_UPDATED | WEFT_EVENT_NOT_FINITE,
     .fails = true,
     .wants = wants,
     .gives = (const char *const[]){"check", NULL},
     .observe = observe},
    {0},
};

WEFT_PLUGIN(check) = {
    WEFT_PLUGIN_HEAD,
    .name = "check",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "ends a run at the first fault that [weft] check looks for",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .self_size = WEFT_SELF(checks),
    .create = create,
    .close = close_run,
};
