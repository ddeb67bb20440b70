/* SPDX-License-Identifier: Apache-2.0 */
#include "created.h"

#include "settings/settings.h"

#include <string.h>

weft_status created_init(const weft_plugin *plugin, const weft_host *host, void **self,
                         weft_error *err)
{
    *self = plugin->self_size ? weft_alloc_zero(1, plugin->self_size) : (void *)(uintptr_t)host;
    if (!*self)
        return weft_fail_memory(err);
    if (plugin->self_size) {
        memcpy(*self, &host, sizeof host);
        weft_params_fill(host->params, *self);
    }
    return plugin->create ? plugin->create(*self, err) : WEFT_OK;
}

void created_release(const weft_plugin *plugin, const weft_host *host, void *self)
{
    if (self && plugin->destroy)
        plugin->destroy(self);
    if (self != (const void *)host)
        weft_free(self);
}
