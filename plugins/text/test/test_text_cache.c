/* SPDX-License-Identifier: Apache-2.0 */
/* The token file: reused, made again, damaged, interrupted, made by several at once, on a full
 * disk, without memory. */
#include "tests/lib/created.h"
#include "text_run.h"

#include <weft/random.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define BARE "\nbos = no\neos = no\n"

/* The files in the cache folder; *name: the token file's. */
static int cache_files(char name[300])
{
    DIR *folder = opendir("cache/tokens");
    int n = 0;
    struct dirent *entry;
    name[0] = '\0';
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        n++;
        size_t length = strlen(entry->d_name);
        if (length > 7 && !strcmp(entry->d_name + length - 7, ".tokens"))
            snprintf(name, 300, "cache/tokens/%s", entry->d_name);
    }
    if (folder)
        closedir(folder);
    return n;
}

/* Opens and checks the stream, and whether it had to be made. */
static void expect(const char *ini, const char *text, bool tokenised)
{
    run r;
    run_start(&r, ini);
    assert_text(&r, text, strlen(text));
    assert_int_equal(was_tokenised(&r), tokenised);
    run_end(&r);
}

static void set_mtime(const char *path, time_t s, long ns)
{
    const struct timespec times[2] = {{.tv_sec = s, .tv_nsec = ns}, {.tv_sec = s, .tv_nsec = ns}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void is_made_once(void **state)
{
    (void)state;
    char name[300];
    put("a.txt", "hello");
    expect("path = a.txt" BARE, "hello", true);
    assert_int_equal(cache_files(name), 1);
    for (int i = 0; i < 3; i++)
        expect("path = a.txt" BARE, "hello", false);
    expect("path = ./a.txt" BARE "validation = 0.5\nshuffle = no", "hello",
           false); /* not a matter of tokens */
    assert_int_equal(cache_files(name), 1);
    expect("path = a.txt\ncache = other/deep" BARE, "hello", true);
    assert_int_equal(access("other/deep", F_OK), 0);
    expect("path = a.txt\ncache = other/deep" BARE, "hello", false);
}

static void keeps_the_fingerprint(void **state)
{
    (void)state;
    put("a.txt", "hello");
    run r, s;
    run_start(&r, "path = a.txt");
    run_start(&s, "path = a.txt");
    assert_false(was_tokenised(&s));
    assert_true(r.data->fingerprint(r.text) == s.data->fingerprint(s.text));
    run_end(&r);
    run_end(&s);
}

static void follows_changes(void **state)
{
    (void)state;
    put("a.txt", "hello");
    set_mtime("a.txt", 1000, 5);
    expect("path = a.txt" BARE, "hello", true);
    put("a.txt", "hello there");
    set_mtime("a.txt", 1000, 5); /* another size */
    expect("path = a.txt" BARE, "hello there", true);
    put("a.txt", "HELLO THERE");
    set_mtime("a.txt", 1000, 6); /* another time */
    expect("path = a.txt" BARE, "HELLO THERE", true);
    put("b.txt", "more");
    expect("path = a.txt b.txt" BARE, "HELLO THEREmore", true);
    expect("path = b.txt a.txt" BARE, "moreHELLO THERE", true);
    expect("path = a.txt" BARE, "HELLO THERE", false);
    run r;
    run_start(&r, "path = a.txt\nbos = yes\neos = no");
    assert_true(was_tokenised(&r));
    assert_int_equal(r.text->sources[0].cache.n_tokens, 12);
    run_end(&r);
}

static void replaces_damaged_files(void **state)
{
    (void)state;
    char name[300];
    struct stat st;
    put("a.txt", "hello");
    expect("path = a.txt" BARE, "hello", true);
    assert_int_equal(cache_files(name), 1);
    assert_int_equal(stat(name, &st), 0);

    const off_t sizes[] = {0,
                           1,
                           100,
                           4095,
                           4096,
                           4100,
                           st.st_size - 1,
                           st.st_size + 1}; /* cut short by others, or longer */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(truncate(name, sizes[i]), 0);
        expect("path = a.txt" BARE, "hello", true);
        expect("path = a.txt" BARE, "hello", false);
    }
    for (off_t at = 0; at < st.st_size; at++) { /* every byte that is covered by a checksum */
        if (at >= 136 && at < 4096)             /* the rest of the header's page */
            continue;
        int fd = open(name, O_RDWR);
        unsigned char byte;
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        expect("path = a.txt" BARE, "hello", true);
    }
    expect("path = a.txt" BARE, "hello", false);
}

/* Ids of the vocabulary, but others: nothing but a checksum can see them. */
static void replaces_other_ids(void **state)
{
    (void)state;
    char name[300];
    put("a.txt", "hello");
    expect("path = a.txt" BARE, "hello", true);
    assert_int_equal(cache_files(name), 1);
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "j\0", 2, 4096), 2);
    close(fd);
    run r;
    run_start(&r, "path = a.txt" BARE);
    assert_text(&r, "hello", 5);
    assert_contains(weft_text_get(&r.lines), name);
    assert_contains(weft_text_get(&r.lines), "it is damaged");
    run_end(&r);
    expect("path = a.txt" BARE, "hello", false);
}

