/* SPDX-License-Identifier: Apache-2.0 */
/* Whole commands, in process, with the n-th allocation failing: for many n, or with WEFT_LONG for
 * every n, until one run meets no failure any more. Every run must end, by itself and cleanly:
 * done, or with exit code 1 and a word about memory. A sanitizer or valgrind sees the rest. */
#include "cli.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { SAMPLE = 40, SECONDS = 60 };

static const char ini[] = "[weft]\n"
                          "plugins = llama3 text cpu bf16 adamw metrics sample dump\n"
                          "dir = run\n"
                          "threads = 1\n"
                          "[train]\n"
                          "steps = 2\n"
                          "seq_len = 8\n"
                          "global_batch = 2\n"
                          "micro_batch = 1\n"
                          "eval_every = 2\n"
                          "eval_batches = 1\n"
                          "[llama3]\n"
                          "dim = 8\n"
                          "n_layers = 1\n"
                          "n_heads = 2\n"
                          "n_kv_heads = 2\n"
                          "ffn_dim = 8\n"
                          "vocab_size = 258\n"
                          "[text]\n"
                          "path = text.txt\n"
                          "[sample]\n"
                          "prompt = It\n"
                          "tokens = 2\n"
                          "context = 8\n"
                          "[mesh]\n"
                          "rule = param:*.mlp.* ffn tp, role:residual seq tp\n"
                          "[dump]\n"
                          "what = parameters gradients tokens logits\n";

static char folder[] = "/tmp/weft-torture-XXXXXX";

/* ---- a folder to live in ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void write_whole(const char *path, const char *text)
{
    weft_error err = {0};
    if (weft_write_file(path, text, strlen(text), &err))
        fail_msg("%s", weft_error_text(&err));
}

static int set_up(void **state)
{
    weft_text text = {0};
    (void)state;
    if (!mkdtemp(folder) || chdir(folder))
        return -1;
    setenv("HOME", folder, 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < 30; i++)
        weft_text_print(&text, "It was the %d. sentence of a short text.\n", i);
    write_whole("text.txt", weft_text_get(&text));
    write_whole("run.ini", ini);
    weft_text_release(&text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (chdir("/"))
        return -1;
    remove_all(folder);
    return 0;
}

/* ---- one command ---- */

typedef struct command {
    int (*run)(int argc, char **argv);
    const char *arguments; /* by blanks */
    bool cold;             /* without tokens from the run before */
} command;

static const command *now;
static long failing;
static int terminal; /* where the test itself writes */

static void too_long(int number)
{
    char line[128];
    (void)number;
    int n = snprintf(line, sizeof line, "# allocation %ld failed, and 'weft %s' does not end\n",
                     failing, now->arguments);
    ssize_t written = write(terminal, line, (size_t)n);
    (void)written;
    _exit(1);
}

