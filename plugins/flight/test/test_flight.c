/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks driven by hand over a transport that does nothing: what they leave, and what is made of
 * it; and files that are damaged. */
#include "../flight.h"
#include "settings/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

extern const weft_plugin flight_LTX_plugin;

enum { RANKS = 4 };

typedef struct fixture {
    weft_settings *settings;
    weft_host host[RANKS];
    weft_command_host command;
    weft_log log;
    weft_text lines, out;
    weft_error err;
    flight *rank[RANKS];
    void *all[RANKS], *pair[RANKS]; /* groups: everybody; 0 and 1, 2 and 3 */
    char dir[64];
} fixture;

static fixture *now; /* a command's host has no instance */

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static weft_status keep_output(const weft_command_host *host, const void *data, size_t n,
                               weft_error *err)
{
    (void)host, (void)err;
    weft_text_add_bytes(&now->out, data, n);
    return WEFT_OK;
}

/* The first rank's word is everybody's. */
static weft_status exchange(const weft_host *host, const void *mine, size_t n, void *all,
                            weft_error *err)
{
    (void)host, (void)err;
    for (int r = 0; r < RANKS; r++)
        memcpy((char *)all + (size_t)r * n, mine, n);
    return WEFT_OK;
}

/* ---- a transport that does nothing ---- */

static weft_status result; /* of what comes next */

static weft_status group(void *self, const int *ranks, int n, int me, void **out, weft_error *err)
{
    (void)self, (void)ranks, (void)n, (void)me, (void)err;
    *out = NULL;
    return WEFT_OK;
}

static void ungroup(void *self, void *handle)
{
    (void)self, (void)handle;
}

static weft_status gather(void *self, void *handle, const void *send, void *recv, int64_t n,
                          weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)handle, (void)send, (void)recv, (void)n, (void)dtype, (void)queue, (void)err;
    return result;
}

static weft_status transfer(void **request)
{
    static char places[64];
    static int next;
    *request = &places[next++ % 64];
    return result;
}

static weft_status send_it(void *self, void *handle, int to, const void *data, int64_t n,
                           weft_dtype dtype, weft_queue *queue, weft_request **request,
                           weft_error *err)
{
    (void)self, (void)handle, (void)to, (void)data, (void)n, (void)dtype, (void)queue, (void)err;
    return transfer((void **)request);
}

static weft_status recv_it(void *self, void *handle, int from, void *data, int64_t n,
                           weft_dtype dtype, weft_queue *queue, weft_request **request,
                           weft_error *err)
{
    (void)self, (void)handle, (void)from, (void)data, (void)n, (void)dtype, (void)queue, (void)err;
    return transfer((void **)request);
}

static weft_status wait_it(void *self, weft_request *request, weft_queue *queue, weft_error *err)
{
    (void)self, (void)request, (void)queue, (void)err;
    return result;
}

static const weft_transport nothing = {.size = sizeof nothing,
                                       .group = group,
                                       .ungroup = ungroup,
                                       .all_gather = gather,
                                       .all_to_all = gather,
                                       .send = send_it,
                                       .recv = recv_it,
                                       .wait = wait_it};

/* ---- ranks ---- */

static const weft_contribution *item(weft_kind kind)
{
    const weft_contribution *c = flight_LTX_plugin.contributions;
    while (c->kind != kind)
        c++;
    return c;
}

static const weft_transport *wrapped(void)
{
    return item(WEFT_WRAP)->table;
}

static void event(fixture *f, int rank, weft_event which, weft_run_view run)
{
    run.rank = rank;
    run.ranks = RANKS;
    run.dir = f->dir;
    assert_int_equal(item(WEFT_OBSERVER)->observe(f->rank[rank], which, &run, &f->err), WEFT_OK);
}