/* What a disk, a copy or another program may do to a file of `size` bytes. */
static void damage(const char *name, off_t size, uint64_t n)
{
    enum { MOST = 8192 };
    static unsigned char bytes[MOST];
    uint64_t what = weft_random_bits(1, n, 0) % 4, length = 1 + weft_random_bits(1, n, 1) % MOST;
    off_t at = (off_t)(weft_random_bits(1, n, 2) % (uint64_t)size);
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0);
    if (what == 0) { /* a bit */
        assert_int_equal(pread(fd, bytes, 1, at), 1);
        bytes[0] ^= (unsigned char)(1 << weft_random_bits(1, n, 3) % 8);
        assert_int_equal(pwrite(fd, bytes, 1, at), 1);
    } else if (what == 1) { /* zeros */
        memset(bytes, 0, length);
        length = at + (off_t)length > size ? (uint64_t)(size - at) : length;
        assert_int_equal(pwrite(fd, bytes, length, at), length);
    } else if (what == 2) { /* what belongs elsewhere */
        ssize_t got =
            pread(fd, bytes, length, (off_t)(weft_random_bits(1, n, 3) % (uint64_t)(size - MOST)));
        assert_true(got > 0);
        got = at + got > size ? size - at : got;
        assert_int_equal(pwrite(fd, bytes, (size_t)got, at), got);
    } else {
        assert_int_equal(ftruncate(fd, at), 0);
    }
    close(fd);
}

/* Damage is noticed, or it is in bytes that mean nothing; either way the tokens are the same. */
static void notices_random_damage(void **state)
{
    (void)state;
    enum { ROUNDS = 150, LENGTH = 400000 };
    char name[300];
    struct stat st;
    put_many("a.txt", LENGTH);
    char *text = calloc(1, LENGTH + 1);
    FILE *f = fopen("a.txt", "rb");
    assert_true(text && f && fread(text, 1, LENGTH, f) == LENGTH);
    fclose(f);
    expect("path = a.txt" BARE, text, true);
    int noticed = 0;
    for (uint64_t n = 0; n < ROUNDS; n++) {
        assert_int_equal(cache_files(name), 1);
        assert_int_equal(stat(name, &st), 0);
        damage(name, st.st_size, n);
        run r;
        run_start(&r, "path = a.txt" BARE);
        assert_text(&r, text, LENGTH);
        noticed += was_tokenised(&r);
        run_end(&r);
    }
    assert_true(noticed > ROUNDS * 9 / 10);
    free(text);
}

/* ---- files that are too large to be compared as a whole before the run begins ---- */

enum { LARGE = 17 << 20 }; /* tokens of 2 bytes */

