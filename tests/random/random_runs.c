/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs at random: model, precision, data, meshes, the order in which plugins are listed,
 * pipelines, 8 bits, validation, text, dumps, checkpoints, checks. One rank is the reference: many
 * must give its losses, gradients, norms, validation, texts and dumps, and so must others that go
 * on from a checkpoint. Nothing is refused but a mesh that does not fit its model. Cases are those
 * of seeds: WEFT_SEED is the first, WEFT_CASES how many; WEFT_LONG=1: a thousand, each day others.
 * WEFT_HAVING="zbv zb_h1": those alone whose INI has one of these words.
 * A case that fails is reduced, and its INIs printed. Prints TAP. */
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FEW = 5, MANY = 1000, FIRST = 5091, MOST_SKIPPED = 100000 };

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);
    return value && *value ? strtoull(value, NULL, 10) : otherwise;
}

/* Of a plain file one document, of JSON lines many, short ones and some that are longer than any
 * sample. */
static bool write_texts(void)
{
    FILE *text = fopen("text.txt", "w"), *documents = fopen("documents.jsonl", "w");
    for (int i = 0; text && i < 20; i++)
        fprintf(text, "Sentence %d of a text: the quick brown fox number %d jumps.\n", i,
                i * 7919 % 1000);
    for (int i = 0; documents && i < 90; i++)
        fprintf(documents, "{\"text\": \"%.*s %d\"}\n", i * 7 % 36,
                "the quick brown fox jumps over a dog", i * i);
    bool written = text && documents;
    if (text)
        fclose(text);
    if (documents)
        fclose(documents);
    return written;
}

/* A tensor of numbers between -1 and 1, and where the next begins. */
static int describe(char *out, size_t room, const char *name, const char *shape, long count,
                    long *at)
{
    const int n =
        snprintf(out, room, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%ld,%ld]}",
                 name, shape, *at, *at + 4 * count);
    *at += 4 * count;
    return n;
}

/* Latents and embeddings of `samples` pictures with as many tokens as places; 0: the empty text's
 * embeddings alone. */
static bool write_pictures(int samples, int size)
{
    char path[64], shape[64], head[1024];
    const int rows = size == 4 ? 4 : 8, columns = size == 4 ? 4 : 6, n = samples ? samples : 1;
    long at = 0;
    size_t used = 0;
    snprintf(path, sizeof path, "%s-%d.safetensors", samples ? "pictures" : "empty", size);
    if (samples) {
        snprintf(shape, sizeof shape, "%d,2,%d,%d", n, rows, columns);
        used += (size_t)describe(head, sizeof head, "latents", shape, 2L * n * rows * columns, &at);
    }
    snprintf(shape, sizeof shape, "%d,%d,5", n, size);
    used += (size_t)describe(head + used, sizeof head - used, "t5", shape, 5L * n * size, &at);
    snprintf(shape, sizeof shape, "%d,3", n);
    used += (size_t)describe(head + used, sizeof head - used, "clip", shape, 3L * n, &at);
    head[0] = '{';
    head[used++] = '}';
    FILE *file = fopen(path, "wb");
    const uint64_t length = used;
    bool good = file && fwrite(&length, 8, 1, file) == 1 && fwrite(head, 1, used, file) == used;
    uint32_t state = (uint32_t)size + (samples ? 0 : 7);
    for (long i = 0; i < at / 4 && good; i++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(state >> 8) / 8388608.0f - 1;
        good = fwrite(&x, 4, 1, file) == 1;
    }
    return file && fclose(file) == 0 && good;
}

static void comment(const char *text)
{
    while (*text) {
        int n = (int)strcspn(text, "\n");
        printf("# %.*s\n", n, text);
        text += n + (text[n] == '\n');
    }
}

static void print_ini(const random_case *c, unsigned run, const char *name)
{
    weft_text text = {0};
    random_print(c, run, false, &text);
    printf("# %s:\n", name);
    comment(weft_text_get(&text));
    weft_text_release(&text);
}

