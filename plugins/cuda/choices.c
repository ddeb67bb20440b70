/* SPDX-License-Identifier: Apache-2.0 */
/* The file of choices: what it was made on, a line for each product, a checksum of all. */
#include "choices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/files.h>
#include <weft/random.h>
#include <weft/store.h>

enum { MOST_CHOICES = 4096, FIELDS = 14, WORDS = 8 };
_Static_assert(sizeof(((cublasLtMatmulAlgo_t *)0)->data) == WORDS * sizeof(uint64_t),
               "an algorithm is eight words");

static const char title[] = "algorithms of weft's matrix products, sums in f32, " WEFT_VERSION "\n";

char *cuda_machine(const cuda *c)
{
    char name[128] = "a GPU";
    c->driver.cuDeviceGetName(name, sizeof name, c->number);
    name[strcspn(name, "\n")] = '\0';
    return weft_format("%s, cuBLASLt %zu, operands at %d bytes, workspace %d", name,
                       c->products->blas.cublasLtGetVersion(), CUDA_PRODUCT_ALIGNMENT,
                       CUDA_PRODUCT_WORKSPACE);
}

char *cuda_choices_path(const char *cache_dir, const char *machine)
{
    return cache_dir ? weft_format("%s/cuda-products-%016" PRIx64 ".txt", cache_dir,
                                   weft_hash_name(machine))
                     : NULL;
}

/* ---- written ---- */

static void print(const cuda_choice *c, weft_text *text)
{
    const cuda_product *p = &c->product;
    weft_text_print(text,
                    "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId32 " %" PRId32 " %" PRId32
                    " %" PRId32 " %" PRId32 " %" PRId32 " %" PRId32 " %" PRId32 " %" PRId32
                    " %" PRId32 " %" PRId64,
                    p->m, p->n, p->k, p->turn_a, p->turn_b, p->accumulate, p->a, p->b, p->c,
                    p->scaling, p->apart, p->alignment, p->fast, p->each);
    for (int i = 0; i < WORDS; i++)
        weft_text_print(text, " %016" PRIx64, (uint64_t)c->algorithm.data[i]);
    weft_text_add(text, "\n");
}

void cuda_choices_write(const char *cache_dir, const char *path, const char *machine,
                        const cuda_choice *list, int n, const weft_log *log)
{
    weft_text text = {0};
    weft_error err = {0};
    weft_text_print(&text, "%s%s\n", title, machine);
    for (int i = 0; i < n; i++)
        print(&list[i], &text);
    weft_text_print(&text, "%016" PRIx64 "\n", text.data ? weft_sum(text.data, text.size) : 0);
    weft_status s = text.out_of_memory ? weft_fail_memory(&err) : weft_make_dirs(cache_dir, &err);
    s = s ? s : weft_write_file(path, text.data, text.size, &err);
    if (s)
        weft_log_print(log, WEFT_LOG_WARN,
                       "cuda: which algorithms were fastest cannot be kept, and the next run will "
                       "find out again: %s",
                       weft_error_text(&err));
    weft_error_release(&err);
    weft_text_release(&text);
}

/* ---- read ---- */

/* A number and the blank before it, which the first one has not. */
static bool take(const char **at, int base, uint64_t most, uint64_t *out)
{
    char *end = NULL;
    const char *from = *at + (**at == ' ');
    if (!strchr("0123456789abcdef", *from) || !*from)
        return false;
    errno = 0;
    *out = strtoull(from, &end, base);
    *at = end;
    return errno == 0 && *out <= most;
}

static bool parse(const char *line, const char *end, cuda_choice *out)
{
    uint64_t f[FIELDS], word;
    for (int i = 0; i < FIELDS; i++)
        if (!take(&line, 10, i < 3 || i > 10 ? INT32_MAX : 255, &f[i]))
            return false;
    *out = (cuda_choice){.known = CUDA_KEPT,
                         .product = {.m = (int64_t)f[0],
                                     .n = (int64_t)f[1],
                                     .k = (int64_t)f[2],
                                     .turn_a = (int32_t)f[3],
                                     .turn_b = (int32_t)f[4],
                                     .accumulate = (int32_t)f[5],
                                     .a = (int32_t)f[6],
                                     .b = (int32_t)f[7],
                                     .c = (int32_t)f[8],
                                     .scaling = (int32_t)f[9],
                                     .apart = (int32_t)f[10],
                                     .alignment = (int32_t)f[11],
                                     .fast = (int32_t)f[12],
                                     .each = (int64_t)f[13]}};
    for (int i = 0; i < WORDS; i++) {
        if (!take(&line, 16, UINT64_MAX, &word))
            return false;
        out->algorithm.data[i] = word;
    }
    return line == end;
}

/* Where lines begin, if the file is whole and of this machine; NULL: why it is not is in *why. */
static const char *body_of(const char *text, size_t size, const char *machine, const char **end,
                           const char **why)
{
    enum { SUM = 17 };
    size_t n = strlen(title), m = strlen(machine);
    char sum[SUM + 1] = "";
    *why = "is not a whole file of this version of weft";
    if (size < SUM || strlen(text) != size)
        return NULL;
    *end = text + size - SUM;
    snprintf(sum, sizeof sum, "%016" PRIx64 "\n", weft_sum(text, size - SUM));
    if (strcmp(sum, *end) != 0 || size < n + m + 1 + SUM || strncmp(text, title, n) != 0)
        return NULL;
    *why = "is of another GPU or library";
    return strncmp(text + n, machine, m) == 0 && text[n + m] == '\n' ? text + n + m + 1 : NULL;
}

weft_status cuda_choices_read(const char *path, const char *machine, const weft_log *log,
                              cuda_choice **list, int *n, weft_error *err)
{
    char *text = NULL;
    size_t size = 0;
    const char *end = NULL, *why = NULL;
    *n = 0;
    *list = NULL;
    if (weft_read_file(path, &text, &size, NULL) != WEFT_OK) /* most often: there is none */
        return WEFT_OK;
    *list = weft_alloc_zero(MOST_CHOICES, sizeof **list);
    if (!*list) {
        weft_free(text);
        return weft_fail_memory(err);
    }
    for (const char *at = body_of(text, size, machine, &end, &why), *next; at && at < end;
         at = next) {
        next = strchr(at, '\n') + 1; /* there is one before the sum */
        why = NULL;
        if (*n < MOST_CHOICES && parse(at, next - 1, &(*list)[*n])) {
            ++*n;
            continue;
        }
        *n = 0;
        why = "has a line that weft has not written";
        break;
    }
    if (*n == 0 && why)
        weft_log_print(log, WEFT_LOG_WARN, "cuda: %s %s; products are timed again", path, why);
    weft_free(text);
    return WEFT_OK;
}
