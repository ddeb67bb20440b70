/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever bytes a tokenizer file holds, it is refused with its name or works: ids are in the
 * vocabulary, the same for parts as for the whole, and text comes back as UTF-8. The corpus is
 * replayed, each file as it is and with random changes: fuzz_tokenizer [changes a file [seed
 * [folder]]]. A file's first byte is 'j' for a tokenizer.json or 'r' for a rank file; behind a NUL
 * follows a text to encode.
 *
 * With -DWEFT_LIBFUZZER it is a target for libFuzzer. */
#include "../tokenizer/engine.h"
#include "../tokenizer/tiktoken.h"
#include "../tokenizer/utf8.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 15, MAX_TEXT = 400 };

typedef struct list {
    int32_t *ids;
    size_t n, capacity;
} list;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static weft_status add(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                       unsigned flags, list *out)
{
    weft_error err = {0};
    weft_status status =
        tokenizer_encode(t, s, text, n, flags, &out->ids, &out->n, &out->capacity, &err);
    check(!status || (status == WEFT_ERR_INPUT && *weft_error_text(&err)));
    weft_error_release(&err);
    return status;
}

static bool same(const list *a, const list *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->ids, b->ids, a->n * sizeof *a->ids));
}

static void compare(tokenizer *t, tokenizer_scratch *s, const char *text, size_t n, unsigned flags,
                    const list *whole)
{
    list parts = {0};
    for (size_t at, end = n; (at = tokenizer_cut(t, text, end, 0)) < end; end = at + 1) {
        parts.n = 0;
        check(!add(t, s, text, at, flags, &parts) &&
              !add(t, s, text + at, n - at, flags | TOKENIZER_CONTINUES, &parts) &&
              same(&parts, whole));
    }
    bool apart = t->parts;
    parts.n = 0;
    t->parts = false;
    check(!add(t, s, text, n, flags, &parts) && same(&parts, whole));
    t->parts = apart;
    weft_free(parts.ids);
}

static void check_back(const tokenizer *t, const list *ids)
{
    weft_text out = {0};
    weft_error err = {0};
    weft_status status = tokenizer_decode(t, ids->ids, ids->n, &out, &err);
    check(!status || (status == WEFT_ERR_INPUT && *weft_error_text(&err)));
    check(text_utf8_valid(weft_text_get(&out), out.size) == out.size);
    weft_text_release(&out);
    weft_error_release(&err);
}

static void use(tokenizer *t, const char *text, size_t n)
{
    tokenizer_scratch *s;
    weft_error err = {0};
    check(!tokenizer_scratch_create(t, &s, &err));
    for (unsigned flags = 0; flags < 2; flags++) {
        list whole = {0};
        weft_status status = add(t, s, text, n, flags, &whole);
        for (size_t i = 0; i < whole.n; i++)
            check(whole.ids[i] >= 0 && whole.ids[i] < tokenizer_vocab_size(t));
        if (!status)
            compare(t, s, text, n, flags, &whole);
        check_back(t, &whole);
        weft_free(whole.ids);
    }
    tokenizer_scratch_destroy(s);
}

