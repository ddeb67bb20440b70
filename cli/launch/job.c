/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers say in the environment. */
#include "job.h"
#include "net/token.h"
#include "stop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 1 << 20 };

static const struct launcher {
    const char *name, *rank, *ranks, *local_ranks;
    const char *only_if; /* a variable without which the others say nothing: a Slurm batch script
                            has them, too, before srun */
} launchers[] = {
    {"weft", "WEFT_RANK", "WEFT_RANKS", "WEFT_LOCAL_RANKS", NULL},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID"},
};

/* NULL if it is not set, or empty. */
static const char *get(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if ((get(launchers[i].rank) || get(launchers[i].ranks)) &&
            (!launchers[i].only_if || get(launchers[i].only_if)))
            return &launchers[i];
    return NULL;
}

/* tail: something may follow the number, as in "4(x2)". */
static weft_status read_number(const char *name, long low, long high, bool tail, int *out,
                               weft_error *err)
{
    const char *text = get(name);
    if (!text)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s is not set in the environment",
                         name);
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || errno || (*end && !tail) || number < low || number > high)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s=%s in the environment: it must be an integer from %ld to %ld", name,
                         text, low, high);
    *out = (int)number;
    return WEFT_OK;
}

static weft_status read_ranks(const struct launcher *l, weft_job *job, weft_error *err)
{
    weft_status s = read_number(l->ranks, 1, MOST_RANKS, false, &job->ranks, err);
    weft_status t =
        read_number(l->rank, 0, s ? MOST_RANKS : job->ranks - 1, false, &job->rank, err);
    job->local_ranks = 0;
    weft_status u = get(l->local_ranks)
                        ? read_number(l->local_ranks, 1, s ? MOST_RANKS : job->ranks, l->only_if,
                                      &job->local_ranks, err)
                        : WEFT_OK;
    return s ? s : t ? t : u;
}

/* torchrun's agent listens on the port itself: then the next one is ours. */
static weft_status read_master_port(weft_job *job, weft_error *err)
{
    const char *host = get("MASTER_ADDR"), *agent = get("TORCHELASTIC_USE_AGENT_STORE");
    bool taken = agent && strcmp(agent, "True") == 0;
    int port;
    if (!host)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "MASTER_PORT is set in the environment, and MASTER_ADDR is not");
    weft_status s = read_number("MASTER_PORT", 1, taken ? 65534 : 65535, false, &port, err);
    if (s)
        return s;
    job->master = weft_format(strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port + taken);
    return job->master ? WEFT_OK : weft_fail_memory(err);
}

/* On one host a job needs no address, and no token: its name will do. */
static const char *job_name(const weft_job *job)
{
    const char *hosts = get("SLURM_STEP_NUM_NODES"), *id = get("OMPI_MCA_ess_base_jobid");
    if (strcmp(job->launcher, "torchrun") == 0)
        return job->local_ranks == job->ranks ? get("TORCHELASTIC_RUN_ID") : NULL;
    if (strcmp(job->launcher, "Slurm") == 0)
        return hosts && strcmp(hosts, "1") == 0 ? get("SLURM_JOB_ID") : NULL;
    if (strcmp(job->launcher, "Open MPI") != 0 || job->local_ranks != job->ranks)
        return NULL;
    return id ? id : get("PMIX_NAMESPACE");
}

/* The first name of Slurm's list, of which "rack[1-2]node[03,7],login" means rack1node03. */
static char *first_node(const char *list)
{
    weft_text name = {0};
    for (const char *p = list; *p && *p != ','; p++) {
        if (*p != '[') {
            weft_text_add_bytes(&name, p, 1);
            continue;
        }
        weft_text_add_bytes(&name, p + 1, strcspn(p + 1, "-,]"));
        p = strchr(p, ']');
        if (!p)
            break;
    }
    char *first = name.out_of_memory ? NULL : weft_strdup(weft_text_get(&name));
    weft_text_release(&name);
    return first;
}

/* A step of Slurm's over several hosts: the first of them, where rank 0 is, and a port that no
 * other step has, as far as numbers of jobs and steps that are near each other go. A host often
 * takes its own name for that of its loopback address, so rank 0 listens at all it has. */
static weft_status find_slurm_master(weft_job *job, weft_error *err)
{
    enum { FIRST_PORT = 20000, PORTS = 12000, STEPS = 16 };
    long number = strtol(get("SLURM_JOB_ID"), NULL, 10),
         step = strtol(get("SLURM_STEP_ID"), NULL, 10);
    unsigned long at = (unsigned long)number * STEPS + (unsigned long)step;
    char *host = job->rank == 0 ? weft_strdup("0.0.0.0") : first_node(get("SLURM_STEP_NODELIST"));
    job->master = host ? weft_format("%s:%lu", host, FIRST_PORT + at % PORTS) : NULL;
    weft_free(host);
    return job->master ? WEFT_OK : weft_fail_memory(err);
}

