/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that end alike. */
#include "ckpt.h"

#include <string.h>

weft_status ckpt_exchange(const weft_host *host, const void *mine, size_t n, void *all,
                          weft_error *err)
{
    double limit_s = weft_params_real(host->params, "timeout"), start_s = weft_now();
    weft_status s = host->exchange_within(host, limit_s, mine, n, all, err);
    if (s && weft_now() - start_s >= limit_s) /* now, as ranks that are threads of one process
                                                 cannot end before the one that hangs */
        weft_log_print(host->log, WEFT_LOG_ERROR,
                       "a checkpoint is given up ([ckpt] timeout = %s): %s",
                       weft_params_text(host->params, "timeout"), weft_error_text(err));
    return s;
}

typedef struct vote {
    int32_t status;
    char text[1020];
} vote;

weft_status ckpt_agree(const weft_host *host, weft_status mine, const weft_error *why,
                       weft_text *text, int *whose, weft_error *err)
{
    vote v = {.status = (int32_t)mine};
    vote *all = weft_alloc((size_t)host->ranks * sizeof *all);
    *whose = -1;
    if (!all)
        return weft_fail_memory(err);
    if (mine)
        strncpy(v.text, weft_error_text(why), sizeof v.text - 1);
    weft_status s = ckpt_exchange(host, &v, sizeof v, all, err);
    for (int r = 0; r < host->ranks && !s; r++)
        if (all[r].status && *whose < 0)
            *whose = r;
    weft_text_clear(text);
    if (!s && *whose >= 0) {
        s = (weft_status)all[*whose].status;
        weft_text_add(text, all[*whose].text);
    }
    weft_free(all);
    return s;
}
