/* SPDX-License-Identifier: Apache-2.0 */
/* The listed set: order, capabilities, hooks, crashes, threads, memory. */
#include "../../lib/plugin_run.h"

#include "../../fixtures/plugins/fixture.h"
#include "base/blame.h"
#include "console/crash.h"
#include "host/enter.h"
#include "host/wrap.h"
#include "print/wraps.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- good sets ---- */

static void test_hooks_in_order(void **state)
{
    (void)state;
    run r = {0};
    assert_loads(&r, load(&r, "cpu good_a good_b", "[good_a]\ncount = 5\n"));
    assert_int_equal(r.plugins->n, 3);
    assert_int_equal(create(&r), WEFT_OK);
    assert_int_equal(weft_plugins_open(r.plugins, &r.err), WEFT_OK);
    weft_plugins_close(r.plugins);
    weft_plugins_destroy(r.plugins);
    r.plugins = NULL;
    assert_string_equal(
        weft_text_get(&r.seen),
        "cpu create\ngood_a create\ngood_b create\ncpu open\ngood_a open\ngood_b open\n"
        "good_b close\ngood_a close\ncpu close\ngood_b destroy\ngood_a destroy\ncpu destroy\n");
    release(&r);
}

static void test_host(void **state)
{
    (void)state;
    run r = {0};
    void *self;
    assert_loads(&r, load(&r, "cpu good_a good_b", "[good_a]\ncount = 5\n"));
    assert_int_equal(create(&r), WEFT_OK);
    const weft_host *host = &r.plugins->list[1].host;
    assert_int_equal(weft_params_int(host->params, "count"), 5);
    assert_string_equal(weft_params_text(host->params, "mode"), "soft");
    assert_int_equal(weft_params_int(host->train, "steps"), 1);
    assert_int_equal(host->ranks, 1);
    assert_null(host->service(host, "notes", &self)); /* not open yet */
    assert_non_null(weft_plugins_service(r.plugins, "notes", &self));
    assert_int_equal(weft_plugins_open(r.plugins, &r.err), WEFT_OK);
    const fixture_notes *table = host->service(host, "notes", &self);
    assert_non_null(table);
    assert_int_equal(table->read(self), 42);
    assert_ptr_equal(self, r.plugins->list[2].self);
    assert_null(host->service(host, "nobody", &self));
    assert_null(self);
    release(&r);
}

/* Names are each plugin's own, and the largest that it asked for is kept. */
static void test_kept(void **state)
{
    (void)state;
    run r = {0};
    assert_loads(&r, load(&r, "cpu good_a good_b", ""));
    assert_int_equal(create(&r), WEFT_OK);
    const weft_host *a = &r.plugins->list[1].host, *b = &r.plugins->list[2].host;
    assert_int_equal(weft_keep(a, "sums", 8, 0, &r.err), WEFT_OK);
    assert_int_equal(weft_keep(a, "more", 24, 0, &r.err), WEFT_OK);
    assert_int_equal(weft_keep(b, "sums", 40, 0, &r.err), WEFT_OK);
    assert_int_equal(weft_keep(a, "sums", 16, 0, &r.err), WEFT_OK);
    assert_int_equal(weft_keep(a, "more", 4, 0, &r.err), WEFT_OK);
    static const struct {
        const char *by, *name;
        int64_t bytes;
    } want[] = {{"good_a", "sums", 16}, {"good_a", "more", 24}, {"good_b", "sums", 40}};
    weft_kept_bytes *k = r.plugins->kept;
    char memory[3];
    for (int i = 0; i < 3; i++, k = k->next) {
        assert_non_null(k);
        assert_string_equal(k->by, want[i].by);
        assert_string_equal(k->name, want[i].name);
        assert_int_equal(k->bytes, want[i].bytes);
        k->at = &memory[i];
    }
    assert_null(k);
    assert_ptr_equal(weft_kept(a, "sums"), &memory[0]);
    assert_ptr_equal(weft_kept(a, "more"), &memory[1]);
    assert_ptr_equal(weft_kept(b, "sums"), &memory[2]);
    assert_null(weft_kept(b, "more"));
    assert_int_equal(weft_keep(a, "less", -1, 0, &r.err), WEFT_ERR_INTERNAL);
    release(&r);
}