static weft_status load(char kind, const char *data, size_t n, tokenizer **t, weft_error *err)
{
    static const char *const special[] = {"<|x|>", NULL};
    static char path[64];
    if (kind == 'j')
        return tokenizer_parse("x.json", data, n, t, err);
    snprintf(path, sizeof path, "/dev/shm/weft-ranks-%ld", (long)getpid());
    FILE *f = fopen(path, "wb");
    check(f && fwrite(data, 1, n, f) == n && !fclose(f));
    weft_status status = tokenizer_load_ranks(path, "llama3", special, t, err);
    unlink(path);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2 || n > MAX_BYTES || (data[0] != 'j' && data[0] != 'r'))
        return 0;
    const char *file = (const char *)data + 1, *nul = memchr(file, 0, n - 1),
               *text = nul ? nul + 1 : file;
    size_t n_file = nul ? (size_t)(nul - file) : n - 1, n_text = nul ? n - n_file - 2 : n - 1;
    weft_text repaired = {0};
    text_utf8_repair(text, n_text < MAX_TEXT ? n_text : MAX_TEXT, &repaired);
    check(text_utf8_valid(weft_text_get(&repaired), repaired.size) == repaired.size);
    tokenizer *t = NULL;
    weft_error err = {0};
    weft_status status = load((char)data[0], file, n_file, &t, &err);
    check(status ? !t && status == WEFT_ERR_INPUT && *weft_error_text(&err) : t && !err.n_items);
    if (t)
        use(t, weft_text_get(&repaired), repaired.size);
    tokenizer_destroy(t);
    weft_text_release(&repaired);
    weft_error_release(&err);
    return 0;
}

#ifndef WEFT_LIBFUZZER

static uint64_t state_of_noise;

static uint32_t noise(uint32_t n)
{
    return (uint32_t)(weft_random_bits(1, 3, state_of_noise++) % n);
}

/* Edits of single bytes, and pieces of the file in another place: most of the first kind end its
 * being JSON. */
static size_t change(uint8_t *data, size_t n, size_t room)
{
    for (uint32_t edits = 1 + noise(3); edits > 0 && n > 2; edits--) {
        size_t at = 1 + noise((uint32_t)n - 1), from = 1 + noise((uint32_t)n - 1),
               length = 1 + noise(12);
        length = at + length > n ? n - at : length;
        length = from + length > n ? n - from : length;
        switch (noise(4)) {
        case 0:
            data[at] = (uint8_t)noise(256);
            break;
        case 1:
            data[at] = data[from];
            break;
        case 2:
            memmove(data + at, data + at + length, n - at - length);
            n -= length;
            break;
        default:
            if (n + length > room)
                break;
            memmove(data + at + length, data + at, n - at);
            memmove(data + at,
                    data + (from < at           ? from
                            : from + length > n ? n - length
                                                : from),
                    length);
            n += length;
        }
    }
    return n;
}

static int replay(const char *path, unsigned changes)
{
    static uint8_t original[MAX_BYTES], data[MAX_BYTES];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(original, 1, MAX_BYTES / 2, f) : 0;
    if (!f || fclose(f)) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    LLVMFuzzerTestOneInput(original, n);
    for (unsigned i = 0; i < changes; i++) {
        memcpy(data, original, n);
        LLVMFuzzerTestOneInput(data, change(data, n, MAX_BYTES));
    }
    return 0;
}

/* Without arguments: the corpus, each file with some changes, as TAP. */
int main(int argc, char **argv)
{
    const char *tree = getenv("WEFT_TREE");
    char folder[5000];
    snprintf(folder, sizeof folder, "%s/plugins/text/test/corpus_tokenizer", tree ? tree : ".");
    if (argc > 3)
        snprintf(folder, sizeof folder, "%s", argv[3]);
    unsigned changes = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    state_of_noise = argc > 2 ? strtoull(argv[2], NULL, 10) << 40 : 0;
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort), bad = 0, number = 0;
    if (n < 0) {
        fprintf(stderr, "no corpus in %s\n", folder);
        return 1;
    }
    const char *seconds = getenv("WEFT_FUZZ_SECONDS"); /* then as often as fits into them */
    double end = weft_now() + (seconds ? strtod(seconds, NULL) : 0);
    for (bool again = false; !again || weft_now() < end; again = true)
        for (int i = 0; i < n; i++) {
            char path[6000];
            snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
            if (names[i]->d_name[0] != '.') {
                int rc = replay(path, changes);
                bad |= rc;
                if (!again)
                    printf("%s %d - %s\n", rc ? "not ok" : "ok", ++number, names[i]->d_name);
            }
        }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    printf("1..%d\n", number);
    return bad || number < 10;
}
#endif
