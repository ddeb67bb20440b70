/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens are the same however many threads make them; many processes that start together and are
 * killed at any moment leave a whole token file; how far it is is said. */
#include "text_run.h"

#include <dirent.h>
#include <glob.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

/* Opens with this many threads. */
static weft_status open_with(run *r, const char *ini, int threads)
{
    weft_status status = run_create(r, ini);
    r->host.threads = threads;
    return status ? status : text_LTX_plugin.open(r->text, &r->err);
}

static uint64_t hash_tokens(const run *r)
{
    const text_cache *cache = &r->text->sources[0].cache;
    uint64_t hash = weft_hash_bytes(weft_hash_name("tokens"), cache->tokens,
                                    (size_t)cache->n_tokens * cache->width);
    hash = weft_hash_bytes(hash, cache->offsets, (size_t)(cache->n_documents + 1) * 8);
    return hash + (uint64_t)cache->n_skipped;
}

/* What was said of skipped documents, without how far and how fast it went; the caller frees it. */
static char *skips_said(const run *r)
{
    weft_text said = {0};
    for (const char *line = weft_text_get(&r->lines), *end; (end = strchr(line, '\n'));
         line = end + 1)
        if (memmem(line, (size_t)(end - line), "skipped", strlen("skipped")))
            weft_text_add_bytes(&said, line, (size_t)(end + 1 - line));
    char *copy = strdup(weft_text_get(&said));
    weft_text_release(&said);
    assert_non_null(copy);
    return copy;
}

/* Documents of all lengths, some bad, in files of every kind. */
static void put_mixed(void)
{
    FILE *f = fopen("b.jsonl", "w");
    assert_non_null(f);
    for (int i = 0; i < 30000; i++) {
        if (i % 1000 == 999)
            fprintf(f, i % 2000 == 999 ? "broken\n" : "{\"text\": 5}\n");
        else if (i == 15000) { /* longer than a job */
            fprintf(f, "{\"text\": \"");
            for (int j = 0; j < 900000; j++)
                fputc('a' + (int)((unsigned)j * (unsigned)j / 7 % 26), f);
            fprintf(f, "\"}\n");
        } else {
            fprintf(f, "{\"text\": \"%d \\u00e9 %.*s\"}\n", i, i % 50,
                    "the quick brown fox jumps over the lazy dog, twice");
        }
    }
    fprintf(f, "{\"text\": \"no end of line\"}");
    assert_int_equal(fclose(f), 0);
    put_many("a.txt", 5 << 20);
    put_many("c.txt", 3 << 20);
    put("d.txt", "short");
    f = fopen("c.txt", "r+"); /* bad in the middle of it */
    assert_non_null(f);
    assert_int_equal(fseek(f, 2 << 20, SEEK_SET), 0);
    assert_int_equal(fputs("\xFF\xFE", f) < 0, 0);
    assert_int_equal(fclose(f), 0);
}

static void is_the_same_with_any_number_of_threads(void **state)
{
    (void)state;
    put_mixed();
    const char *const ini[] = {
        "path = a.txt b.jsonl c.txt d.txt\non_bad = skip",
        "path = a.txt b.jsonl c.txt d.txt\non_bad = skip\ninvalid_utf8 = replace"};
    const int threads[] = {1, 2, 3, 8, 100};
    for (int k = 0; k < 2; k++) {
        uint64_t first = 0;
        char *log = NULL;
        for (int i = 0; i < 5; i++) {
            run r;
            char fresh[200];
            snprintf(fresh, sizeof fresh, "%s\ncache = tokens%d-%d", ini[k], k, i);
            assert_int_equal(open_with(&r, fresh, threads[i]), WEFT_OK);
            assert_true(was_tokenised(&r));
            assert_int_equal(r.text->sources[0].cache.n_skipped, k ? 30 : 31);
            assert_int_equal(r.text->sources[0].cache.n_documents, 29970 + 1 + 1 + 1 + k);
            char *skips = skips_said(&r);
            if (i == 0) {
                first = hash_tokens(&r);
                log = strdup(skips);
                assert_contains(log, "skipped");
            }
            assert_true(hash_tokens(&r) == first);
            assert_string_equal(skips, log);
            free(skips);
            run_end(&r);
        }
        free(log);
    }
    for (int i = 0; i < 5; i++) { /* the first fault of the files is the one that is reported */
        run r;
        assert_int_equal(open_with(&r, "path = a.txt b.jsonl c.txt", threads[i]), WEFT_ERR_INPUT);
        assert_int_equal(r.err.n_items, 1);
        assert_contains(weft_error_text(&r.err), "b.jsonl:1000: not JSON");
        run_end(&r);
    }
}

static void survives_failed_allocations_in_threads(void **state)
{
    (void)state;
    put_many("a.txt", 3 << 20);
    for (long n = 1, ok = 0; !ok; n += n < 60 ? 1 : 7) {
        assert_true(n < 3000);
        run r;
        assert_int_equal(run_create(&r, "path = a.txt"), WEFT_OK);
        r.host.threads = 3;
        r.host.log = NULL;
        weft_alloc_fail_at(n);
        weft_status status = text_LTX_plugin.open(r.text, &r.err);
        weft_alloc_fail_at(0);
        assert_true(!status || status == WEFT_ERR_MEMORY);
        ok = !status;
        run_end(&r);
    }
}