static void test_transports_that_cannot_send(void **state)
{
    (void)state;
    const weft_transport old = {.size = sizeof old, .name = "old"};
    weft_error err = {0};
    assert_int_equal(weft_transport_check_send(&old, "pigeon", &err), WEFT_ERR_INPUT);
    assert_says(&err, "the transport of plugin 'pigeon' cannot: it has no send");
    weft_error_release(&err);
}

/* What the plugins make of the note, the listed order being theirs. */
static int read_note(const char *plugins, const char *rest)
{
    run r = {0};
    void *self;
    assert_loads(&r, load(&r, plugins, rest));
    assert_int_equal(create(&r), WEFT_OK);
    const fixture_notes *table = weft_plugins_service(r.plugins, "notes", &self);
    int note = table->read(self);
    release(&r);
    return note;
}

/* The first listed is nearest to the service. */
static void test_wraps_in_order(void **state)
{
    (void)state;
    assert_int_equal(read_note("cpu good_a good_b", ""), 42);
    assert_int_equal(read_note("cpu good_a good_b good_wrap", ""), 42 + 1);
    assert_int_equal(read_note("cpu good_a good_b good_wrap twice_wrap", ""), (42 + 1) * 2);
    assert_int_equal(read_note("cpu good_a good_b twice_wrap good_wrap", ""), 42 * 2 + 1);
    /* one that need not be listed is the outermost; one that is not needed stands nowhere */
    assert_int_equal(read_note("cpu good_a good_b good_wrap", "[weft]\ndefaults = twice_wrap\n"),
                     (42 + 1) * 2);
    assert_int_equal(read_note("cpu good_a good_b twice_wrap", "[weft]\ndefaults = good_wrap\n"),
                     42 * 2 + 1);
    assert_int_equal(read_note("second_device good_a good_b twice_wrap good_wrap", ""), 42 + 1);
}

/* Nothing stands around it, and the thread knows all the same whose code it is in. */
static void test_services_are_entered(void **state)
{
    (void)state;
    run r = {0};
    void *self;
    weft_text text = {0};
    assert_loads(&r, load(&r, "second_device", ""));
    assert_int_equal(create(&r), WEFT_OK);
    const weft_device *device = weft_plugins_service(r.plugins, "device", &self);
    assert_string_equal(device->name, "second");
    assert_null(device->alloc);
    device->describe(self, &text);
    assert_string_equal(weft_text_get(&text), "describe of second_device");
    assert_int_equal(device->settle(self, &r.err), WEFT_ERR_RUN);
    assert_says(&r.err, "run.ini:4: plugin 'second_device' failed in settle without a message");
    assert_null(weft_blame_get().plugin);
    assert_string_equal(weft_plugins_giver(r.plugins, device), "second_device");
    weft_text_release(&text);
    release(&r);
}

