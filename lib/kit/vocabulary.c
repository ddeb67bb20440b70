/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/plugin.h>

weft_status weft_vocabulary(const weft_host *host, const char *section, int64_t given,
                            int64_t *size, weft_error *err)
{
    void *self;
    *size = given;
    if (!weft_params_is(host->params, "vocab_size", "auto"))
        return WEFT_OK;
    const weft_tokenizer *tokenizer = host->service(host, "tokenizer", &self);
    if (!tokenizer)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(host->params, "vocab_size"),
                         "[%s] vocab_size = auto takes the tokenizer's size, but no listed plugin "
                         "gives a tokenizer; list text, or give a number",
                         section);
    *size = tokenizer->vocab_size(self);
    return WEFT_OK;
}
