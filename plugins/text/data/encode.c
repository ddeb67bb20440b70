/* SPDX-License-Identifier: Apache-2.0 */
/* One thread's tokenizer. */
#include "data.h"

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

weft_status text_encoder_add(text_encoder *e, bool continues, const char *s, size_t n,
                             int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err)
{
    return text_tokenizer_encode(e->text->tokenizer, e->scratch, continues, s, n, ids, n_ids,
                                 capacity, err);
}