/* Before it is open a wrap is not seen by plugins; its service has to be listed before it. */
static void test_wrap(void **state)
{
    (void)state;
    run r = {0};
    void *self;
    const fixture_notes *table;
    assert_loads(&r, load(&r, "cpu good_a good_b good_wrap", ""));
    assert_int_equal(create(&r), WEFT_OK);
    const weft_host *host = &r.plugins->list[1].host;
    int i = 0;
    weft_text wraps = {0};
    while (weft_print_wraps(r.plugins, &i, &wraps))
        weft_text_add(&wraps, "\n");
    assert_string_equal(weft_text_get(&wraps),
                        "notes: good_wrap around good_b\ndevice: good_wrap around cpu\n");
    weft_text_release(&wraps);
    table = weft_plugins_service(r.plugins, "notes", &self);
    assert_int_equal(table->read(self), 43);
    assert_string_equal(weft_plugins_giver(r.plugins, table), "good_wrap");
    const weft_device *device = weft_plugins_service(r.plugins, "device", &self);
    assert_string_equal(device->name, "cpu");
    assert_null(device->alloc);
    assert_true(weft_plugins_inner(r.plugins, (const void **)&device, &self));
    assert_string_equal(weft_plugins_giver(r.plugins, device), "cpu");
    assert_false(weft_plugins_inner(r.plugins, (const void **)&device, &self));
    assert_null(host->service(host, "notes", &self));
    r.plugins->list[2].opened = true;
    table = host->service(host, "notes", &self);
    assert_int_equal(table->read(self), 42);
    r.plugins->list[3].opened = true;
    table = host->service(host, "notes", &self);
    assert_int_equal(table->read(self), 43);
    r.plugins->list[2].opened = r.plugins->list[3].opened = false;
    release(&r);

    assert_int_equal(load(&r, "cpu good_a good_wrap good_b", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "this order works: plugins = cpu good_a good_b good_wrap");
    release(&r);

    assert_loads(&r, load(&r, "cpu good_a good_b small_wrap", ""));
    assert_int_equal(create(&r), WEFT_ERR_INPUT);
    assert_says(&r.err, "plugin 'small_wrap' wraps service 'notes' with a table of size 8");
    release(&r);
}

static void test_walk(void **state)
{
    (void)state;
    run r = {0};
    int plugin = 0, item = 0, passes = 0;
    const weft_loaded *loaded;
    const weft_contribution *contribution;
    assert_loads(&r, load(&r, "cpu good_a good_b", ""));
    while (weft_plugins_next(r.plugins, WEFT_PASS, &plugin, &item, &loaded, &contribution)) {
        assert_string_equal(loaded->module.plugin->name, passes == 0 ? "good_a" : "good_b");
        assert_int_equal(contribution->kind, WEFT_PASS);
        passes++;
    }
    assert_int_equal(passes, 2);
    plugin = item = 0;
    assert_true(
        weft_plugins_next(r.plugins, WEFT_OBSERVER, &plugin, &item, &loaded, &contribution));
    assert_false(
        weft_plugins_next(r.plugins, WEFT_OBSERVER, &plugin, &item, &loaded, &contribution));
    release(&r);
}

static void test_default_device(void **state)
{
    (void)state;
    run r = {0};
    assert_loads(&r, load(&r, "good_a", "[weft]\ndefaults = device:cpu\n[cpu]\n"));
    assert_int_equal(r.plugins->n, 2);
    assert_string_equal(r.plugins->list[0].module.plugin->name, "cpu");
    assert_non_null(strstr(weft_text_get(&r.seen), "using cpu"));
    release(&r);
    assert_loads(&r, load(&r, "second_device", "[weft]\ndefaults = device:cpu\n"));
    assert_int_equal(r.plugins->n, 1);
    assert_string_equal(weft_text_get(&r.seen), "");
    release(&r);
}

static void test_defaults(void **state)
{
    (void)state;
    run r = {0};
    /* before those that are listed, in their order, once */
    assert_loads(&r, load(&r, "second_device", "[weft]\ndefaults = good_a good_b good_a\n"));
    assert_int_equal(r.plugins->n, 3);
    assert_string_equal(r.plugins->list[0].module.plugin->name, "good_a");
    assert_string_equal(r.plugins->list[1].module.plugin->name, "good_b");
    release(&r);
    /* behind them, if they stand around a service */
    assert_loads(&r, load(&r, "cpu good_b", "[weft]\ndefaults = good_wrap good_a\n"));
    assert_string_equal(r.plugins->list[0].module.plugin->name, "good_a");
    assert_string_equal(r.plugins->list[3].module.plugin->name, "good_wrap");
    release(&r);
    assert_loads(&r, load(&r, "good_a cpu", "[weft]\ndefaults = good_a device:cpu\n"));
    assert_int_equal(r.plugins->n, 2);
    release(&r);
    assert_int_equal(load(&r, "cpu", "[weft]\ndefaults = nowhere\n"), WEFT_ERR_INPUT);
    release(&r);
    /* a section of one that is not there is not unknown */
    assert_int_equal(load(&r, "good_a", "[weft]\ndefaults = device:no_cpu\n"), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&r.err), "no plugin 'no_cpu'"));
    assert_non_null(strstr(r.err.items[r.err.n_items - 1].text, "the default, no_cpu"));
    release(&r);
}

static void test_optional(void **state)
{
    (void)state;
    run r = {0};
    /* missing: left out, its section too */
    assert_loads(&r,
                 load(&r, "cpu ?nowhere_to_be_found ?good_a", "[nowhere_to_be_found]\nkey = 1\n"));
    assert_int_equal(r.plugins->n, 2);
    assert_non_null(strstr(weft_text_get(&r.seen), "nowhere_to_be_found"));
    release(&r);
    /* there, but broken: an error all the same */
    assert_refused("cpu ?undefined_function", "weft_no_such_function");
    assert_refused("cpu ?wrong_magic", "magic");
}

/* ---- capabilities and order ---- */

static void test_given_twice(void **state)
{
    (void)state;
    assert_refused("cpu good_a also_a",
                   "run.ini:6: plugin 'also_a' gives 'thing_a', and so does 'good_a' (run.ini:5)");
    assert_refused("cpu second_device", "gives 'device', and so does 'cpu' (run.ini:4)");
}

