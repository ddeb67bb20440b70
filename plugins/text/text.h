/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin gives, beside its data (data/) and its command (command/). */
#ifndef WEFT_TEXT_TEXT_H
#define WEFT_TEXT_TEXT_H

#include "data/data.h"

/* service.c: the service of capability "tokenizer"; self is the plugin's instance. */
extern const weft_tokenizer text_tokenizer_service;

#endif
