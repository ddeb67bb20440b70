/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes: found in the environment, joined, or started with mpirun. */
#ifndef WEFT_CLI_LAUNCH_JOB_H
#define WEFT_CLI_LAUNCH_JOB_H

#include "ranks.h"

#include <sys/types.h>

/* What a launcher's variables say about this process. */
typedef struct weft_job {
    int rank, ranks, local_ranks; /* local_ranks: on this host, at least 1 */
    const char *launcher;         /* whose variables: "torchrun"; NULL: none are set */
    char *master;                 /* where rank 0 listens; NULL with one rank */
    char *token;                  /* the secret that the ranks share; NULL with one rank */
} weft_job;

/* Reads the environment: weft's own variables, torchrun's, Open MPI's, Slurm's, the first that are
 * there. None: one rank. Variables that do not fit together are errors, all at once. Release in
 * every case. */
weft_status weft_job_find(weft_job *job, weft_error *err);
void weft_job_release(weft_job *job);

/* Runs body as one rank of the job, in this process. Only rank 0 reports; all ranks return the same
 * exit code. */
int weft_job_join(const weft_job *job, const weft_cli_options *options,
                  weft_status (*body)(weft_rank *rank, void *ctx), void *ctx);

/* Starts options->ranks processes of this program under mpirun, with the same arguments (argv[0]:
 * the subcommand), passes SIGINT and SIGTERM on to them as SIGUSR1 (a second one ends them and this
 * process at once) and returns their exit code. Whatever happens, no rank is left on this host. */
int weft_job_launch(int argc, char **argv, const weft_cli_options *options);

/* Kills this program's processes whose parent this is; returns how many there were. */
int weft_job_kill_ranks(pid_t parent);

/* Where /proc's answers fit. */
enum { WEFT_MOST_PROGRAM = 4096 };
/* The program of a process; "" if it is none of this user's, or has ended. */
void weft_job_find_program(long pid, char program[WEFT_MOST_PROGRAM]);
/* -1: it has ended. */
long weft_job_find_parent(long pid);

/* A rank ends with that code. Where it has failed under an mpirun of several hosts it leaves a
 * process behind, which ends mpirun, or its daemon on this host, if that is there 15 s later. */
void weft_job_end(int code);
/* Tells weft_job_launch, if that has started this process, what it ends with. */
void weft_job_tell(int code);

/* Where the launcher hears that; what others say than this user's processes is ignored. */
typedef struct weft_farewells {
    int fd, n, code; /* n ranks have ended by themselves; code: the first that is not 0 */
} weft_farewells;

/* At the name in WEFT_LAUNCHER; *fd is the caller's to close. */
weft_status weft_farewells_listen(int *fd, weft_error *err);
/* Takes what has come, without waiting. */
void weft_farewells_take(weft_farewells *f);

/* Whichever of these the environment and the listed plugins ask for, else threads of this process.
 */
int weft_job_run(int argc, char **argv, const weft_cli_options *options,
                 weft_status (*body)(weft_rank *rank, void *ctx), void *ctx);

#endif