static void explain(const random_case *drawn, random_verdict *v)
{
    random_case c = *drawn;
    weft_text command = {0};
    comment(v->text);
    random_reduce(&c, v);
    printf("# reduced:\n");
    comment(v->text);
    print_ini(&c, RANDOM_ONE, "one.ini");
    print_ini(&c, RANDOM_MANY, "many.ini");
    if (v->fault >= RANDOM_RESUMES)
        print_ini(&c, RANDOM_OTHER, "other.ini");
    random_command(&c, v->fault, &command);
    comment(weft_text_get(&command));
    printf("# the case: WEFT_SEED=%llu WEFT_CASES=1 make check TESTS=tests/random/random_runs\n",
           (unsigned long long)c.seed);
    weft_text_release(&command);
}

/* false: it failed. */
static bool try(uint64_t seed, int number, int *refused)
{
    random_case c;
    random_verdict v;
    weft_text what = {0};
    random_draw(seed, &c);
    random_describe(&c, &what);
    random_judge(&c, &v);
    bool fine = v.fault <= RANDOM_REFUSED;
    *refused += v.fault == RANDOM_REFUSED;
    printf("%sok %d - %s", fine ? "" : "not ", number, weft_text_get(&what));
    if (v.fault == RANDOM_REFUSED)
        printf(" (refused: %.*s)", (int)strcspn(v.text, "\n#"), v.text);
    printf("\n");
    if (!fine)
        explain(&c, &v);
    fflush(stdout);
    weft_text_release(&what);
    return fine;
}

static bool has_one_of(const char *text, const char *words)
{
    for (const char *w = words + strspn(words, " "); *w; w += strspn(w, " ")) {
        char word[RANDOM_VALUE];
        int n = (int)strcspn(w, " ");
        snprintf(word, sizeof word, "%.*s", n, w);
        if (strstr(text, word))
            return true;
        w += n;
    }
    return false;
}

static bool is_wanted(uint64_t seed)
{
    const char *words = getenv("WEFT_HAVING");
    random_case c;
    weft_text ini = {0};
    if (!words || !*words)
        return true;
    random_draw(seed, &c);
    random_print(&c, RANDOM_MANY, false, &ini);
    bool wanted = has_one_of(weft_text_get(&ini), words);
    weft_text_release(&ini);
    return wanted;
}

static int run_all(uint64_t first, int cases)
{
    int bad = 0, refused = 0;
    printf("# WEFT_SEED=%llu WEFT_CASES=%d\n", (unsigned long long)first, cases);
    for (int i = 0; i < cases; i++, first++) {
        for (int skipped = 0; skipped < MOST_SKIPPED && !is_wanted(first); skipped++)
            first++;
        bad += !try(first, i + 1, &refused);
    }
    bool most = cases < 10 || 5 * refused <= cases;
    printf("%sok %d - no more than a fifth was refused: %d of %d\n", most ? "" : "not ", cases + 1,
           refused, cases);
    printf("1..%d\n", cases + 1);
    return bad || !most;
}

/* The plugins of tests are found as others are. */
static bool find_plugins(void)
{
    const char *fixtures = getenv("WEFT_TEST_FIXTURES"),
               *last = fixtures ? strrchr(fixtures, '/') : NULL;
    char *path = last ? weft_format("%.*s/run", (int)(last - fixtures), fixtures) : NULL;
    bool found = path && setenv("WEFT_PLUGIN_PATH", path, 1) == 0;
    weft_free(path);
    return found;
}

int main(void)
{
    const char *longer = getenv("WEFT_LONG"), *temporary = getenv("TMPDIR");
    bool all = longer && strcmp(longer, "1") == 0;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/weft-random-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) || setenv("HOME", folder, 1) ||
        setenv("LC_ALL", "C", 1) || setenv("NO_COLOR", "1", 1) || !find_plugins() ||
        chdir(folder) || !write_texts() || !write_pictures(40, 4) || !write_pictures(0, 4) ||
        !write_pictures(40, 12) || !write_pictures(0, 12)) {
        printf("Bail out! The folder %s cannot be made, or WEFT_TEST_FIXTURES names none.\n",
               folder);
        return 99;
    }
    uint64_t day = (uint64_t)time(NULL) / 86400;
    int code = run_all(from_environment("WEFT_SEED", all ? day * MANY : FIRST),
                       (int)from_environment("WEFT_CASES", all ? MANY : FEW));
    if (chdir("/") == 0 && !getenv("WEFT_KEEP"))
        random_remove(folder);
    return code;
}