static void test_unmet_need(void **state)
{
    (void)state;
    assert_refused("cpu good_a unmet", "run.ini:6: plugin 'unmet' needs 'thing_q', which no listed "
                                       "plugin gives; did it mean 'thing_a'?");
    assert_refused("cpu unmet", "add one that does");
    assert_refused("cpu unmet",
                   "needs 'placed' in stage graph, but weft gives it from stage placed on");
}

static void test_wrong_order(void **state)
{
    (void)state;
    assert_refused("cpu good_b ?good_a mesh_late",
                   "run.ini:5: plugin 'good_b' needs 'thing_a', which 'good_a' (run.ini:6) gives, "
                   "but later in the list; "
                   "this order works: plugins = cpu ?good_a good_b mesh_late");
    assert_refused("cpu good_a refuser", "run.ini:6: plugin 'refuser' refuses 'thing_a', which "
                                         "'good_a' (run.ini:5) gives earlier in the list; "
                                         "this order works: plugins = cpu refuser good_a");
}

static void test_stages_before_list(void **state)
{
    (void)state;
    run r = {0};
    assert_loads(&r, load(&r, "cpu cycle_b mesh_late", ""));
    release(&r);
    assert_loads(&r, load(&r, "refuser good_a good_b cpu", ""));
    release(&r);
}

static void test_cycle(void **state)
{
    (void)state;
    assert_refused("cpu cycle_a cycle_b", "no order works");
    assert_refused("cpu cycle_a cycle_b",
                   "'cycle_b' must come after 'cycle_a', that after 'cycle_b'");
}

/* Names of the plugins of all passes, as they run. */
static void assert_passes(const char *plugins, const char *names)
{
    run r = {0};
    weft_text text = {0};
    assert_loads(&r, load(&r, plugins, ""));
    for (int i = 0; i < r.plugins->n_passes; i++)
        weft_text_print(&text, "%s%s", i ? " " : "",
                        r.plugins->list[r.plugins->passes[i].plugin].module.plugin->name);
    assert_string_equal(weft_text_get(&text), names);
    weft_text_release(&text);
    release(&r);
}

static void test_after(void **state)
{
    (void)state;
    assert_passes("cpu good_a two_places good_b", "good_a two_places two_places good_b");
    assert_passes("cpu two_places good_a good_b", "two_places good_a two_places good_b");
    assert_passes("cpu two_places good_a needs_late mesh_late",
                  "mesh_late two_places good_a two_places needs_late");
    assert_refused("cpu two_places good_b good_a",
                   "this order works: plugins = cpu two_places good_a good_b");
    assert_refused("cpu two_places needs_late good_a",
                   "run.ini:6: plugin 'needs_late' needs 'thing_late', which 'two_places' "
                   "(run.ini:5) gives, but behind 'thing_a', which its pass waits for; this order "
                   "works: plugins = cpu two_places good_a needs_late");
    assert_refused("cpu two_places",
                   "run.ini:5: plugin 'two_places' has a pass after 'thing_a', which no listed "
                   "plugin gives; add one that does");
}

static void test_after_in_vain(void **state)
{
    (void)state;
    assert_refused("cpu waits_a good_a waits_b",
                   "run.ini:5: a pass of plugin 'waits_a' waits for 'wait_b', which 'waits_b' "
                   "(run.ini:7) gives, and that waits for 'wait_a', which 'waits_a' (run.ini:5) "
                   "gives; no order works, so leave one out");
    assert_refused("cpu waits_more good_a", "has a pass after 'thing_q', which no listed plugin");
    assert_refused("cpu waits_more good_a", "says after 'placed', which weft gives between stages");
    assert_refused("cpu waits_more good_a",
                   "run.ini:5: a pass of plugin 'waits_more' in stage mesh says after 'thing_a', "
                   "which 'good_a' (run.ini:6) gives only later, in stage graph");
}

static void test_all_errors_at_once(void **state)
{
    (void)state;
    run r = {0};
    assert_int_equal(
        load(&r, "cpu wrong_magic good_aa good_a", "[good_a]\ncount = 99\ncuont = 1\n[good_b]\n"),
        WEFT_ERR_INPUT);
    assert_says(&r.err, "magic");
    assert_says(&r.err, "no plugin 'good_aa'");
    assert_says(&r.err, "99");
    assert_says(&r.err, "cuont");
    assert_says(&r.err, "good_b");
    release(&r);
}