static void flip(const char *name, off_t at)
{
    unsigned char byte;
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static weft_status read_tokens(run *r, int64_t at, int64_t n)
{
    int32_t ids[64];
    assert_true(n <= 64);
    weft_error_clear(&r->err);
    return text_source_read(&r->text->sources[0], at, n, ids, &r->err);
}

static void notices_damage_when_a_block_is_read(void **state)
{
    (void)state;
    enum { ROUNDS = 120, IN_BLOCK = TEXT_BLOCK / 2, BLOCKS = LARGE / IN_BLOCK };
    char name[300];
    put_many("a.txt", LARGE);
    run r;
    run_start(&r, "path = a.txt" BARE);
    run_end(&r);
    assert_int_equal(cache_files(name), 1);
    for (uint64_t n = 0; n < ROUNDS; n++) {
        int64_t token = (int64_t)(weft_random_bits(2, n, 0) % LARGE), block = token / IN_BLOCK;
        bool before = n % 2; /* else while the run goes on */
        if (before)
            flip(name, 4096 + 2 * token);
        run_start(&r, "path = a.txt" BARE);
        assert_false(was_tokenised(&r));
        if (!before)
            flip(name, 4096 + 2 * token);
        for (uint64_t i = 0; i < 8; i++) { /* all other blocks can be used */
            int64_t other =
                (block + 1 + (int64_t)(weft_random_bits(2, n, i) % (BLOCKS - 1))) % BLOCKS;
            assert_int_equal(read_tokens(&r, other * IN_BLOCK, 64), WEFT_OK);
        }
        int64_t last = block * IN_BLOCK + IN_BLOCK - 1; /* read from the block's other end, too */
        assert_int_equal(read_tokens(&r, n % 3 ? token : last, 1), WEFT_ERR_IO);
        assert_contains(weft_error_text(&r.err), name);
        assert_contains(weft_error_text(&r.err), "delete the file");
        if (block > 0) /* a read over the end of a good one */
            assert_int_equal(read_tokens(&r, block * IN_BLOCK - 1, 2), WEFT_ERR_IO);
        run_end(&r);
        flip(name, 4096 + 2 * token);
    }
    run_start(&r, "path = a.txt" BARE);
    for (int64_t at = 0; at + 64 <= LARGE; at += 64)
        assert_int_equal(read_tokens(&r, at, 64), WEFT_OK);
    run_end(&r);
}

/* Documents' offsets are blocks like tokens. */
static void notices_damaged_offsets(void **state)
{
    (void)state;
    char name[300];
    put_many("a.txt", LARGE / 2);
    put_many("b.txt", LARGE / 2);
    run r;
    for (int damaged = 0; damaged < 2; damaged++) {
        run_start(&r, "path = a.txt b.txt\nreset = attention\nshuffle = no\nvalidation = 0" BARE);
        int32_t space[4][8];
        weft_sample out = {
            .ids = space[0], .labels = space[1], .positions = space[2], .segments = space[3]};
        assert_int_equal(cache_files(name), 1);
        if (damaged)
            flip(name, 4096 + 2 * LARGE + 8); /* where the second document begins */
        assert_int_equal(r.data->begin(r.text, 8, 1, &r.err), WEFT_OK);
        for (int64_t i = 0; i < LARGE / 8; i += LARGE / 16) { /* the first, and behind the middle */
            weft_status status = r.data->sample(r.text, WEFT_SPLIT_TRAIN, i, &out, &r.err);
            assert_int_equal(status, damaged ? WEFT_ERR_IO : WEFT_OK);
            if (!damaged)
                assert_int_equal(out.segments[7], 0);
        }
        run_end(&r);
    }
}

static void a_refused_run_leaves_nothing(void **state)
{
    (void)state;
    char name[300];
    put("a.jsonl", "{\"text\": \"good\"}\nbad\n");
    refuse("path = a.jsonl", "a.jsonl:2");
    assert_int_equal(cache_files(name), 0);
    put("a.jsonl", "{\"text\": \"good\"}\n");
    expect("path = a.jsonl" BARE, "good", true);
}

/* What a killed maker leaves: a part of a file under the temporary name. */
static void replaces_an_interrupted_part(void **state)
{
    (void)state;
    char name[300], part[320];
    put("a.txt", "hello");
    expect("path = a.txt" BARE, "hello", true);
    assert_int_equal(cache_files(name), 1);
    snprintf(part, sizeof part, "%s.part", name);
    assert_int_equal(rename(name, part), 0);
    put_many(part, 100000);
    expect("path = a.txt" BARE, "hello", true);
    expect("path = a.txt" BARE, "hello", false);
    assert_int_equal(cache_files(name), 1);
}

static void survives_being_killed(void **state)
{
    (void)state;
    char name[300];
    put_many("a.txt", 20 << 20);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        run r;
        _exit(run_open(&r, "path = a.txt"));
    }
    int status;
    while (cache_files(name) == 0 && !waitpid(child, &status, WNOHANG))
        ;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    run r;
    run_start(&r, "path = a.txt");
    assert_int_equal(r.text->sources[0].cache.n_tokens, (20 << 20) + 2);
    run_end(&r);
    assert_int_equal(cache_files(name), 1);
}

