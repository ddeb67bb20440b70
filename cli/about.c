/* SPDX-License-Identifier: Apache-2.0 */
#include "about.h"

#include "print/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>
#include <weft/random.h>

extern const char weft_commit[]; /* made by the build */

weft_status weft_about_init(weft_about *about, weft_rank *rank)
{
    const weft_host *host = &rank->session.host;
    weft_about_rank mine = {.pid = getpid()};
    if (gethostname(mine.host, sizeof mine.host - 1) != 0)
        mine.host[0] = '\0';
    about->n = host->ranks;
    about->started_ns = weft_utc();
    about->ranks = weft_alloc_zero((size_t)host->ranks, sizeof *about->ranks);
    if (!about->ranks)
        return weft_fail_memory(&rank->err);
    about->ranks[0] = mine;
    return rank->control ? weft_control_exchange(rank->control, host->rank, &mine, sizeof mine,
                                                 about->ranks, &rank->err)
                         : WEFT_OK;
}

void weft_about_release(weft_about *about)
{
    weft_free(about->ranks);
    *about = (weft_about){0};
}

bool weft_about_job(weft_text *text)
{
    static const char *const known[][2] = {{"slurm", "SLURM_JOB_ID"},
                                           {"torchrun", "TORCHELASTIC_RUN_ID"},
                                           {"pbs", "PBS_JOBID"},
                                           {"lsf", "LSB_JOBID"},
                                           {"flux", "FLUX_JOB_ID"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *id = getenv(known[i][1]);
        if (!id || !*id)
            continue;
        weft_text_print(text, "%s %s", known[i][0], id);
        return true;
    }
    return false;
}

/* "0-3 on a, 4 on b" */
static void print_hosts(const weft_about *about, weft_text *text)
{
    for (int r = 0, first = 0; r < about->n; r++) {
        if (r + 1 < about->n && strcmp(about->ranks[r].host, about->ranks[r + 1].host) == 0)
            continue;
        weft_text_print(text, "%s%d", first ? ", " : "", first);
        if (r > first)
            weft_text_print(text, "-%d", r);
        weft_text_print(text, " on %s", about->ranks[r].host);
        first = r + 1;
    }
}

void weft_about_print_line(const weft_about *about, weft_text *text)
{
    weft_text job = {0};
    weft_text_add_utc(text, about->started_ns);
    weft_text_print(text, " weft %s (commit %s)", WEFT_VERSION, weft_commit);
    if (weft_about_job(&job))
        weft_text_print(text, ", job %s", weft_text_get(&job));
    weft_text_print(text, ", process %ld, %d rank%s: ", (long)getpid(), about->n,
                    about->n == 1 ? "" : "s");
    print_hosts(about, text);
    weft_text_add(text, "\n");
    weft_text_release(&job);
}

/* ---- which run this is ---- */

weft_status weft_about_program(const weft_plan *plan, uint64_t *out, weft_error *err)
{
    bool whole = true;
    *out = weft_hash_name("");
    for (int m = 0; m < WEFT_MODES && whole; m++) {
        weft_text text = {0};
        if (plan->graphs[m])
            weft_graph_print_whole(plan->graphs[m], &text);
        *out = weft_hash_bytes(*out, weft_text_get(&text), text.size);
        whole = !text.out_of_memory;
        weft_text_release(&text);
    }
    return whole ? WEFT_OK : weft_fail_memory(err);
}

/* The words of the command, as the system knows them. */
static void print_argv(weft_text *text)
{
    char *data = NULL;
    size_t size = 0;
    weft_error unsaid = {0};
    weft_text_add(text, "[");
    if (weft_read_file("/proc/self/cmdline", &data, &size, &unsaid) == WEFT_OK)
        for (size_t at = 0; at < size; at += strlen(data + at) + 1) {
            weft_text word = {0};
            weft_text_add_utf8(&word, data + at, strlen(data + at));
            weft_text_add(text, at ? ", " : "");
            weft_text_add_json(text, weft_text_get(&word));
            text->out_of_memory = text->out_of_memory || word.out_of_memory;
            weft_text_release(&word);
        }
    weft_text_add(text, "]");
    weft_error_release(&unsaid);
    weft_free(data);
}

static void print_plugins(const weft_plugins *plugins, weft_text *text)
{
    for (int i = 0; i < plugins->n; i++) {
        const weft_module *m = &plugins->list[i].module;
        weft_text_print(text, "%s\n{\"name\": \"%s\", \"version\": ", i ? "," : "",
                        m->plugin->name);
        weft_text_add_json(text, m->plugin->version);
        weft_text_print(text, ", \"sha256\": \"%s\"}", m->path ? m->id.sha256 : "");
    }
}

static void print_identity(const weft_about *about, weft_text *text)
{
    const weft_plan *plan = about->plan;
    weft_error unsaid = {0};
    uint64_t program;
    weft_text_print(text,
                    ", \"seed\": %" PRId64 ", \"argv\": ", weft_params_int(plan->train, "seed"));
    print_argv(text);
    if (weft_about_program(plan, &program, &unsaid) == WEFT_OK)
        weft_text_print(text, ", \"program\": \"%016" PRIx64 "\"", program);
    weft_text_print(text, ", \"data\": \"%016" PRIx64 "\", \"plugins\": [", about->data_id);
    print_plugins(plan->plugins, text);
    weft_text_add(text, "\n]");
    weft_error_release(&unsaid);
}

void weft_about_print_json(const weft_about *about, weft_text *text)
{
    weft_text job = {0};
    bool has_job = weft_about_job(&job);
    weft_text_add(text, "{\"version\": \"" WEFT_VERSION "\", \"commit\": ");
    weft_text_add_json(text, weft_commit);
    weft_text_add(text, ", \"started\": \"");
    weft_text_add_utc(text, about->started_ns);
    weft_text_add(text, "\", \"job\": ");
    if (has_job)
        weft_text_add_json(text, weft_text_get(&job));
    else
        weft_text_add(text, "null");
    weft_text_print(text, ", \"steps\": %lld, \"ranks\": [", (long long)about->steps);
    for (int r = 0; r < about->n; r++) {
        weft_text_add(text, r ? ",\n{\"host\": " : "\n{\"host\": ");
        weft_text_add_json(text, about->ranks[r].host);
        weft_text_print(text, ", \"pid\": %lld}", (long long)about->ranks[r].pid);
    }
    weft_text_add(text, "\n]");
    print_identity(about, text);
    weft_text_release(&job);
}