/* It may have been [weft], with a lock in it: nothing is opened then. */
static void test_stray_section(void **state)
{
    (void)state;
    run r = {0};
    assert_int_equal(load(&r, "cpu wrong_magic good_aa", "[stray]\n"), WEFT_ERR_INPUT);
    assert_says(&r.err, "stray");
    assert_says(&r.err, "no plugin 'good_aa'");
    for (int i = 0; i < r.err.n_items; i++)
        assert_null(strstr(r.err.items[i].text, "magic;"));
    release(&r);
}

/* ---- hooks that fail ---- */

static void test_failing_create(void **state)
{
    (void)state;
    run r = {0};
    assert_loads(&r, load(&r, "cpu good_a fail_create good_b", ""));
    assert_int_equal(create(&r), WEFT_ERR_RUN);
    assert_says(&r.err, "create does not like this");
    assert_says(&r.err, "run.ini:6: plugin 'fail_create' failed in create");
    weft_plugins_destroy(r.plugins);
    r.plugins = NULL;
    assert_string_equal(
        weft_text_get(&r.seen),
        "cpu create\ngood_a create\nfail_create create\nfail_create destroy\ngood_a destroy\n"
        "cpu destroy\n");
    release(&r);
}

static void test_failing_open(void **state)
{
    (void)state;
    run r = {0};
    assert_loads(&r, load(&r, "cpu good_a fail_open good_b", ""));
    assert_int_equal(create(&r), WEFT_OK);
    weft_text_clear(&r.seen);
    assert_int_equal(weft_plugins_open(r.plugins, &r.err), WEFT_ERR_IO);
    assert_says(&r.err, "plugin 'fail_open' failed in open without a message");
    weft_plugins_destroy(r.plugins);
    r.plugins = NULL;
    assert_string_equal(weft_text_get(&r.seen),
                        "cpu open\ngood_a open\ngood_a close\ncpu close\n"
                        "good_b destroy\nfail_open destroy\ngood_a destroy\ncpu destroy\n");
    assert_null(weft_blame_get().plugin);
    release(&r);
}

/* What a call returned, what it noted, what becomes of it. */
static void test_silent_errors(void **state)
{
    static const struct {
        weft_status returned, status;
    } cases[] = {{WEFT_ERR_INPUT, WEFT_ERR_RUN},     {WEFT_ERR_STOPPED, WEFT_ERR_RUN},
                 {WEFT_ERR_MEMORY, WEFT_ERR_MEMORY}, {WEFT_ERR_PEER, WEFT_ERR_PEER},
                 {WEFT_ERR_INTERNAL, WEFT_ERR_RUN},  {(weft_status)77, WEFT_ERR_RUN},
                 {(weft_status)-1, WEFT_ERR_RUN}};
    const weft_where where = {"run.ini", 3};
    weft_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const weft_entry entry = weft_enter("x", "sample", where, &err);
        assert_string_equal(weft_blame_get().hook, "sample");
        assert_int_equal(weft_leave(&entry, cases[i].returned), cases[i].status);
        assert_null(weft_blame_get().plugin);
        assert_int_equal(weft_error_status(&err), cases[i].status);
        assert_says(&err, "run.ini:3: plugin 'x' failed in sample without a message");
        weft_error_clear(&err);
    }
    const weft_entry fine = weft_enter("x", "sample", where, &err);
    assert_int_equal(weft_leave(&fine, WEFT_OK), WEFT_OK);
    assert_int_equal(err.n_items, 0);
    weft_fail(&err, WEFT_ERR_IO, WEFT_NOWHERE, "of before");
    const weft_entry later = weft_enter("x", "sample", where, &err);
    weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE, "of the call");
    assert_int_equal(weft_leave(&later, WEFT_ERR_INPUT), WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 2);
    const weft_entry last = weft_enter("x", "sample", where, &err);
    assert_int_equal(weft_leave(&last, WEFT_ERR_INPUT), WEFT_ERR_RUN);
    assert_int_equal(err.n_items, 3);
    const weft_entry noted = weft_enter("x", "sample", where, &err);
    weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE, "of the call");
    assert_int_equal(weft_leave(&noted, WEFT_OK), WEFT_ERR_PLUGIN);
    assert_string_equal(err.items[4].text,
                        "run.ini:3: plugin 'x' failed in sample, and returned WEFT_OK");
    const weft_entry nowhere = weft_enter("x", "sample", where, NULL);
    assert_int_equal(weft_leave(&nowhere, WEFT_OK), WEFT_OK);
    assert_int_equal(weft_leave(&nowhere, WEFT_ERR_IO), WEFT_ERR_IO);
    weft_error_release(&err);
    const weft_entry unheard = weft_enter("x", "sample", where, NULL);
    assert_int_equal(weft_leave(&unheard, WEFT_ERR_IO), WEFT_ERR_IO);
}

