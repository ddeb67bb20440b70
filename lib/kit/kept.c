/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins keep from step to step beside the graph's state, and what runs now. */
#include "host/host.h"

#include <string.h>

static weft_kept_bytes **find(weft_plugins *plugins, const char *by, const char *name)
{
    weft_kept_bytes **at = &plugins->kept;
    while (*at && (strcmp((*at)->by, by) != 0 || strcmp((*at)->name, name) != 0))
        at = &(*at)->next;
    return at;
}

/* The plugin whose host this is. */
static const char *name_of(const weft_host *host)
{
    const weft_plugins *plugins = host->core;
    for (int i = 0; i < plugins->n; i++)
        if (&plugins->list[i].host == host)
            return plugins->list[i].module.plugin->name;
    return "?";
}

weft_status weft_keep(const weft_host *host, const char *name, int64_t bytes, unsigned flags,
                      weft_error *err)
{
    weft_plugins *plugins = host->core;
    const char *by = name_of(host);
    if (plugins->run || bytes < 0)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "plugin %s: %lld bytes cannot be kept as '%s'%s", by, (long long)bytes,
                         name, plugins->run ? ": the run is planned already" : "");
    if (bytes == 0)
        return WEFT_OK;
    weft_kept_bytes **at = find(plugins, by, name);
    if (!*at) {
        *at = weft_pool_alloc(&plugins->link_pool, sizeof **at);
        char *copy = *at ? weft_pool_strdup(&plugins->link_pool, name) : NULL;
        if (!copy)
            return weft_fail_memory(err);
        **at = (weft_kept_bytes){.by = by, .name = copy};
    }
    (*at)->bytes = bytes > (*at)->bytes ? bytes : (*at)->bytes;
    (*at)->flags = flags;
    return WEFT_OK;
}

void *weft_kept(const weft_host *host, const char *name)
{
    const weft_kept_bytes *k = *find(host->core, name_of(host), name);
    return k ? k->at : NULL;
}

bool weft_running_now(const weft_host *host, weft_running *out)
{
    *out = ((const weft_plugins *)host->core)->running;
    return out->nodes != NULL;
}
