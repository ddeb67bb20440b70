/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern const weft_plugin flight_LTX_plugin;

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

weft_status result;

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

const weft_transport *wrapped(void)
{
    return item(WEFT_WRAP)->table;
}

void event(fixture *f, int rank, weft_event which, weft_run_view run)
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
    assert_int_equal(created_init(&flight_LTX_plugin, &f->host[rank], &self, &f->err), WEFT_OK);
    f->rank[rank] = self;
    assert_int_equal(item(WEFT_WRAP)->wrap(self, &nothing, NULL, &f->err), WEFT_OK);
    assert_int_equal(flight_LTX_plugin.open(self, &f->err), WEFT_OK);
    memcpy(f->rank[rank]->id, f->rank[0]->id, sizeof f->rank[0]->id);
    f->rank[rank]->run_ns = f->rank[0]->run_ns;
    assert_int_equal(wrapped()->group(self, everybody, RANKS, rank, &f->all[rank], &f->err),
                     WEFT_OK);
    assert_int_equal(wrapped()->group(self, pairs[rank / 2], 2, rank % 2, &f->pair[rank], &f->err),
                     WEFT_OK);
    event(f, rank, WEFT_EVENT_START, (weft_run_view){0});
    event(f, rank, WEFT_EVENT_STEP_BEGIN, (weft_run_view){.step = 7});
}

void begin(fixture *f, const char *ini)
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

void end_rank(fixture *f, int rank)
{
    if (!f->rank[rank])
        return;
    wrapped()->ungroup(f->rank[rank], f->pair[rank]);
    wrapped()->ungroup(f->rank[rank], f->all[rank]);
    created_release(&flight_LTX_plugin, &f->host[rank], f->rank[rank]);
    f->rank[rank] = NULL;
}

int setup(void **state)
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

int teardown(void **state)
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

void at(fixture *f, int rank, const char *op, int block)
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

void collective(fixture *f, int rank, void *of, int64_t count)
{
    wrapped()->all_gather(f->rank[rank], of, NULL, NULL, count, WEFT_F32, NULL, &f->err);
}

void enters(fixture *f, int rank, void *of, int64_t count)
{
    collective(f, rank, of, count);
    flight_ring *ring = &f->rank[rank]->ring;
    flight_entry *e = &ring->entries[(ring->head->written - 1) % ring->head->capacity];
    e->state = FLIGHT_WAITING;
    e->ended_ns = 0;
}

weft_status command(fixture *f, const char *word, const char *value)
{
    char name[] = "flight", wait[] = "--wait=0";
    char *argv[] = {name, f->dir, wait, (char *)(uintptr_t)word, (char *)(uintptr_t)value, NULL};
    weft_text_clear(&f->out);
    weft_text_clear(&f->lines);
    weft_error_clear(&f->err);
    return flight_command.run(&f->command, word ? 5 : 3, argv, &f->err);
}

void says(fixture *f, const char *words)
{
    if (!strstr(weft_text_get(&f->out), words))
        fail_msg("'%s' is not in:\n%s%s", words, weft_text_get(&f->out), weft_error_text(&f->err));
}

void says_not(fixture *f, const char *words)
{
    if (strstr(weft_text_get(&f->out), words))
        fail_msg("'%s' is in:\n%s", words, weft_text_get(&f->out));
}

void warns(fixture *f, const char *words)
{
    if (!strstr(weft_text_get(&f->lines), words))
        fail_msg("'%s' is not in:\n%s%s", words, weft_text_get(&f->lines),
                 weft_error_text(&f->err));
}

void path_of(fixture *f, int rank, char *path, size_t size)
{
    snprintf(path, size, "%s/flight/%s/rank-%d", f->dir, f->rank[0]->id, rank);
}

/* ---- what becomes of them ---- */

void becomes(fixture *f, int rank, int64_t pid)
{
    flight_head *head = f->rank[rank]->ring.head;
    head->pid = pid;
    head->process_start = flight_process_start(pid, NULL);
}

void is_gone(fixture *f, int rank)
{
    becomes(f, rank, (1 << 30) + rank);
}

void ends_with(fixture *f, int rank, weft_status status)
{
    event(f, rank, WEFT_EVENT_STOP, (weft_run_view){.step = 7, .status = status});
}

void receives(fixture *f, int rank, int from)
{
    weft_request *request;
    assert_int_equal(wrapped()->recv(f->rank[rank], f->all[rank], from, NULL, 6, WEFT_BF16, NULL,
                                     &request, &f->err),
                     WEFT_OK);
    assert_int_equal(wrapped()->wait(f->rank[rank], request, NULL, &f->err), WEFT_OK);
    flight_ring *ring = &f->rank[rank]->ring;
    flight_entry *e = &ring->entries[(ring->head->written - 1) % ring->head->capacity];
    e->state = FLIGHT_WAITING;
    e->ended_ns = 0;
}

pid_t forked(void)
{
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    assert_true(pid >= 0);
    return pid;
}

pid_t stopped_process(void)
{
    int status;
    pid_t pid = forked();
    if (pid == 0)
        for (;;)
            pause();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    return pid;
}

void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
