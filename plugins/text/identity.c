/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens are made from: as a text that a token file is checked against, and as a number for digests and checkpoints. */
#include "text.h"

#include <string.h>

weft_status text_identity(const text_plugin *text, const text_files *files, weft_text *out, weft_error *err)
{
    weft_text_print(out, "tokenizer %s\nbos %d\neos %d\nskip_bad %d\nrepair_utf8 %d\nfield %s\n", text->tokenizer->name, text->bos, text->eos,
                    text->skip_bad, text->repair_utf8, text->field);
    for (size_t i = 0; i < files->n; i++) {
        weft_text_add(out, files->list[i].jsonl ? "jsonl " : "text ");
        weft_text_add_bytes(out, files->list[i].path, strlen(files->list[i].path) + 1);
    }
    return out->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    return weft_hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t text_fingerprint(const text_plugin *text, const text_files *files)
{
    uint64_t hash = weft_hash_name("text 1");
    hash = weft_hash_bytes(hash, text->tokenizer->name, strlen(text->tokenizer->name) + 1);
    hash = weft_hash_bytes(hash, text->field, strlen(text->field) + 1);
    hash = hash_number(hash, (uint64_t)text->bos | (uint64_t)text->eos << 1 | (uint64_t)text->skip_bad << 2 | (uint64_t)text->repair_utf8 << 3 |
                                 (uint64_t)text->shuffle << 4);
    uint64_t validation;
    memcpy(&validation, &text->validation, sizeof validation);
    hash = hash_number(hash, validation);
    for (size_t i = 0; i < files->n; i++) {
        hash = hash_number(hash, files->list[i].jsonl);
        hash = hash_number(hash, (uint64_t)files->list[i].size);
        hash = hash_number(hash, files->list[i].hash);
    }
    return hash;
}