static void begin_rank(fixture *f, int rank)
{
    static const int everybody[] = {0, 1, 2, 3}, pairs[][2] = {{0, 1}, {2, 3}};
    void *self;
    f->host[rank] = f->host[0];
    f->host[rank].rank = rank;
    assert_int_equal(flight_LTX_plugin.create(&f->host[rank], &self, &f->err), WEFT_OK);
    f->rank[rank] = self;
    assert_int_equal(item(WEFT_WRAP)->wrap(self, &nothing, NULL, &f->err), WEFT_OK);
    assert_int_equal(flight_LTX_plugin.open(self, &f->err), WEFT_OK);
    memcpy(f->rank[rank]->id, f->rank[0]->id, sizeof f->rank[0]->id);
    assert_int_equal(wrapped()->group(self, everybody, RANKS, rank, &f->all[rank], &f->err),
                     WEFT_OK);
    assert_int_equal(wrapped()->group(self, pairs[rank / 2], 2, rank % 2, &f->pair[rank], &f->err),
                     WEFT_OK);
    event(f, rank, WEFT_EVENT_START, (weft_run_view){0});
    event(f, rank, WEFT_EVENT_STEP_BEGIN, (weft_run_view){.step = 7});
}

static void begin(fixture *f, const char *ini)
{
    f->host[0] = (weft_host){.log = &f->log, .dir = f->dir, .ranks = RANKS, .exchange = exchange};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "flight", flight_LTX_plugin.params,
                                           &f->host[0].params, &f->err),
                     WEFT_OK);
    for (int r = 0; r < RANKS; r++)
        begin_rank(f, r);
}

static void end_rank(fixture *f, int rank)
{
    if (!f->rank[rank])
        return;
    wrapped()->ungroup(f->rank[rank], f->pair[rank]);
    wrapped()->ungroup(f->rank[rank], f->all[rank]);
    flight_LTX_plugin.destroy(f->rank[rank]);
    f->rank[rank] = NULL;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/weft-flight-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    f->log = (weft_log){keep_line, &f->lines};
    f->command = (weft_command_host){.log = &f->log, .threads = 1, .write = keep_output};
    result = WEFT_OK;
    now = f;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char command[128];
    for (int r = 0; r < RANKS; r++)
        end_rank(f, r);
    snprintf(command, sizeof command, "rm -r '%s'", f->dir);
    int code = system(command);
    weft_settings_destroy(f->settings);
    weft_text_release(&f->lines);
    weft_text_release(&f->out);
    weft_error_release(&f->err);
    free(f);
    return code;
}

/* ---- what they do ---- */

/* The rank computes in this block. */
static void at(fixture *f, int rank, const char *op, int block)
{
    const weft_op is = {.name = op};
    weft_value value = {.name = "x"}, *outs[] = {&value};
    const weft_node node = {
        .op = &is, .outs = outs, .n_outs = 1, .block = block, .by = "fsdp", .stage = 0};
    const weft_node *const nodes[] = {&node};
    const weft_instruction_view in = {.program = "forward", .nodes = nodes, .n_nodes = 1};
    event(f, rank, WEFT_EVENT_INSTRUCTION_BEGIN,
          (weft_run_view){.step = 7, .micro_batch = 1, .instruction = &in});
}

static void collective(fixture *f, int rank, void *of, int64_t count)
{
    wrapped()->all_gather(f->rank[rank], of, NULL, NULL, count, WEFT_F32, NULL, &f->err);
}

/* The rank is inside it and stays there: as if the call had not come back. */
static void enters(fixture *f, int rank, void *of, int64_t count)
{
    collective(f, rank, of, count);
    flight_ring *ring = &f->rank[rank]->ring;
    flight_entry *e = &ring->entries[(ring->head->written - 1) % ring->head->capacity];
    e->state = FLIGHT_WAITING;
    e->ended_ns = 0;
}

static weft_status command(fixture *f, const char *word, const char *value)
{
    char name[] = "flight";
    char *argv[] = {name, f->dir, (char *)(uintptr_t)word, (char *)(uintptr_t)value, NULL};
    weft_text_clear(&f->out);
    weft_error_clear(&f->err);
    return flight_command.run(&f->command, word ? 4 : 2, argv, &f->err);
}

