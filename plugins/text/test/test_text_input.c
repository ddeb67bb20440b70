/* SPDX-License-Identifier: Apache-2.0 */
/* What is read: files, folders, patterns, documents, JSON Lines, UTF-8 and what is wrong with them.
 */
#include "../tokenizer/utf8.h"
#include "text_run.h"

#define BARE "\nbos = no\neos = no\n" /* the stream is the text */

static void expect(const char *ini, const char *text)
{
    run r;
    run_start(&r, ini);
    assert_text(&r, text, strlen(text));
    run_end(&r);
}

/* ---- files ---- */

static void marks_documents(void **state)
{
    (void)state;
    put("a.txt", "ab");
    put("b.txt", "");
    put("c.txt", "c");
    run r;
    run_start(&r, "path = a.txt b.txt c.txt");
    assert_tokens(&r, (int32_t[]){256, 'a', 'b', 257, 256, 'c', 257},
                  7); /* an empty file is no document */
    assert_int_equal(r.text->sources[0].cache.n_documents, 2);
    assert_int_equal(r.text->sources[0].cache.offsets[0], 0);
    assert_int_equal(r.text->sources[0].cache.offsets[1], 4);
    assert_int_equal(r.text->sources[0].cache.offsets[2], 7);
    run_end(&r);
    run_start(&r, "path = c.txt a.txt\neos = no");
    assert_tokens(&r, (int32_t[]){256, 'c', 256, 'a', 'b'}, 5);
    run_end(&r);
}

static void walks_folders_in_order_of_names(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d", 0777) | mkdir("d/sub", 0777) | mkdir("d/.git", 0777), 0);
    put("d/b.txt", "B");
    put("d/a.txt", "A");
    put("d/C.txt", "C");
    put("d/sub/x.jsonl", "{\"text\": \"X\"}\n");
    put("d/.hidden.txt", "no");
    put("d/.git/y.txt", "no");
    put("d/notes.md", "no");
    put("d/.txt", "no");
    expect("path = d" BARE, "CABX");
    expect("path = d/" BARE, "CABX");
    expect("path = d/b.txt d" BARE, "BCAX"); /* once, where it came first */
    expect("path = d/sub/.. d/./a.txt" BARE, "CABX");
    expect("path = d\nformat = text" BARE, "CAB");
    expect("path = d\nformat = jsonl" BARE, "X");
    assert_int_equal(symlink("..", "d/sub/loop"), 0);
    expect("path = d" BARE, "CABX");
    assert_int_equal(symlink("../a.txt", "d/sub/again.txt"), 0);
    expect("path = d" BARE, "CABX");
}

static void expands_patterns(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d1", 0777) | mkdir("d2", 0777), 0);
    put("d1/a.md", "1");
    put("d2/a.md", "2");
    put("d2/B.md", "3");
    put("d2/a[1].md", "4");
    put("d2/z.txt", "5");
    expect("path = d?/*.md" BARE, "1324");
    expect("path = d2/a[1].md" BARE, "4"); /* a name that exists is no pattern */
    expect("path = d[2-9]" BARE, "5");
    refuse("path = d?/*.csv", "run.ini:2");
    refuse("path = d?/*.csv", "no file matches d?/*.csv");
}

static void reports_every_wrong_path(void **state)
{
    (void)state;
    assert_int_equal(
        mkdir("empty", 0777) | mkfifo("pipe", 0666) | symlink("nothing", "dangling.txt"), 0);
    run r;
    assert_int_equal(run_open(&r, "\npath = missing.txt empty pipe no*pe dangling.txt"),
                     WEFT_ERR_INPUT);
    const char *parts[] = {"missing.txt", "folder empty holds no *.txt, *.jsonl or *.bin",
                           "pipe is neither", "no file matches no*pe", "dangling.txt"};
    assert_int_equal(r.err.n_items, 5);
    for (int i = 0; i < 5; i++) {
        assert_contains(r.err.items[i].text, "run.ini:3");
        assert_contains(r.err.items[i].text, parts[i]);
    }
    run_end(&r);
    put("empty/dangling.txt", "x");
    assert_int_equal(remove("empty/dangling.txt") | symlink("nothing", "empty/dangling.txt"), 0);
    refuse("path = empty", "is a link to nothing");
}

