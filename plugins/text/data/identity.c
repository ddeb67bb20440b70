/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens are made from: as a text that a token file is checked against, and as a number for
 * digests and checkpoints. */
#include "data.h"

#include <string.h>

static const char *const kinds[] = {
    [TEXT_PLAIN] = "text", [TEXT_JSONL] = "jsonl", [TEXT_BIN] = "bin", [TEXT_INDEX] = "index"};

weft_status text_identity(const text_plugin *text, const text_files *files, weft_text *out,
                          weft_error *err)
{
    weft_text_print(
        out, "tokenizer %s %d\nbos %d %d\neos %d %d\nskip_bad %d\nrepair_utf8 %d\nfield %s\n",
        text->tokenizer->name, text->tokenizer->vocab_size, text->bos, text->tokenizer->bos,
        text->eos, text->tokenizer->eos, text->skip_bad, text->repair_utf8, text->field);
    if (files->n && files->list[0].kind == TEXT_BIN)
        weft_text_print(out, "width %zu\n", text->bin_width);
    for (size_t i = 0; i < files->n; i++) {
        weft_text_print(out, "%s ", kinds[files->list[i].kind]);
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

static uint64_t hash_real(uint64_t hash, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return hash_number(hash, bits);
}

static uint64_t hash_source(uint64_t hash, const text_plugin *text, const text_source *source)
{
    hash = hash_real(hash, source->weight);
    hash = hash_number(hash, (uint64_t)source->n_train);
    for (size_t i = 0; i < source->files.n; i++) {
        const text_file *file = &source->files.list[i];
        hash = hash_number(hash, file->kind);
        hash = hash_number(hash, file->kind == TEXT_BIN ? text->bin_width : 0);
        hash = hash_number(hash, (uint64_t)file->size);
        hash = hash_number(hash, file->hash);
    }
    return hash;
}

uint64_t text_fingerprint(const text_plugin *text)
{
    uint64_t hash = weft_hash_name("text 2");
    hash = weft_hash_bytes(hash, text->tokenizer->name, strlen(text->tokenizer->name) + 1);
    hash = hash_number(hash, (uint64_t)text->tokenizer->vocab_size);
    hash = hash_number(hash, (uint64_t)text->tokenizer->bos);
    hash = hash_number(hash, (uint64_t)text->tokenizer->eos);
    hash = weft_hash_bytes(hash, text->field, strlen(text->field) + 1);
    hash = hash_number(
        hash, (uint64_t)text->bos | (uint64_t)text->eos << 1 | (uint64_t)text->skip_bad << 2 |
                  (uint64_t)text->repair_utf8 << 3 | (uint64_t)text->shuffle << 4 |
                  (uint64_t)text->reset_attention << 5 | (uint64_t)text->reset_positions << 6);
    for (size_t i = 0; i < text->n_sources; i++)
        hash = hash_source(hash, text, &text->sources[i]);
    return hash;
}