static int call(const command *c)
{
    char copy[2048], *argv[32], *save = NULL;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", c->arguments);
    for (char *word = strtok_r(copy, " ", &save); word && argc < 31;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    return c->run(argc, argv);
}

/* What it says goes to files. Returns the exit code. */
static int attempt(const command *c, long fail_at)
{
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    fflush(stdout);
    int said = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0666),
        printed = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(out >= 0 && err >= 0 && said >= 0 && printed >= 0);
    remove_all("run");
    if (c->cold)
        remove_all("weft/tokens");
    dup2(printed, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    now = c;
    terminal = out;
    failing = fail_at;
    signal(SIGALRM, too_long);
    alarm(SECONDS);
    weft_alloc_fail_at(fail_at);
    int code = call(c);
    long made = weft_alloc_count();
    weft_alloc_fail_at(0);
    alarm(0);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(said);
    close(printed);
    failing = made;
    return code;
}

static void read_text(const char *path, weft_text *text)
{
    char *data = NULL;
    size_t size = 0;
    weft_text_clear(text);
    if (access(path, R_OK) == 0 && weft_read_file(path, &data, &size, NULL) == WEFT_OK)
        weft_text_add_bytes(text, data, size);
    weft_free(data);
}

/* The numbers of metrics.jsonl that are computed and not measured. */
static void add_results(const char *jsonl, weft_text *text)
{
    static const char *const keys[] = {
        "\"step\": ", "loss\": ", "\"grad_norm\": ", "\"total_tokens\": "};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (const char *p = jsonl; (p = strstr(p, keys[i])); p += strlen(keys[i]))
            weft_text_print(text, "%.*s\n",
                            (int)(strlen(keys[i]) + strcspn(p + strlen(keys[i]), ",}")), p);
}

/* What a command is for: what it prints, but for how long passes took, and what a run computes. */
static void read_results(weft_text *text)
{
    weft_text file = {0};
    read_text("out", &file);
    const char *out = weft_text_get(&file), *times = strstr(out, "\npasses ");
    weft_text_clear(text);
    weft_text_print(text, "%.*s\n", times ? (int)(times - out) : (int)file.size, out);
    read_text("run/metrics.jsonl", &file);
    add_results(weft_text_get(&file), text);
    weft_text_release(&file);
}

/* Empty, or what is wrong with how a run ended. */
static const char *judge(const weft_text *expected, int code)
{
    weft_text said = {0}, results = {0};
    const char *wrong = "";
    read_text("err", &said);
    read_results(&results);
    bool memory = strstr(weft_text_get(&said), "out of memory") != NULL;
    if (code != 0 && code != 1)
        wrong = "a wrong exit code";
    else if (code == 1 && !memory)
        wrong = "it does not say that memory was short";
    else if (code == 1 && !strstr(weft_text_get(&said), "error: "))
        wrong = "no line says error";
    else if (strstr(weft_text_get(&said), "please report") ||
             strstr(weft_text_get(&said), "(null)"))
        wrong = "it blames itself";
    else if (code == 0 && !memory && strcmp(weft_text_get(&results), weft_text_get(expected)) != 0)
        wrong = "it does not do what it should and does not say so";
    if (*wrong)
        print_message("%s%s\n", weft_text_get(&said), code ? "" : weft_text_get(&results));
    weft_text_release(&said);
    weft_text_release(&results);
    return wrong;
}

/* So many allocations fail, or with WEFT_LONG all of them. */
static void torture_some(const command *c, long sample)
{
    weft_text expected = {0};
    for (int i = 0; i < 2;
         i++) { /* what is made once, as measurements that are kept, is there before we count */
        assert_int_equal(attempt(c, 0), 0);
        read_results(&expected);
    }
    assert_true(expected.size > 100);
    long total = failing, refused = 0, bad = 0;
    long stride = getenv("WEFT_LONG") ? 1 : 1 + total / sample;
    for (long n = 1; n <= total; n += stride) {
        int code = attempt(c, n);
        const char *wrong = judge(&expected, code);
        refused += code == 1;
        if (*wrong) {
            print_message("weft %s: allocation %ld fails, exit code %d: %s\n", c->arguments, n,
                          code, wrong);
            bad++;
        }
    }
    print_message("weft %s: %ld allocations, every %ld. failed, %ld refusals\n", c->arguments,
                  total, stride, refused);
    assert_int_equal(bad, 0);
    assert_true(refused > total / stride / 2);
    assert_string_equal(judge(&expected, attempt(c, 0)), "");
    weft_text_release(&expected);
}

static void torture(const command *c)
{
    torture_some(c, SAMPLE);
}

/* ---- the commands ---- */

static void test_train(void **state)
{
    static const command c = {weft_cmd_train, "train run.ini", true};
    (void)state;
    torture(&c);
}

static void test_train_ranks(void **state)
{
    static const command c = {weft_cmd_train,
                              "train run.ini -n 4 --with tp@after:bf16 -o tp.degree=2 --with "
                              "fsdp@after:tp --with ac@after:fsdp",
                              false};
    (void)state;
    torture(&c);
}

static void test_train_queues(void **state)
{
    static const command c = {
        weft_cmd_train,
        "train run.ini -o cpu.queues=adversarial -o cpu.kernels=plain --without dump", false};
    (void)state;
    torture(&c);
}

/* On a GPU that is the host, where the plugin and its fake driver were built. */
static void test_train_cuda(void **state)
{
    const char *build = getenv("WEFT_BUILD");
    char fake[512], arguments[1600];
    const command c = {weft_cmd_train, arguments, false};
    (void)state;
    snprintf(fake, sizeof fake, "%s/plugins/cuda/test/libfakecuda.so", build ? build : "");
    if (!build || access(fake, R_OK) != 0) {
        print_message("no device cuda: it was not built\n");
        return;
    }
    snprintf(arguments, sizeof arguments,
             "train run.ini --without cpu --with cuda@after:text -o cuda.driver=%s -o "
             "cuda.cublaslt=%s",
             fake, fake);
    torture_some(&c, 24);
}

static void test_plan(void **state)
{
    static const command c = {weft_cmd_plan,
                              "plan run.ini -n 8 --with tp@after:bf16 -o tp.degree=2 --with "
                              "fsdp@after:tp --print-after fsdp --graph",
                              false};
    (void)state;
    torture(&c);
}

static void test_plan_changed(void **state)
{
    static const command c = {weft_cmd_plan, "plan run.ini --print-changed", false};
    (void)state;
    torture(&c);
}

static void test_config(void **state)
{
    static const command c = {
        weft_cmd_config, "config run.ini --sources -o train.seed=3 --with fsdp@after:bf16", false};
    (void)state;
    torture(&c);
}

static void test_inspect(void **state)
{
    static const command c = {weft_cmd_inspect, "inspect --all llama3 cpu adamw", false};
    (void)state;
    torture(&c);
}

static void test_plugins(void **state)
{
    static const command c = {weft_cmd_plugins, "plugins", false};
    (void)state;
    torture_some(&c, SAMPLE / 2); /* it opens all of them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),       cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_plugins),      cmocka_unit_test(test_plan),
        cmocka_unit_test(test_plan_changed), cmocka_unit_test(test_train),
        cmocka_unit_test(test_train_queues), cmocka_unit_test(test_train_ranks),
        cmocka_unit_test(test_train_cuda),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