static void refuses_empty_data(void **state)
{
    (void)state;
    put("a.txt", "");
    put("b.jsonl", "\n  \n\r\n{\"text\": \"\"}\n");
    refuse("path = a.txt b.jsonl", "no text in 2 files: all empty");
    put("c.jsonl", "bad\n");
    refuse("path = c.jsonl\non_bad = skip", "every document was skipped");
}

/* Longer than every buffer, with characters of all lengths across their ends. */
static void reads_long_files(void **state)
{
    (void)state;
    const char unit[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
    size_t n = 0, room = 3 << 20;
    char *text = malloc(room), *json = malloc(room + 100);
    assert_non_null(text);
    assert_non_null(json);
    while (n + 11 < room) {
        if (n % 7 == 0)
            text[n++] = 'z';
        memcpy(text + n, unit, 10);
        n += 10;
    }
    assert_true(n > 1 << 20);
    put_bytes("a.txt", text, n);
    run r;
    run_start(&r, "path = a.txt" BARE);
    assert_text(&r, text, n);
    run_end(&r);
    int head = snprintf(json, room, "{\"text\": \"");
    memcpy(json + head, text, n);
    memcpy(json + head + n, "\"}", 2);
    put_bytes("a.jsonl", json, (size_t)head + n + 2); /* no newline at the end */
    run_start(&r, "path = a.jsonl" BARE);
    assert_text(&r, text, n);
    assert_int_equal(r.text->sources[0].cache.n_documents, 1);
    run_end(&r);
    free(json);
    free(text);
}

/* ---- JSON Lines ---- */

static void reads_json_lines(void **state)
{
    (void)state;
    put("a.jsonl",
        "\xEF\xBB\xBF{\"id\": 123456789012345678901234567890, \"text\": \"one\\n\\u00e9\"}\r\n"
        "\n"
        "{\"text\": \"t\\u0000o\", \"more\": {\"text\": 1}}\n"
        "{\"text\": \"three\"}");
    run r;
    run_start(&r, "path = a.jsonl\nbos = no");
    assert_tokens(&r,
                  (int32_t[]){'o', 'n', 'e', '\n', 0xC3, 0xA9, 257, 't', 0, 'o', 257, 't', 'h', 'r',
                              'e', 'e', 257},
                  17);
    assert_int_equal(r.text->sources[0].cache.n_documents, 3);
    run_end(&r);
    put("b.data", "{\"body\": \"x\", \"text\": \"y\"}\n");
    expect("path = b.data\nformat = jsonl\nfield = body" BARE, "x");
    expect("path = b.data" BARE, "{\"body\": \"x\", \"text\": \"y\"}\n");
    assert_int_equal(symlink("b.data", "link.jsonl"), 0);
    expect("path = link.jsonl" BARE, "y"); /* the name that was given says what it is */
}

static void names_bad_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"{\"text\": ", "not JSON"},
        {"{\"text\": \"x\"} {}", "not JSON"},
        {"{\"text\": \"\\ud800\"}", "not JSON"},
        {"{\"a\": 1, \"b\": 2}", "no field \"text\"; the fields here are: a, b;"},
        {"{}", "the fields here are: none"},
        {"{\"text\": 3}", "field \"text\" is a number"},
        {"{\"text\": null}", "field \"text\" is null"},
        {"[\"text\"]", "the line is an array"},
        {"\"text\"", "the line is a string"},
        {"{\"text\": \"\xFF\"}", "not UTF-8 at byte 10 of the line"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen("a.jsonl", "wb");
        assert_non_null(f);
        fprintf(f, "{\"text\": \"good\"}\n\n%s\n{\"text\": \"too\"}\n", bad[i].line);
        assert_int_equal(fclose(f), 0);
        refuse("path = a.jsonl", bad[i].message);
        refuse("path = a.jsonl", "a.jsonl:3: ");
        run r;
        run_start(&r, "path = a.jsonl\non_bad = skip" BARE);
        assert_text(&r, "goodtoo", 7);
        assert_int_equal(r.text->sources[0].cache.n_skipped, 1);
        assert_contains(weft_text_get(&r.lines), "a.jsonl:3: skipped: ");
        weft_text line = {0};
        r.data->describe(r.text, &line);
        assert_contains(weft_text_get(&line), ", 1 skipped");
        weft_text_release(&line);
        run_end(&r);
    }
}