static void says(fixture *f, const char *words)
{
    if (!strstr(weft_text_get(&f->out), words))
        fail_msg("'%s' is not in:\n%s%s", words, weft_text_get(&f->out), weft_error_text(&f->err));
}

/* ---- who is missing ---- */

static void nobody_waits(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        collective(f, r, f->all[r], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "4 of 4 ranks, recorded since 20");
    says(f, "nobody waits");
    assert_int_equal(command(f, "--rank", "2"), WEFT_OK);
    says(f, "all_gather, step 7: 8 f32, 96 bytes, group 0 1 2 3\n");
    says(f, "the process lives; last in the beginning of the step, step 7");
    assert_int_equal(command(f, "--rank", "4"), WEFT_ERR_INPUT);
}

static void one_is_missing(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        collective(f, r, f->all[r], 8);
    at(f, 2, "attention", 3);
    for (int r = 0; r < RANKS; r++) {
        if (r == 2)
            continue;
        at(f, r, "redistribute", 4);
        enters(f, r, f->all[r], 16);
    }
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather of fsdp, block 4, forward of stage 0, micro-batch 2, "
            "step 7: 16 f32 (x)\n  entered by ranks 0, 1, 3, rank 0 at ");
    says(f, "  missing: rank 2\n    rank 2: process ");
    says(f, "last in attention of fsdp, block 3, forward of stage 0, micro-batch 2, step 7, since");
}

/* Rank 3 hangs; 2 waits for it in their pair, and 0 and 1, which came before, for both. */
static void who_waits_is_not_to_blame(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    enters(f, 0, f->all[0], 8);
    enters(f, 1, f->all[1], 8);
    usleep(2000);
    enters(f, 2, f->pair[2], 5);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather, step 7: 8 f32\n  entered by ranks 0, 1,");
    says(f, "missing: ranks 2, 3\n");
    says(f, "others that wait:\n  rank 2 in all_gather, step 7: 5 f32, for rank 3\n");
    /* where 2 is the only one that is missing, and it waits itself, the other one comes first */
    enters(f, 3, f->all[3], 8);
    f->rank[3]->ring.head->written--; /* it has left nothing of it in its ring ... */
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather, step 7: 5 f32\n  entered by rank 2,");
    says(f, "  missing: rank 3\n");
}

static void a_circle_is_told(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    enters(f, 0, f->all[0], 8);
    enters(f, 1, f->pair[1], 8); /* waits for 0, which waits for 1 */
    enters(f, 2, f->all[2], 8);
    enters(f, 3, f->all[3], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "which wait for others in a circle");
}

static void different_operations_are_told(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], r == 1 ? 9 : 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "ranks of one group differ in its operation 1:\n    rank 0: all_gather, step 7: 8 f32\n"
            "    rank 1: all_gather, step 7: 9 f32\n");
}

static void all_have_entered(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "all have entered this operation, and not all have left it: all_gather");
}

static void a_record_is_missing(void **state)
{
    fixture *f = *state;
    char path[192];
    begin(f, "[flight]\n");
    for (int r = 0; r < 3; r++)
        enters(f, r, f->all[r], 8);
    snprintf(path, sizeof path, "%s/flight/%s/rank-3", f->dir, f->rank[0]->id);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "3 of 4 ranks");
    says(f, "without a record: rank 3");
}

static void transfers_are_matched(void **state)
{
    fixture *f = *state;
    weft_request *request;
    begin(f, "[flight]\n");
    at(f, 1, "redistribute", 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            wrapped()->recv(f->rank[1], f->pair[1], 0, NULL, 6, WEFT_BF16, NULL, &request, &f->err),
            WEFT_OK);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK); /* nobody waits for it yet */
    says(f, "nobody waits");
    weft_request *sent;
    assert_int_equal(
        wrapped()->send(f->rank[0], f->pair[0], 1, NULL, 6, WEFT_BF16, NULL, &sent, &f->err),
        WEFT_OK);
    result = WEFT_ERR_PEER; /* the second one was never sent */
    assert_int_equal(wrapped()->wait(f->rank[1], request, NULL, &f->err), WEFT_ERR_PEER);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: recv of fsdp, block 2, forward of stage 0, micro-batch 2, step "
            "7: 6 bf16 from rank 0 (x)");
    says(f, "  missing: rank 0\n");
    assert_int_equal(command(f, "--rank", "1"), WEFT_OK);
    says(f, "  failed  recv of fsdp");
}