static void crash_in_child(void)
{
    run r = {0};
    weft_blame_set_rank(3);
    weft_blame_set_step(17);
    if (load(&r, "cpu crash_create", "") != WEFT_OK || weft_crash_install(&r.err) != WEFT_OK)
        _exit(99);
    (void)create(&r);
    _exit(98);
}

static void test_crash_report(void **state)
{
    (void)state;
    int ends[2], how;
    char text[4096];
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        crash_in_child();
    }
    close(ends[1]);
    for (ssize_t got;
         n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFSIGNALED(how))
        fail_msg("the child ended with %d and says \"%s\"", WEXITSTATUS(how), text);
    assert_int_equal(WTERMSIG(how), SIGSEGV);
    if (!strstr(text,
                "weft: crashed in plugin crash_create, hook create, step 17, rank 3 (SIGSEGV"))
        fail_msg("the report says \"%s\"", text);
}

/* ---- threads and memory ---- */

static void *load_in_thread(void *result)
{
    run r = {0};
    bool fine = load(&r, "cpu good_a good_b", "") == WEFT_OK && create(&r) == WEFT_OK &&
                weft_plugins_open(r.plugins, &r.err) == WEFT_OK;
    release(&r);
    *(bool *)result = fine;
    return NULL;
}

static void test_ranks_as_threads(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    pthread_t threads[RANKS];
    bool fine[RANKS] = {false};
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_in_thread, &fine[i]), 0);
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++)
        assert_true(fine[i]);
}

/* The n-th allocation fails, for every n: an error each time, never a crash or a leak, until there
 * are fewer than n. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const sets[] = {"cpu good_a good_b good_wrap", "good_b good_a bad_tables",
                                       "good_b good_a unmet also_a"};
    for (size_t set = 0; set < 3; set++)
        for (long n = 1;; n++) {
            run r = {0};
            weft_alloc_fail_at(n);
            weft_status status = load(&r, sets[set], "[good_a]\ncount = 3\n");
            if (status == WEFT_OK)
                status = create(&r);
            long count = weft_alloc_count();
            weft_alloc_fail_at(0);
            assert_true(status == WEFT_OK || weft_error_status(&r.err) != WEFT_OK);
            release(&r);
            if (count < n) {
                assert_int_equal(status, set == 0 ? WEFT_OK : WEFT_ERR_INPUT);
                break;
            }
        }
}

/* The shortest table there may be, behind which nothing can be read. */
static void test_tables_end(void **state)
{
    (void)state;
    weft_error err = {0};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(room != MAP_FAILED);
    assert_int_equal(mprotect(room + page, page, PROT_NONE), 0);
    const weft_service_link link = {.service = "notes", .table = room + page - sizeof(size_t)};
    const weft_plugins plugins = {.links = &link};
    assert_int_equal(weft_services_check(&plugins, true, &err), WEFT_OK);
    assert_int_equal(weft_services_check(&plugins, false, &err), WEFT_OK);
    munmap(room, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks_in_order),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_transports_that_cannot_send),
        cmocka_unit_test(test_services_are_entered),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_wraps_in_order),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_default_device),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_optional),
        cmocka_unit_test(test_given_twice),
        cmocka_unit_test(test_unmet_need),
        cmocka_unit_test(test_wrong_order),
        cmocka_unit_test(test_stages_before_list),
        cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_after),
        cmocka_unit_test(test_after_in_vain),
        cmocka_unit_test(test_all_errors_at_once),
        cmocka_unit_test(test_stray_section),
        cmocka_unit_test(test_failing_create),
        cmocka_unit_test(test_failing_open),
        cmocka_unit_test(test_silent_errors),
        cmocka_unit_test(test_crash_report),
        cmocka_unit_test(test_ranks_as_threads),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_tables_end),
    };
    return RUN_WITH_FIXTURES(tests);
}
