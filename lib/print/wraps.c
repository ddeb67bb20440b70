/* SPDX-License-Identifier: Apache-2.0 */
#include "print/wraps.h"

#include <stdio.h>
#include <string.h>

bool weft_print_wraps(const weft_plugins *plugins, int *i, weft_text *text)
{
    int plugin = 0, item = 0, seen = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    while (weft_plugins_next(plugins, WEFT_WRAP, &plugin, &item, &loaded, &c)) {
        char service[64];
        void *self;
        snprintf(service, sizeof service, "%.*s", (int)strcspn(c->service, "?"), c->service);
        const void *table = weft_plugins_service(plugins, service, &self), *inner = table;
        const char *by = weft_plugins_giver(plugins, table);
        if (!by || strcmp(by, loaded->module.plugin->name) != 0 || /* it is not the outermost */
            !weft_plugins_inner(plugins, &inner, &self) || seen++ < *i)
            continue;
        ++*i;
        weft_text_print(text, "%s: %s", service, by);
        do
            weft_text_print(text, " around %s", weft_plugins_giver(plugins, inner));
        while (weft_plugins_inner(plugins, &inner, &self));
        return true;
    }
    return false;
}
