/* SPDX-License-Identifier: Apache-2.0 */
/* How fast one thread encodes: tokenize TOKENIZER TEXT [BYTES-PER-DOCUMENT]. Encodes the text in
 * documents for every line on standard input, and answers each with the seconds of processor time
 * it took and the number of ids. bench/tokenize_peers.py asks it in turn with other tokenizers. */
#include "tokenizer/tokenizer.h"

#include <weft/files.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench {
    tokenizer *t;
    tokenizer_scratch *scratch;
    char *text;
    size_t n, each;
    int32_t *ids;
    size_t n_ids, capacity;
} bench;

/* Documents end between characters. */
static size_t document_end(const bench *b, size_t from)
{
    size_t end = b->n - from > b->each ? from + b->each : b->n;
    while (end < b->n && ((unsigned char)b->text[end] & 0xC0) == 0x80)
        end++;
    return end;
}

static weft_status pass(bench *b, weft_error *err)
{
    double start = now();
    size_t total = 0;
    weft_status status = tokenizer_scratch_create(
        b->t, &b->scratch, err); /* each time: words remembered from the pass before would help */
    for (size_t at = 0, end; !status && at < b->n; at = end) {
        end = document_end(b, at);
        b->n_ids = 0;
        status = tokenizer_encode(b->t, b->scratch, b->text + at, end - at, 0, &b->ids, &b->n_ids,
                                  &b->capacity, err);
        total += b->n_ids;
    }
    tokenizer_scratch_destroy(b->scratch);
    b->scratch = NULL;
    printf("%.9f %zu\n", now() - start, total);
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    weft_error err = {0};
    bench b = {.each = argc > 3 ? (size_t)strtoul(argv[3], NULL, 10) : 4096};
    if (argc < 3 || !b.each) {
        fprintf(stderr, "usage: tokenize TOKENIZER TEXT [BYTES-PER-DOCUMENT]\n");
        return 2;
    }
    weft_status status = tokenizer_load(argv[1], &b.t, &err);
    if (!status)
        status = weft_read_file(argv[2], &b.text, &b.n, &err);
    while (!status && getchar() != EOF)
        status = pass(&b, &err);
    if (status)
        fprintf(stderr, "%s\n", weft_error_text(&err));
    weft_free(b.ids);
    weft_free(b.text);
    tokenizer_destroy(b.t);
    weft_error_release(&err);
    return status ? 1 : 0;
}
