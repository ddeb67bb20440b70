/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that end alike. */
#include "ckpt.h"

#include <string.h>
#include <time.h>

double ckpt_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct vote {
    int32_t status;
    char text[1020];
} vote;

weft_status ckpt_agree(const weft_host *host, weft_status mine, const weft_error *why, weft_text *text, int *whose, weft_error *err)
{
    vote v = {.status = (int32_t)mine};
    vote *all = weft_alloc((size_t)host->ranks * sizeof *all);
    *whose = -1;
    if (!all)
        return weft_fail_memory(err);
    if (mine)
        strncpy(v.text, weft_error_text(why), sizeof v.text - 1);
    weft_status s = host->exchange(host, &v, sizeof v, all, err);
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
