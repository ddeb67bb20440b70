/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/random.h>

enum { MOST = 1 << 14, SEED = 20 };

static char program[32];
static uint64_t now; /* the round */
static uint64_t drawn;
static char folder[32];

static void __attribute__((noinline)) tell_round(void)
{
    char line[96];
    int n = snprintf(line, sizeof line, "# %s crashed in round %llu\n", program,
                     (unsigned long long)now);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
}

static void crashed(int number)
{
    tell_round();
    signal(number, SIG_DFL);
    raise(number);
}

#if defined __SANITIZE_ADDRESS__
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

static void watch(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], crashed);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(tell_round);
#endif
}

static size_t below(size_t n)
{
    return (size_t)(weft_random_bits(SEED, now, drawn++) % n);
}

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

static size_t insert(char *data, size_t n, size_t at, const char *what, size_t length)
{
    if (n + length > MOST)
        return n;
    memmove(data + at + length, data + at, n - at);
    memcpy(data + at, what, length);
    return n + length;
}

/* One random edit. */
static size_t edit(const fuzz_target *t, char *data, size_t n)
{
    size_t at = below(n + 1), length = 1 + below(12), n_words = count(t->words);
    char copy[12];
    length = at + length > n ? n - at : length;
    switch (below(7)) {
    case 0:
        if (at < n)
            data[at] = (char)below(256);
        return n;
    case 1:
        if (at < n)
            data[at] = (char)(data[at] ^ 1 << below(8));
        return n;
    case 2: /* takes some out */
        memmove(data + at, data + at + length, n - at - length);
        return n - length;
    case 3: /* says some twice, here or elsewhere */
        memcpy(copy, data + at, length);
        return insert(data, n, below(n + 1), copy, length);
    case 4:
    case 5: {
        const char *word = n_words ? t->words[below(n_words)] : "9223372036854775807";
        return insert(data, n, at, word, strlen(word));
    }
    default:
        return below(6) ? n : at;
    }
}

static void run_round(const fuzz_target *t, bool keep)
{
    static char data[MOST + 1];
    drawn = 0;
    const char *seed = t->seeds[now % count(t->seeds)];
    size_t n = strlen(seed) < MOST ? strlen(seed) : MOST;
    memcpy(data, seed, n);
    if (now >= count(t->seeds)) /* each as it is, first */
        for (size_t edits = 1 + below(6); edits > 0; edits--)
            n = edit(t, data, n);
    char *exact = weft_alloc(n + 1); /* so that reading behind the end is noticed */
    if (!exact)
        abort();
    memcpy(exact, data, n);
    exact[n] = '\0';
    if (keep) {
        char name[48];
        snprintf(name, sizeof name, "%s.input", program);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(exact, 1, n, f) != n || fclose(f) != 0)
            abort();
    }
    alarm(10); /* a parser that hangs has failed, too */
    weft_status s = t->parse(exact, n);
    alarm(0);
    if (now == 0 && s) { /* what is refused at once tests nothing */
        fprintf(stderr, "%s: the first seed is refused\n", program);
        abort();
    }
    weft_free(exact);
}

void fuzz_check(weft_status status, const weft_error *err)
{
    if ((status != WEFT_OK) != (weft_error_status(err) != WEFT_OK) || status == WEFT_ERR_INTERNAL ||
        (status && !*weft_error_text(err)))
        abort();
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void)
{
    if (*folder)
        return folder;
    snprintf(folder, sizeof folder, "/dev/shm/weft-fuzz-XXXXXX");
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "/tmp/weft-fuzz-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    atexit(remove_folder);
    return folder;
}

int fuzz_main(const fuzz_target *t, int argc, char **argv)
{
    const char *seconds = getenv("WEFT_FUZZ_SECONDS");
    snprintf(program, sizeof program, "%s", t->name);
    watch();
    if (argc > 1) {
        now = strtoull(argv[1], NULL, 10);
        run_round(t, true);
        return 0;
    }
    double end = weft_now() + (seconds ? strtod(seconds, NULL) : 1);
    for (now = 0; now < 2 * count(t->seeds) || weft_now() < end; now++)
        run_round(t, false);
    printf("1..1\nok 1 - %s: %llu rounds\n", t->name, (unsigned long long)now);
    return 0;
}