static weft_status find_master(weft_job *job, weft_error *err)
{
    const bool by_torchrun = strcmp(job->launcher, "torchrun") == 0;
    const char *master = get("WEFT_MASTER"), *name = job_name(job),
               *step = get(by_torchrun ? "MASTER_PORT" : "SLURM_STEP_ID");
    if (!master && !(by_torchrun && name) && (get("MASTER_ADDR") || get("MASTER_PORT")))
        return read_master_port(job, err);
    if (!master && !name && strcmp(job->launcher, "Slurm") == 0 && get("SLURM_STEP_NODELIST") &&
        get("SLURM_JOB_ID"))
        return find_slurm_master(job, err);
    if (!master && !name)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s's variables say that this is rank %d of %d, but not where rank 0 can "
                         "be found; set WEFT_MASTER=host:port, with the host that "
                         "rank 0 runs on and a free port there, for all ranks",
                         job->launcher, job->rank, job->ranks);
    job->master =
        master ? weft_strdup(master)
               : weft_format("@weft-%ld-%.60s.%.20s", (long)getuid(), name, step ? step : "");
    return job->master ? WEFT_OK : weft_fail_memory(err);
}

static bool is_here(const char *master)
{
    return *master == '@' || strncmp(master, "127.", 4) == 0 ||
           strncmp(master, "localhost:", 10) == 0 || strncmp(master, "[::1]:", 6) == 0;
}

weft_status weft_job_find(weft_job *job, weft_error *err)
{
    const struct launcher *l = find_launcher();
    *job = (weft_job){.ranks = 1, .local_ranks = 1};
    if (!l)
        return WEFT_OK;
    job->launcher = l->name;
    weft_status s = read_ranks(l, job, err);
    if (!s && job->ranks > 1) {
        weft_status t = find_master(job, err), u = weft_token_read(&job->token, err);
        s = t ? t : u;
    }
    weft_token_forget(); /* weft_job_launch makes another for its ranks */
    if (!s && job->local_ranks == 0)
        job->local_ranks = job->master && is_here(job->master) ? job->ranks : 1;
    return s;
}

void weft_job_release(weft_job *job)
{
    weft_free(job->master);
    weft_token_destroy(job->token);
    *job = (weft_job){0};
}

/* ---- which way ---- */

/* weft train -n starts ranks on this host alone. */
static weft_status check_hosts(const weft_cli_options *options, weft_error *err)
{
    const char *hosts = get(get("SLURM_STEP_ID") ? "SLURM_STEP_NUM_NODES" : "SLURM_JOB_NUM_NODES");
    if (!get("SLURM_JOB_ID") || !hosts || strtol(hosts, NULL, 10) < 2)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "weft train -n starts its ranks on this host alone, and the job has %s; "
                     "start them with: srun --mpi=pmix -n %d weft train run.ini",
                     hosts, options->ranks);
}

static void say_nothing(void *self, weft_log_level level, const char *line)
{
    (void)self, (void)level, (void)line;
}

/* Can the ranks of the listed transport be threads? Its table says so before it is created. */
static bool wants_processes(const weft_plugins *plugins)
{
    const weft_loaded *loaded;
    const weft_contribution *c;
    for (int i = 0, k = 0; weft_plugins_next(plugins, WEFT_SERVICE, &i, &k, &loaded, &c);)
        if (strcmp(c->service, "transport") == 0)
            return !(((const weft_transport *)c->table)->ranks & WEFT_RANKS_THREADS);
    return false;
}

/* What is wrong with the plugins, the ranks will say themselves. */
static weft_status needs_processes(const weft_cli_options *options, bool *processes,
                                   weft_error *err)
{
    static const weft_log silent = {say_nothing, NULL};
    weft_settings *settings;
    weft_plugins *plugins = NULL;
    weft_error unsaid = {0};
    *processes = false;
    weft_status s = weft_cli_settings(options, &settings, err);
    if (s)
        return s;
    if (weft_plugins_load(settings, &silent, &plugins, &unsaid) == WEFT_OK)
        *processes = wants_processes(plugins);
    weft_plugins_destroy(plugins);
    weft_error_release(&unsaid);
    weft_settings_destroy(settings);
    return WEFT_OK;
}

/* Of several processes, one that fails has aborted what ranks share, and threads of libraries may
 * still be on their way out of that: what these libraries have done at the exit would take away
 * what they stand on. */
static void end_at_once(int code)
{
    fflush(NULL);
#ifndef __SANITIZE_ADDRESS__ /* which looks for leaks at the exit */
    _exit(code);
#endif
    (void)code;
}

int weft_job_run(int argc, char **argv, const weft_cli_options *options,
                 weft_status (*body)(weft_rank *rank, void *ctx), void *ctx)
{
    weft_job job;
    weft_error err = {0};
    int code;
    bool processes = false;
    weft_status s = weft_job_find(&job, &err);
    if (!s && job.ranks > 1 && options->ranks > 0 && options->ranks != job.ranks)
        s = weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "-n %d, but %s has started %d ranks; leave -n out here", options->ranks,
                      job.launcher, job.ranks);
    if (!s && job.ranks == 1 && options->ranks > 1 && !options->threads)
        s = needs_processes(options, &processes, &err);
    if (!s && processes)
        s = check_hosts(options, &err);
    if (s)
        code = weft_cli_conclude(s, &err);
    else if (processes)
        code = weft_job_launch(argc, argv, options);
    else if (weft_stop_attend(job.rank == 0, &err))
        code = weft_cli_report(&err);
    else if (job.ranks > 1)
        code = weft_job_join(&job, options, body, ctx);
    else
        code = weft_ranks_run(options, false, body, ctx);
    if (job.launcher)
        weft_job_end(code);
    const bool at_once = code && job.ranks > 1;
    weft_job_release(&job);
    weft_error_release(&err);
    if (at_once)
        end_at_once(code);
    return code;
}