static void counts_what_it_skips(void **state)
{
    (void)state;
    FILE *f = fopen("a.jsonl", "wb");
    assert_non_null(f);
    for (int i = 0; i < 2000; i++)
        fprintf(f, i % 2 ? "{\"text\": \"%d;\"}\n" : "{\"text\": %d}\n", i);
    assert_int_equal(fclose(f), 0);
    run r;
    run_start(&r, "path = a.jsonl\non_bad = skip");
    assert_int_equal(r.text->sources[0].cache.n_skipped, 1000);
    assert_int_equal(r.text->sources[0].cache.n_documents, 1000);
    int logged = 0;
    for (const char *at = weft_text_get(&r.lines); (at = strstr(at, ": skipped: ")); at++)
        logged++;
    assert_int_equal(logged, 1);
    assert_contains(weft_text_get(&r.lines), "a.jsonl:1: skipped: ");
    assert_contains(weft_text_get(&r.lines), "a.jsonl: 999 more documents are skipped");
    run_end(&r);
}

/* A folder of files that are not UTF-8 must not fill the screen. */
static void groups_what_it_skips_by_file(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "%02d.txt", i);
        put(name, i == 7 ? "good" : "bad \xFF");
    }
    run r;
    run_start(&r, "path = .\non_bad = skip");
    assert_int_equal(r.text->sources[0].cache.n_skipped, 29);
    int logged = 0;
    for (const char *at = weft_text_get(&r.lines); (at = strstr(at, ": skipped: not UTF-8")); at++)
        logged++;
    assert_int_equal(logged, 20);
    assert_contains(weft_text_get(&r.lines), "documents of 9 more files are skipped");
    run_end(&r);
}

/* ---- UTF-8 ---- */

static void judges_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "a",
                                       "\x7F",
                                       "\xC2\x80",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(text_utf8_valid(good[i], strlen(good[i])), strlen(good[i]));
    static const struct {
        const char *s,
            *repaired; /* U+FFFD for each maximal part, as Unicode recommends; R stands for it */
    } bad[] = {
        {"\x80", "R"},
        {"\xBF\xBF", "RR"},
        {"\xC0\x80", "RR"},
        {"\xC1\xBF", "RR"},
        {"\xE0\x80\x80", "RRR"},
        {"\xED\xA0\x80", "RRR"},
        {"\xF4\x90\x80\x80", "RRRR"},
        {"\xF5", "R"},
        {"\xC3", "R"},
        {"\xC3g", "Rg"},
        {"\xE2\x82", "R"},
        {"\xE2\x82g", "Rg"},
        {"\xF0\x9F\x98", "R"},
        {"\xF0\x9F\x98\xC3\xA9", "R\xC3\xA9"},
        {"ab\xFFtext text text", "abRtext text text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_text want = {0}, have = {0};
        for (const char *c = bad[i].repaired; *c; c++)
            weft_text_add_bytes(&want, *c == 'R' ? TEXT_UTF8_REPLACEMENT : c, *c == 'R' ? 3 : 1);
        assert_true(text_utf8_valid(bad[i].s, strlen(bad[i].s)) < strlen(bad[i].s));
        text_utf8_repair(bad[i].s, strlen(bad[i].s), &have);
        assert_string_equal(weft_text_get(&have), weft_text_get(&want));
        put("a.txt", bad[i].s);
        put("b.txt", ".");
        weft_text_add(&want, ".");
        expect("path = a.txt b.txt\ninvalid_utf8 = replace" BARE, weft_text_get(&want));
        weft_text_release(&want);
        weft_text_release(&have);
    }
    assert_int_equal(text_utf8_bad("\xE2\x82", 2, false), 0); /* may go on */
    assert_int_equal(text_utf8_bad("\xE2", 1, false), 0);
    assert_int_equal(text_utf8_bad("\xE2g", 2, false), 1);
}

