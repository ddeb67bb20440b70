/* SPDX-License-Identifier: Apache-2.0 */
/* One thread's tokenizer, and where documents that are larger than memory may be cut. */
#include "text.h"

#include <string.h>

weft_status text_encoder_init(text_encoder *e, const text_plugin *text, weft_error *err)
{
    *e = (text_encoder){.text = text};
    return text_tokenizer_begin(text->tokenizer, &e->scratch, err);
}

void text_encoder_release(text_encoder *e)
{
    text_tokenizer_end(e->scratch);
    *e = (text_encoder){0};
}

weft_status text_encoder_add(text_encoder *e, const char *s, size_t n, int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err)
{
    return text_tokenizer_encode(e->text->tokenizer, e->scratch, false, s, n, ids, n_ids, capacity, err);
}

/* ---- cutting ---- */

/* Appends the ids of `whole`, and then those of its parts before and from place `at` on; `skip` bytes there are left out. *equal: both are the same.
 */
static weft_status try_cut(text_encoder *e, const char *whole, size_t at, size_t skip, bool *equal, weft_error *err)
{
    int32_t *ids = NULL;
    size_t n = 0, n_all, capacity = 0;
    weft_status status = text_encoder_add(e, whole, strlen(whole), &ids, &n, &capacity, err);
    n_all = n;
    if (!status)
        status = text_encoder_add(e, whole, at, &ids, &n, &capacity, err);
    if (!status)
        status = text_encoder_add(e, whole + at + skip, strlen(whole + at + skip), &ids, &n, &capacity, err);
    *equal = !status && n == 2 * n_all && !memcmp(ids, ids + n_all, n_all * sizeof *ids);
    weft_free(ids);
    return status;
}

/* Whether every blank between letters of a sample is a place to cut. */
static weft_status try_blanks(text_encoder *e, size_t skip, bool *equal, weft_error *err)
{
    static const char sample[] =
        "Now the reader of this page will want to know how it ends\nand why the author has taken the trouble to write it down";
    weft_status status = WEFT_OK;
    *equal = true;
    for (size_t at = 1; !status && *equal && sample[at]; at++)
        if (sample[at] == ' ')
            status = try_cut(e, sample, at, skip, equal, err);
    return status;
}

static weft_status try_anywhere(text_encoder *e, bool *equal, weft_error *err)
{
    static const char sample[] = "the  end's 12345\n\n\tof it";
    weft_status status = WEFT_OK;
    *equal = true;
    for (size_t at = 1; !status && *equal && sample[at]; at++)
        status = try_cut(e, sample, at, 0, equal, err);
    return status;
}

weft_status text_encoder_cut(text_encoder *e, text_cut *cut, weft_error *err)
{
    bool equal = false;
    *cut = TEXT_CUT_ANYWHERE;
    weft_status status = try_anywhere(e, &equal, err);
    if (status || equal)
        return status;
    *cut = TEXT_CUT_BEFORE_BLANK;
    status = try_blanks(e, 0, &equal, err);
    if (status || equal)
        return status;
    *cut = TEXT_CUT_AT_BLANK;
    status = try_blanks(e, 1, &equal, err);
    if (!status && !equal)
        *cut = TEXT_CUT_NEVER;
    return status;
}
