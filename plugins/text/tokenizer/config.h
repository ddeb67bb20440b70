/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_config.json, which stands beside a tokenizer.json: which tokens begin and end a text.
 */
#ifndef WEFT_TEXT_TOKENIZER_CONFIG_H
#define WEFT_TEXT_TOKENIZER_CONFIG_H

#include <weft/weft.h>

typedef struct tokenizer_config_token {
    enum {
        TOKENIZER_CONFIG_MISSING,
        TOKENIZER_CONFIG_NONE,
        TOKENIZER_CONFIG_TEXT
    } state; /* NONE: it says that there is none */
    char *text;
} tokenizer_config_token;

/* Zero-initialised is valid and empty. */
typedef struct tokenizer_config {
    char *path;
    bool found; /* the file is there */
    tokenizer_config_token bos, eos;
} tokenizer_config;

/* Reads the file beside the tokenizer's; it need not be there. */
weft_status tokenizer_config_read(tokenizer_config *config, const char *tokenizer_path,
                                  weft_error *err);
void tokenizer_config_release(tokenizer_config *config);

#endif