/* ---- processes ---- */

enum { PROCESSES = 8, LONG = 6 << 20 };

static pid_t start(uint64_t expected)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    run r;
    _exit(open_with(&r, "path = a.txt\nbos = no\neos = no", 2) || hash_tokens(&r) != expected);
}

static int count_files(const char *path)
{
    int n = 0;
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

static void survives_any_number_of_kills(void **state)
{
    (void)state;
    put_many("a.txt", LONG);
    run r;
    assert_int_equal(open_with(&r, "path = a.txt\nbos = no\neos = no\ncache = reference", 1),
                     WEFT_OK);
    uint64_t expected = hash_tokens(&r);
    run_end(&r);
    for (unsigned round = 0; round < 6; round++) {
        pid_t children[PROCESSES];
        for (int i = 0; i < PROCESSES; i++)
            children[i] = start(expected);
        for (int i = 0; i < PROCESSES - 1;
             i++) { /* all but one are killed, at moments that differ from round to round */
            struct timespec pause = {.tv_nsec = 400000L * (1 + (round * 7 + (unsigned)i * 3) % 11)};
            nanosleep(&pause, NULL);
            kill(children[i], SIGKILL);
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true((WIFSIGNALED(status) && i < PROCESSES - 1) ||
                        status == 0); /* who lives has the right tokens */
        }
        assert_int_equal(count_files("cache/tokens"), 1);
        assert_int_equal(nftw("cache", remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    }
}

/* ---- progress ---- */

static void says_how_far_it_is(void **state)
{
    (void)state;
    for (int terminal = 0; terminal < 2; terminal++) {
        run r;
        assert_int_equal(run_create(&r, "path = x"), WEFT_OK);
        r.host.terminal = terminal;
        text_progress p;
        text_progress_start(&p, &r.host, 100000000);
        text_progress_update(&p, 1000000);
        assert_int_equal(r.lines.size, 0); /* not at once */
        p.start -= 20;
        p.shown -= 20;
        text_progress_update(&p, 25000000);
        assert_contains(weft_text_get(&r.lines),
                        terminal ? "\rtext: tokenising 25.0 of 100.0 MB (25 %), 1."
                                 : "text: tokenising 25.0 of 100.0 MB (25 %), 1.");
        assert_contains(weft_text_get(&r.lines), " MB/s, 0:01:0");
        assert_int_equal(weft_text_get(&r.lines)[0] == '\r', terminal);
        size_t n = r.lines.size;
        text_progress_update(&p, 26000000); /* not all the time */
        assert_int_equal(r.lines.size, n);
        assert_true(text_progress_end(&p) >= 20);
        assert_int_equal(r.lines.size, n + (size_t)terminal * 2); /* "\r" takes the line away */
        run_end(&r);
    }
}

/* Another maker that had the lock on the part: when the log says that the plugin waits for it, what
 * it makes gets its name. */
typedef struct maker {
    char name[300], done[300];
    int lock, begun;
    bool renamed;
} maker;

static void finish_making(void *self, weft_log_level level, const char *line)
{
    maker *m = self;
    (void)level;
    m->begun += strstr(line, "tokenising") != NULL;
    if (strstr(line, "waiting"))
        m->renamed = !rename(m->done, m->name) && !close(m->lock);
}

static void takes_what_another_made_meanwhile(void **state)
{
    const char *ini = "path = a.txt\nbos = no\neos = no";
    char part[320];
    glob_t found;
    maker m = {.lock = -1};
    run r;
    (void)state;
    put("a.txt", "hello");
    run_start(&r, ini);
    run_end(&r);
    assert_int_equal(glob("cache/tokens/*.tokens", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(m.name, sizeof m.name, "%s", found.gl_pathv[0]);
    snprintf(m.done, sizeof m.done, "%s", "done");
    globfree(&found);
    assert_int_equal(rename(m.name, m.done), 0);
    snprintf(part, sizeof part, "%s.part", m.name);
    m.lock = open(part, O_RDWR | O_CREAT, 0666);
    assert_true(m.lock >= 0 && flock(m.lock, LOCK_EX) == 0);
    assert_int_equal(run_create(&r, ini), WEFT_OK);
    r.log = (weft_log){.write = finish_making, .self = &m};
    assert_int_equal(text_LTX_plugin.open(r.text, &r.err), WEFT_OK);
    assert_true(m.renamed);
    assert_int_equal(m.begun, 0);
    assert_text(&r, "hello", 5);
    run_end(&r);
    assert_int_not_equal(access(part, F_OK), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_enter_memory, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(is_the_same_with_any_number_of_threads), TEST(survives_failed_allocations_in_threads),
        TEST(survives_any_number_of_kills),           TEST(says_how_far_it_is),
        TEST(takes_what_another_made_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