static void refuses_or_replaces_what_is_not_utf8(void **state)
{
    (void)state;
    size_t n = 300000; /* the bad byte lies behind the first buffer */
    char *data = malloc(n);
    assert_non_null(data);
    memset(data, 'x', n);
    data[299990] = '\xE9';
    put_bytes("a.txt", data, n);
    put("b.txt", "good");
    refuse("path = b.txt a.txt", "a.txt: not UTF-8 at byte 299990");
    refuse("path = b.txt a.txt", "invalid_utf8 = replace");
    run r;
    run_start(&r, "path = b.txt a.txt b.txt\non_bad = skip" BARE);
    assert_text(&r, "good", 4);
    assert_int_equal(r.text->sources[0].cache.n_skipped, 1);
    assert_int_equal(r.text->sources[0].cache.n_documents, 1);
    run_end(&r);
    run_start(&r, "path = a.txt\ninvalid_utf8 = replace" BARE);
    assert_int_equal(r.text->sources[0].cache.n_tokens, n + 2);
    assert_int_equal(text_cache_token(&r.text->sources[0].cache, 299990), 0xEF);
    assert_int_equal(text_cache_token(&r.text->sources[0].cache, 299993), 'x');
    run_end(&r);
    put("c.jsonl", "{\"text\": \"a\xE9z\"}\n");
    expect("path = c.jsonl\ninvalid_utf8 = replace" BARE, "a" TEXT_UTF8_REPLACEMENT "z");
    free(data);
}

/* A document longer than the writer's buffer is dropped after part of it was written; what follows
 * takes its place. */
static void takes_back_a_long_document(void **state)
{
    (void)state;
    size_t n = 3 << 20;
    char *data = malloc(n);
    assert_non_null(data);
    memset(data, 'x', n);
    data[n - 1] = '\xFF';
    put("a.txt", "first");
    put_bytes("b.txt", data, n);
    put("c.txt", "last");
    free(data);
    expect("path = a.txt b.txt c.txt\non_bad = skip" BARE, "firstlast");
    expect("path = a.txt b.txt\non_bad = skip" BARE, "first");
}

/* ---- files that change while they are read ---- */

/* The log is told of a skipped line in the middle of the file: there the file shrinks. */
static void shrink_file(void *self, weft_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "skipped"))
        *(int *)self = truncate("a.jsonl", 100);
}

static void refuses_a_file_that_shrinks(void **state)
{
    (void)state;
    FILE *f = fopen("a.jsonl", "wb");
    assert_non_null(f);
    fputs("bad\n", f);
    for (int i = 0; i < 100000; i++)
        fputs("{\"text\": \"some words\"}\n", f);
    assert_int_equal(fclose(f), 0);
    run r;
    assert_int_equal(run_create(&r, "path = a.jsonl\non_bad = skip"), WEFT_OK);
    int rc = -1;
    r.log = (weft_log){.write = shrink_file, .self = &rc};
    assert_int_equal(text_LTX_plugin.open(r.text, &r.err), WEFT_ERR_INPUT);
    assert_int_equal(rc, 0);
    assert_contains(weft_error_text(&r.err), "a.jsonl changed while it was read");
    run_end(&r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_enter, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(marks_documents),
        TEST(walks_folders_in_order_of_names),
        TEST(expands_patterns),
        TEST(reports_every_wrong_path),
        TEST(refuses_empty_data),
        TEST(reads_long_files),
        TEST(reads_json_lines),
        TEST(names_bad_lines),
        TEST(counts_what_it_skips),
        TEST(groups_what_it_skips_by_file),
        TEST(judges_utf8),
        TEST(refuses_or_replaces_what_is_not_utf8),
        TEST(takes_back_a_long_document),
        TEST(refuses_a_file_that_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
