/* SPDX-License-Identifier: Apache-2.0 */
/* Reviews of a finished plan: what they ask for, and whether another round is needed. */
#include "compile/driver/plan.h"
#include "host/enter.h"

#include <string.h>

static weft_request *find(const weft_plugins *plugins, const char *what)
{
    weft_request *r = plugins->asked;
    while (r && strcmp(r->what, what) != 0)
        r = r->next;
    return r;
}

const char *weft_asked(const weft_host *host, const char *what)
{
    const weft_request *r = find(host->core, what);
    return r ? r->value : NULL;
}

static weft_status ask(weft_plugins *plugins, const char *by, const char *what, const char *value,
                       weft_error *err)
{
    weft_request *r = find(plugins, what);
    if (r && strcmp(r->by, by) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "plugin %s asks for %s = %s, and plugin %s has asked for %s; list only "
                         "one of them",
                         by, what, value, r->by, r->value);
    const char *name = weft_pool_strdup(&plugins->link_pool, what),
               *copy = weft_pool_strdup(&plugins->link_pool, value);
    weft_request *fresh = r ? r : weft_pool_alloc(&plugins->link_pool, sizeof *r);
    if (!name || !copy || !fresh)
        return weft_fail_memory(err);
    *fresh = (weft_request){by, name, copy, r ? r->next : plugins->asked};
    plugins->asked = r ? plugins->asked : fresh;
    return WEFT_OK;
}

/* Refused requests count whatever the review makes of them. */
weft_status weft_plan_ask(weft_plan *p, const char *what, const char *value, weft_error *err)
{
    const weft_request *r = find(p->plugins, what);
    if (r && strcmp(r->value, value) == 0)
        return WEFT_OK;
    p->again = true;
    p->refused = p->refused ? p->refused : ask(p->plugins, p->reviewer, what, value, err);
    return p->refused;
}

weft_status weft_plan_review(weft_plan *p, weft_error *err)
{
    int i = 0, k = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    weft_status s = WEFT_OK;
    while (!s && weft_plugins_next(p->plugins, WEFT_REVIEW, &i, &k, &loaded, &c)) {
        p->reviewer = loaded->module.plugin->name;
        const weft_entry entry = weft_enter(p->reviewer, "review", loaded->module.where, err);
        s = weft_leave(&entry, c->review(loaded->self, p, err));
        s = s ? s : p->refused;
        if (!s && p->again && p->round + 1 == WEFT_MOST_ROUNDS)
            s = weft_fail(err, WEFT_ERR_INPUT, loaded->module.where,
                          "plugin %s still asks for something new behind %d plans; there are no "
                          "more",
                          p->reviewer, WEFT_MOST_ROUNDS);
    }
    return s;
}
