/* SPDX-License-Identifier: Apache-2.0 */
/* The services whose tables weft knows. */
#include "host/plugins.h"
#include "host/wrap.h"

#include <string.h>

static const weft_service_kind kinds[] = {
    {"device", "weft_device", sizeof(weft_device), &weft_forward_device},
    {"transport", "weft_transport", sizeof(weft_transport), &weft_forward_transport},
    {"tokenizer", "weft_tokenizer", sizeof(weft_tokenizer), &weft_forward_tokenizer},
    {"data", "weft_data", sizeof(weft_data), &weft_forward_data},
    {"generator", "weft_generator", sizeof(weft_generator), &weft_forward_generator},
    {"store", "weft_store", sizeof(weft_store), &weft_forward_store},
    {"weights", "weft_weights", sizeof(weft_weights), &weft_forward_weights},
    {"format", "weft_model_format", sizeof(weft_model_format), NULL},
    {"schedule", "weft_schedule", sizeof(weft_schedule), &weft_forward_schedule},
};

const weft_service_kind *weft_service_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

weft_status weft_transport_check_send(const weft_transport *t, const char *by, weft_error *err)
{
    if (t->send && t->recv && t->wait && t->broadcast)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "this run sends values from one rank to another, and the transport of plugin "
                     "'%s' cannot: it has no %s; list another, as local or mpi",
                     by,
                     !t->send   ? "send"
                     : !t->recv ? "recv"
                     : !t->wait ? "wait"
                                : "broadcast");
}