/* ---- rings and files ---- */

static void the_ring_turns(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\nentries = 16\n");
    for (int i = 0; i < 40; i++)
        for (int r = 0; r < RANKS; r++)
            collective(f, r, f->all[r], i);
    for (int r = 1; r < RANKS; r++)
        enters(f, r, f->all[r], 99);
    assert_int_equal(command(f, "--rank", "0"), WEFT_OK);
    assert_null(strstr(weft_text_get(&f->out), "step 7: 23 f32"));
    says(f, "step 7: 24 f32");
    says(f, "step 7: 39 f32");
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "missing: rank 0\n");
}

static void old_records_go(void **state)
{
    fixture *f = *state;
    char path[192];
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/flight/2020010%dT000000Z-1", f->dir, i + 1);
        assert_int_equal(weft_make_dirs(path, NULL), WEFT_OK);
    }
    snprintf(path, sizeof path, "%s/flight/mine", f->dir);
    assert_int_equal(weft_make_dirs(path, NULL), WEFT_OK);
    begin(f, "[flight]\nkeep = 2\n");
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/flight/2020010%dT000000Z-1", f->dir, i + 1);
        assert_int_equal(access(path, F_OK), i == 4 ? 0 : -1);
    }
    snprintf(path, sizeof path, "%s/flight/mine", f->dir);
    assert_int_equal(access(path, F_OK), 0);
}

/* Whatever a byte is changed to, the command says something and goes on living. */
static void damage_does_not_kill(void **state)
{
    fixture *f = *state;
    char path[192], *data, *copy;
    size_t size;
    begin(f, "[flight]\nentries = 16\n");
    for (int r = 1; r < RANKS; r++)
        enters(f, r, f->all[r], 99);
    snprintf(path, sizeof path, "%s/flight/%s/rank-0", f->dir, f->rank[0]->id);
    end_rank(f, 0);
    assert_int_equal(weft_read_file(path, &data, &size, NULL), WEFT_OK);
    copy = weft_alloc(size);
    int refused = 0;
    for (size_t i = 0; i < size; i = i < 900 ? i + 1 : i + 61) {
        memcpy(copy, data, size);
        copy[i] = (char)~copy[i];
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(copy, 1, size, file), size);
        fclose(file);
        refused += command(f, NULL, NULL) != WEFT_OK;
        command(f, "--rank", "0");
    }
    assert_true(refused > 50);
    for (size_t cut = 0; cut < size; cut += 97) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(data, 1, cut, file), cut);
        fclose(file);
        assert_int_equal(command(f, NULL, NULL), WEFT_ERR_INPUT);
    }
    weft_free(copy);
    weft_free(data);
}

static void nothing_there(void **state)
{
    fixture *f = *state;
    assert_int_equal(command(f, NULL, NULL), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "has no flight/"));
}

static void processes_are_known(void **state)
{
    (void)state;
    bool stopped = true;
    assert_true(flight_process_start(getpid(), &stopped) > 0);
    assert_false(stopped);
    assert_true(flight_process_start(1 << 30, NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(one_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_is_not_to_blame, setup, teardown),
        cmocka_unit_test_setup_teardown(a_circle_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(different_operations_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(all_have_entered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(transfers_are_matched, setup, teardown),
        cmocka_unit_test_setup_teardown(the_ring_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(old_records_go, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_does_not_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_there, setup, teardown),
        cmocka_unit_test(processes_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