enum { PROCESSES = 4 };

/* Opens and counts, in a process of its own. */
static int open_and_count(int *made, uint64_t *sum)
{
    run r;
    if (run_open(&r, "path = a.txt"))
        return 1;
    __atomic_fetch_add(made, was_tokenised(&r), __ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < r.text->sources[0].cache.n_tokens; i++)
        *sum = *sum * 31 + (uint64_t)text_cache_token(&r.text->sources[0].cache, i);
    run_end(&r);
    return 0;
}

static void is_made_by_one_of_many(void **state)
{
    (void)state;
    char name[300];
    put_many("a.txt", 4 << 20);
    struct shared {
        int made;
        uint64_t sums[PROCESSES];
    } *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (!children[i])
            _exit(open_and_count(&shared->made, &shared->sums[i]));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(shared->made, 1);
    for (int i = 1; i < PROCESSES; i++)
        assert_true(shared->sums[i] == shared->sums[0]);
    assert_int_equal(cache_files(name), 1);
    munmap(shared, sizeof *shared);
}

/* Holds the lock of a part; when the log says that the plugin waits for it, lets go and puts
 * another maker's part in its place. */
typedef struct holder {
    char part[320];
    int fd;
    bool waited;
    int made;
} holder;

static void let_go(void *self, weft_log_level level, const char *line)
{
    (void)level;
    holder *h = self;
    h->made += strstr(line, "tokenising") != NULL;
    if (!strstr(line, "waiting"))
        return;
    h->waited = !unlink(h->part) && !close(h->fd);
    put(h->part, "");
}

static void starts_again_if_the_part_it_waited_for_is_gone(void **state)
{
    (void)state;
    char name[300];
    put("a.txt", "hello");
    expect("path = a.txt" BARE, "hello", true);
    assert_int_equal(cache_files(name), 1);
    assert_int_equal(unlink(name), 0);
    holder h = {.fd = -1};
    snprintf(h.part, sizeof h.part, "%s.part", name);
    h.fd = open(h.part, O_RDWR | O_CREAT, 0666);
    assert_true(h.fd >= 0);
    assert_int_equal(flock(h.fd, LOCK_EX), 0);
    run r;
    assert_int_equal(run_create(&r, "path = a.txt" BARE), WEFT_OK);
    r.log = (weft_log){.write = let_go, .self = &h};
    assert_int_equal(text_LTX_plugin.open(r.text, &r.err), WEFT_OK);
    assert_true(h.waited);
    assert_int_equal(h.made, 1); /* in the new part, not in the one that has no name */
    assert_text(&r, "hello", 5);
    run_end(&r);
    assert_int_equal(cache_files(name), 1);
    expect("path = a.txt" BARE, "hello", false);
}

typedef struct opener {
    int *made, failed;
    uint64_t sum;
} opener;

static void *open_in_thread(void *self)
{
    opener *o = self;
    o->failed = open_and_count(o->made, &o->sum);
    return NULL;
}

