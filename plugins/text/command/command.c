/* SPDX-License-Identifier: Apache-2.0 */
/* weft tokenize: text to ids and back, counts, and new vocabularies. */
#include "command.h"

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    static weft_status (*const modes[])(const weft_command_host *host, const tokenize_options *o,
                                        weft_error *err) = {
        [TOKENIZE_ENCODE] = tokenize_encode, [TOKENIZE_DECODE] = tokenize_decode,
        [TOKENIZE_COUNT] = tokenize_encode,  [TOKENIZE_INFO] = tokenize_info,
        [TOKENIZE_TRAIN] = tokenize_train,
    };
    tokenize_options o = {0};
    weft_status status = tokenize_options_parse(&o, host->threads, argc, argv, err);
    if (!status)
        status = modes[o.mode](host, &o, err);
    tokenize_options_release(&o);
    return status;
}

const weft_command text_command = {
    .name = "tokenize",
    .summary = "turn text into ids and back; train a tokenizer",
    .usage = tokenize_usage,
    .run = run,
};
