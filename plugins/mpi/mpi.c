/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes that talk through MPI. */
#include "mpi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct transport {
    const weft_host *host;
    bool initialised; /* counted in `users` */
    int *world;       /* by rank of the run: its rank in MPI_COMM_WORLD */
    atomic_bool left;
} transport;

/* ---- MPI itself, once per process ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;

static weft_status initialise(weft_error *err)
{
    int before = 0, after = 0, given;
    MPI_Initialized(&before);
    MPI_Finalized(&after);
    if (after)
        return weft_fail(
            err, WEFT_ERR_RUN, WEFT_NOWHERE,
            "mpi: MPI has been used and closed in this process; it cannot be opened again");
    if (before)
        return WEFT_OK;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    if (code != MPI_SUCCESS)
        return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                         "mpi: MPI cannot be initialised (code %d)", code);
    code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS)
        return mpi_error(code, "MPI_Comm_set_errhandler", err);
    return given >= MPI_THREAD_FUNNELED
               ? WEFT_OK
               : weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                           "mpi: this MPI library is not made for programs with threads");
}

static weft_status acquire(transport *t, weft_error *err)
{
    pthread_mutex_lock(&lock);
    weft_status s = initialise(err);
    if (!s) {
        users++;
        t->initialised = true;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

/* MPI's own waiting neither rests nor notices a rank that hangs, so all ranks meet before each call
 * of it that waits for all. */
static weft_status meet(transport *t, weft_error *err)
{
    char mine = 0;
    char *all = weft_alloc((size_t)t->host->ranks);
    weft_status s =
        all ? t->host->exchange(t->host, &mine, sizeof mine, all, err) : weft_fail_memory(err);
    weft_free(all);
    return s;
}

/* When a rank has ended early MPI is left as it is: to finalise it, all ranks must take part. */
static void release(transport *t)
{
    bool all = t->initialised && !atomic_load(&t->left) && meet(t, NULL) == WEFT_OK;
    pthread_mutex_lock(&lock);
    if (t->initialised && --users == 0 && all)
        MPI_Finalize();
    t->initialised = false;
    pthread_mutex_unlock(&lock);
}

/* ---- groups ---- */

static void ungroup(void *self, void *handle)
{
    (void)self; /* the communicator goes with MPI itself: to free it, all members must take part,
                   and some may have ended */
    group *g = handle;
    mpi_drop_transfers(g);
    weft_free(g->ranks);
    weft_free(g->absent);
    weft_pairs_release(&g->pairs);
    weft_free(g->requests);
    weft_free(g->with);
    weft_free(g);
}

static weft_status make_comm(transport *t, const int *ranks, int n, MPI_Comm *out, weft_error *err)
{
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    int *list = weft_alloc((size_t)n * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    for (int i = 0; i < n; i++)
        list[i] = t->world[ranks[i]];
    int code = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (code == MPI_SUCCESS)
        code = MPI_Group_incl(all, n, list, &members);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, out);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    weft_free(list);
    return code == MPI_SUCCESS ? WEFT_OK : mpi_error(code, "a group of ranks cannot be made", err);
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    transport *t = self;
    group *g = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    g->host = t->host;
    g->comm = MPI_COMM_NULL;
    g->n = n;
    g->me = me;
    g->left = &t->left;
    g->ranks = weft_alloc_zero((size_t)n, sizeof *g->ranks);
    g->absent = weft_alloc_zero((size_t)n, sizeof *g->absent);
    g->requests = weft_alloc_zero(2 * (size_t)n, sizeof *g->requests);
    g->with = weft_alloc_zero(2 * (size_t)n, sizeof *g->with);
    weft_status s = weft_pairs_init(&g->pairs, n, me, mpi_swap, g, err);
    if (!s && (!g->ranks || !g->absent || !g->requests || !g->with))
        s = weft_fail_memory(err);
    if (!s)
        memcpy(g->ranks, ranks, (size_t)n * sizeof *ranks);
    s = s ? s : meet(t, err);
    s = s ? s : make_comm(t, ranks, n, &g->comm, err);
    if (s)
        ungroup(self, g);
    else
        *out = g;
    return s;
}

/* ---- the plugin ---- */

static weft_status create(void *self, weft_error *err)
{
    (void)err;
    transport *t = self;
    atomic_init(&t->left, false);
    return WEFT_OK;
}

/* Open MPI speaks PMIx with whoever has started it; its own message about a srun that does not is
 * two pages long. */
static weft_status check_launcher(weft_error *err)
{
#ifdef OPEN_MPI
    if (getenv("SLURM_STEP_ID") && !getenv("PMIX_NAMESPACE") && !getenv("OMPI_COMM_WORLD_RANK"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "mpi: srun has started this rank without PMIx, which Open MPI needs; use "
                         "srun --mpi=pmix, or list ucx in place of mpi, which does not need it");
#endif
    (void)err;
    return WEFT_OK;
}

static weft_status open_world(void *self, weft_error *err)
{
    transport *t = self;
    int ranks = t->host->ranks, size = 0, rank = 0;
    if (ranks == 1)
        return WEFT_OK; /* no groups, no messages */
    t->world = weft_alloc((size_t)ranks * sizeof *t->world);
    if (!t->world)
        return weft_fail_memory(err);
    weft_status s = check_launcher(err);
    s = s ? s : meet(t, err);
    s = s ? s : acquire(t, err);
    if (s)
        return s;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != ranks)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "mpi: the run has %d ranks, but MPI knows of %d process%s; start it with "
                         "`weft train run.ini -n %d`, mpirun or srun",
                         ranks, size, size == 1 ? "" : "es", ranks);
    return t->host->exchange(t->host, &rank, sizeof rank, t->world, err);
}

/* May be called from another thread, while the rank's own waits. */
static void leave(void *self)
{
    atomic_store(&((transport *)self)->left, true);
}

static void close_world(void *self)
{
    transport *t = self;
    release(t);
    weft_free(t->world);
    t->world = NULL;
}

static void destroy(void *self)
{
    transport *t = self;
    if (t)
        weft_free(t->world); /* close is not called when open has failed */
}

static const weft_transport table = {
    .size = sizeof(weft_transport),
    .name = "mpi",
    .ranks = WEFT_RANKS_PROCESSES,
    .ordered = true,
    .group = make_group,
    .ungroup = ungroup,
    .leave = leave,
    .all_gather = mpi_all_gather,
    .reduce_scatter = mpi_reduce_scatter,
    .all_reduce = mpi_all_reduce,
    .all_to_all = mpi_all_to_all,
    .send = mpi_send,
    .recv = mpi_recv,
    .wait = mpi_wait,
    .broadcast = mpi_broadcast,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "transport", .table = &table}, {.kind = WEFT_END}};

WEFT_PLUGIN(mpi) = {
    WEFT_PLUGIN_HEAD,
    .name = "mpi",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "ranks as processes that talk through MPI",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .self_size = WEFT_SELF(transport),
    .create = create,
    .open = open_world,
    .close = close_world,
    .destroy = destroy,
};