/* Ranks may be threads of one process. */
static void is_made_by_one_of_many_threads(void **state)
{
    (void)state;
    put_many("a.txt", 4 << 20);
    pthread_t threads[PROCESSES];
    opener openers[PROCESSES] = {{0}};
    int made = 0;
    for (int i = 0; i < PROCESSES; i++) {
        openers[i].made = &made;
        assert_int_equal(pthread_create(&threads[i], NULL, open_in_thread, &openers[i]), 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(openers[i].failed, 0);
        assert_true(openers[i].sum == openers[0].sum);
    }
    assert_int_equal(made, 1);
}

/* A limit on file sizes stands for a full disk: both fail the write. */
static void says_when_the_disk_is_full(void **state)
{
    (void)state;
    char name[300];
    put_many("a.txt", 2 << 20);
    struct rlimit old, little;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    little = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    run r;
    weft_status status = run_open(&r, "path = a.txt");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, WEFT_ERR_IO);
    assert_contains(weft_error_text(&r.err), "make room, or set [text] cache");
    run_end(&r);
    assert_int_equal(cache_files(name), 0);
}

static void refuses_a_folder_that_is_none(void **state)
{
    (void)state;
    put("a.txt", "hello");
    put("file", "x");
    run r;
    assert_int_not_equal(run_open(&r, "path = a.txt\ncache = file"), WEFT_OK);
    assert_contains(weft_error_text(&r.err), "file");
    run_end(&r);
    assert_int_equal(run_create(&r, "path = a.txt"), WEFT_OK);
    r.host.cache_dir = NULL;
    assert_int_equal(text_LTX_plugin.open(r.text, &r.err), WEFT_ERR_INPUT);
    assert_contains(weft_error_text(&r.err), "[text] cache");
    run_end(&r);
}

/* Each allocation fails in turn: a clean error, nothing left, and the next run is none the worse.
 */
static void survives_every_failed_allocation(void **state)
{
    (void)state;
    char name[300];
    put("a.txt", "hel\xFFlo");
    put("b.jsonl", "{\"text\": \"th\xFF"
                   "ere\"}\nbad\n");
    const char *ini = "path = *.txt b.jsonl\ninvalid_utf8 = replace\non_bad = skip";
    weft_status status = WEFT_ERR_MEMORY;
    for (long n = 1; status; n++) {
        assert_true(n < 1000);
        run r;
        assert_int_equal(run_create(&r, ini), WEFT_OK);
        r.host.log = NULL;
        weft_alloc_fail_at(n);
        status = text_LTX_plugin.open(r.text, &r.err);
        weft_alloc_fail_at(0);
        if (status) {
            assert_int_equal(status, WEFT_ERR_MEMORY);
            assert_true(cache_files(name) == 0 || (cache_files(name) == 1 && *name));
            if (*name) /* made, but there was no memory to use it */
                assert_int_equal(unlink(name), 0);
        } else {
            assert_true(n > 10);
        }
        run_end(&r);
    }
    assert_int_equal(cache_files(name), 1);
    run r;
    assert_int_equal(run_create(&r, ini), WEFT_OK);
    void *self = NULL;
    weft_alloc_fail_at(1);
    assert_int_equal(created_init(&text_LTX_plugin, &r.host, &self, &r.err), WEFT_ERR_MEMORY);
    weft_alloc_fail_at(0);
    assert_null(self);
    run_end(&r);
}

int main(void)
{
#define TEST(f)      cmocka_unit_test_setup_teardown(f, scratch_enter, scratch_leave)
#define IN_MEMORY(f) cmocka_unit_test_setup_teardown(f, scratch_enter_memory, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(is_made_once),
        TEST(keeps_the_fingerprint),
        TEST(follows_changes),
        TEST(replaces_damaged_files),
        TEST(replaces_other_ids),
        IN_MEMORY(notices_random_damage),
        IN_MEMORY(notices_damage_when_a_block_is_read),
        IN_MEMORY(notices_damaged_offsets),
        TEST(a_refused_run_leaves_nothing),
        TEST(replaces_an_interrupted_part),
        TEST(survives_being_killed),
        TEST(is_made_by_one_of_many),
        TEST(is_made_by_one_of_many_threads),
        TEST(starts_again_if_the_part_it_waited_for_is_gone),
        TEST(says_when_the_disk_is_full),
        TEST(refuses_a_folder_that_is_none),
        TEST(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
