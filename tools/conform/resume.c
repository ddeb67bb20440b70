/* SPDX-License-Identifier: Apache-2.0 */
/* A run that goes on from a checkpoint goes on as it would have: what lasts from step to step is
 * state, which is stored, or it is lost. */
#include "conform.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

enum { SECONDS = 100 };

/* Three steps on one rank, from the beginning (from NULL) or from a checkpoint. Returns what there
 * is to read of them, weft_free; NULL: they could not be made, and that is no finding of ours. */
static char *train(const conform *c, const char *ini, const char *folder, const char *from)
{
    char dir[220], load[260], path[240], *text = NULL;
    size_t size;
    weft_text said = {0};
    weft_error err = {0};
    snprintf(dir, sizeof dir, "weft.dir=%s", folder);
    snprintf(load, sizeof load, "ckpt.load=%s", from ? from : "none");
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    const char *const argv[] = {"weft",
                                "train",
                                ini,
                                "--with",
                                "ckpt",
                                "--with",
                                "metrics",
                                "-o",
                                dir,
                                "-o",
                                load,
                                "-o",
                                "ckpt.every=1",
                                "-o",
                                "ckpt.keep=0",
                                "-o",
                                "train.steps=3",
                                NULL};
    int code = weft_process_call(argv, NULL, SECONDS, &said);
    if (code == 0 && weft_read_file(path, &text, &size, &err))
        text = NULL;
    if (code > 2)
        conform_fail(c, "resume: %s: %s", from ? "from a checkpoint" : "a run that is saved",
                     conform_gist(&said));
    weft_error_release(&err);
    weft_text_release(&said);
    return text;
}

/* Of the last step, up to the norm: "step": 3, "loss": 5.5, "grad_norm": 1.25 */
static void find_last(char *metrics, char out[120])
{
    const char *step = metrics ? strstr(metrics, "{\"step\": 3, ") : NULL;
    const char *loss = step ? strstr(step, "\"loss\": ") : NULL;
    snprintf(out, 120, "%.*s", loss ? (int)strcspn(loss, ",}") : 0, loss ? loss : "");
    const char *norm = loss ? strstr(loss, "\"grad_norm\": ") : NULL;
    size_t n = strlen(out);
    if (norm)
        snprintf(out + n, 120 - n, ", %.*s", (int)strcspn(norm, ",}"), norm);
}

void conform_compare_resumed(const conform *c, const char *what, const char *ini)
{
    char whole[180], resumed[180], from[220], want[120], got[120];
    snprintf(whole, sizeof whole, "%s/whole-XXXXXX", c->folder);
    snprintf(resumed, sizeof resumed, "%s/resumed-XXXXXX", c->folder);
    if (!mkdtemp(whole) || !mkdtemp(resumed))
        return;
    snprintf(from, sizeof from, "%s/ckpt/step-1", whole);
    conform_now(c, "resume: %s", what);
    char *first = train(c, ini, whole, NULL), *second = first ? train(c, ini, resumed, from) : NULL;
    find_last(first, want);
    find_last(second, got);
    if (second && *want && strcmp(want, got) != 0)
        conform_fail(c,
                     "resume: %s: from a checkpoint of step 1, step 3 has %s, not %s: what lasts "
                     "from step to step is state (weft_add_state), which checkpoints hold",
                     what, got, want);
    conform_count(c, "runs resumed", second && *want);
    weft_free(first);
    weft_free(second);
}
