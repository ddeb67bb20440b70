/* SPDX-License-Identifier: Apache-2.0 */
/* One algorithm for each product, on all ranks: ranks that hold the same value compute it each for
 * itself and must get the same bits, which two algorithms need not give, and no clock says the same
 * twice. So the first rank that has a product times it, or trusts what rank 0 has kept, and tells
 * all others. Without [cuda] products = timed there is nothing to settle: heuristics say the same
 * wherever GPU and library are the same. */
#include "choices.h"
#include "dnn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <weft/random.h>

typedef struct settling {
    cuda *c;
    char *machine, *path; /* path: rank 0, NULL: nothing is kept */
    uint64_t hash;        /* of machine */
    cuda_choice *all;     /* [n] of all ranks, the same on each */
    int *owner;           /* [n] who times it */
    int n;
} settling;

static bool is_same(const cuda_choice *a, const cuda_choice *b)
{
    return a->machine == b->machine && memcmp(&a->product, &b->product, sizeof a->product) == 0;
}

static int find(const cuda_choice *list, int n, const cuda_choice *wanted)
{
    int i = 0;
    while (i < n && !is_same(&list[i], wanted))
        i++;
    return i;
}

/* ---- which products there are ---- */

/* What this rank has, each once; room for `count`. */
static int list_own(const settling *s, cuda_choice *list, int count)
{
    int n = 0;
    for (const cuda_matmul *m = s->c->products->all; m; m = m->next) {
        const cuda_choice choice = {.product = m->product, .machine = s->hash};
        if (n < count && find(list, n, &choice) == n)
            list[n++] = choice;
    }
    return n;
}

static void unite(settling *s, const cuda_choice *of_ranks, const int64_t *counts, int64_t most)
{
    for (int r = 0; r < s->c->host->ranks; r++)
        for (int64_t i = 0; i < counts[r]; i++) {
            const cuda_choice *choice = &of_ranks[r * most + i];
            if (find(s->all, s->n, choice) < s->n)
                continue;
            s->owner[s->n] = r;
            s->all[s->n++] = *choice;
        }
}

static weft_status collect(settling *s, weft_error *err)
{
    const weft_host *host = s->c->host;
    int64_t mine = 0, most = 0, total = 0;
    for (const cuda_matmul *m = s->c->products->all; m; m = m->next)
        mine++;
    int64_t *counts = weft_alloc_zero((size_t)host->ranks, sizeof *counts);
    cuda_choice *own = weft_alloc_zero((size_t)mine + 1, sizeof *own), *of_ranks = NULL;
    weft_status status = counts && own ? WEFT_OK : weft_fail_memory(err);
    mine = status ? 0 : list_own(s, own, (int)mine);
    status = status ? status : host->exchange(host, &mine, sizeof mine, counts, err);
    for (int r = 0; r < host->ranks && !status; r++) {
        most = counts[r] > most ? counts[r] : most;
        total += counts[r];
    }
    if (!status && total > 0) {
        size_t n = (size_t)most * (size_t)host->ranks;
        cuda_choice *padded = weft_realloc(own, (size_t)most * sizeof *own);
        own = padded ? padded : own;
        of_ranks = weft_alloc_zero(n, sizeof *of_ranks);
        s->all = weft_alloc_zero((size_t)total, sizeof *s->all);
        s->owner = weft_alloc_zero((size_t)total, sizeof *s->owner);
        status = padded && of_ranks && s->all && s->owner ? WEFT_OK : weft_fail_memory(err);
        if (!status)
            memset(own + mine, 0, (size_t)(most - mine) * sizeof *own);
        status =
            status ? status : host->exchange(host, own, (size_t)most * sizeof *own, of_ranks, err);
        if (!status)
            unite(s, of_ranks, counts, most);
    }
    weft_free(of_ranks);
    weft_free(own);
    weft_free(counts);
    return status;
}

/* Everyone gets entry i as rank owner[i] has it, or all as rank 0 has them. */
static weft_status share(settling *s, const int *owner, weft_error *err)
{
    const weft_host *host = s->c->host;
    size_t bytes = (size_t)s->n * sizeof *s->all;
    cuda_choice *of_ranks = weft_alloc((size_t)host->ranks * bytes);
    if (!of_ranks)
        return weft_fail_memory(err);
    weft_status status = host->exchange(host, s->all, bytes, of_ranks, err);
    for (int i = 0; i < s->n && !status; i++)
        s->all[i] = of_ranks[(owner ? owner[i] : 0) * s->n + i];
    weft_free(of_ranks);
    return status;
}

/* ---- what is kept ---- */

static int count(const settling *s, cuda_known known)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->all[i].known == (int64_t)known;
    return n;
}

static weft_status recall(settling *s, weft_error *err)
{
    cuda_choice *list = NULL;
    int n = 0;
    if (!s->path)
        return WEFT_OK;
    weft_status status = cuda_choices_read(s->path, s->machine, s->c->host->log, &list, &n, err);
    for (int i = 0; i < n; i++)
        list[i].machine = s->hash;
    for (int i = 0; i < s->n; i++) {
        int k = find(list, n, &s->all[i]);
        if (k < n)
            s->all[i] = list[k];
    }
    weft_free(list);
    return status;
}

/* What the file had for other runs stays there. */
static weft_status keep(const settling *s, weft_error *err)
{
    cuda_choice *list = NULL;
    int n = 0;
    if (!s->path || count(s, CUDA_TIMED) == 0)
        return WEFT_OK;
    weft_status status = cuda_choices_read(s->path, s->machine, s->c->host->log, &list, &n, err);
    cuda_choice *more = status ? NULL : weft_realloc(list, (size_t)(n + s->n) * sizeof *list);
    if (!more) {
        weft_free(list);
        return status ? status : weft_fail_memory(err);
    }
    for (int i = 0; i < n; i++)
        more[i].machine = s->hash;
    for (int i = 0; i < s->n; i++) {
        int k = find(more, n, &s->all[i]);
        if (s->all[i].machine == s->hash && s->all[i].known)
            more[k] = s->all[i];
        n += k == n && s->all[i].machine == s->hash && s->all[i].known;
    }
    cuda_choices_write(s->c->host->cache_dir, s->path, s->machine, more, n, s->c->host->log);
    weft_free(more);
    return WEFT_OK;
}

/* ---- what is chosen ---- */

static weft_status choose(settling *s, int i, weft_error *err)
{
    const cuda_matmul *m = s->c->products->all;
    while (m && memcmp(&m->product, &s->all[i].product, sizeof m->product) != 0)
        m = m->next;
    if (!m) /* this rank said that it has one */
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "cuda: a product has disappeared");
    if (s->all[i].known && cuda_matmul_takes(m, &s->all[i].algorithm))
        return WEFT_OK;
    return cuda_choose_by_time(s->c, m, &s->all[i], err);
}

static void install(const settling *s)
{
    for (cuda_matmul *m = s->c->products->all; m; m = m->next) {
        const cuda_choice wanted = {.product = m->product, .machine = s->hash};
        int i = find(s->all, s->n, &wanted);
        if (i < s->n && s->all[i].known)
            m->algorithm = s->all[i].algorithm;
    }
}

static void tell(const settling *s)
{
    int unknown = count(s, CUDA_UNKNOWN);
    if (s->c->host->rank != 0)
        return;
    weft_log_print(s->c->host->log, WEFT_LOG_INFO,
                   "cuda: of %d products the algorithms of %d were timed now, of %d before (%s)",
                   s->n, count(s, CUDA_TIMED), count(s, CUDA_KEPT),
                   s->path ? s->path : "there is no cache folder");
    if (unknown)
        weft_log_print(s->c->host->log, WEFT_LOG_WARN,
                       "cuda: %d products could not be timed, for there is no room beside the "
                       "run's own memory; heuristics choose",
                       unknown);
}

static weft_status settle(settling *s, weft_error *err)
{
    const weft_host *host = s->c->host;
    weft_status status = collect(s, err);
    if (status || s->n == 0)
        return status;
    status = recall(s, err);
    status = status ? status : share(s, NULL, err);
    for (int i = 0; i < s->n && !status; i++)
        status = s->owner[i] == host->rank ? choose(s, i, err) : WEFT_OK;
    status = status ? status : share(s, s->owner, err);
    if (status)
        return status;
    install(s);
    tell(s);
    return keep(s, err);
}

/* Nothing else is on the GPU while products are timed, such as the first words of ranks to each
 * other. */
static weft_status wait_for_all(cuda *c, weft_error *err)
{
    weft_status s = cuda_wait(c, err);
    for (const weft_queue *q = c->extra; q && !s; q = q->next)
        s = cuda_check(&c->driver, c->driver.cuStreamSynchronize(q->stream), "the GPU", err);
    return s;
}

static weft_status settle_all(cuda *c, weft_error *err)
{
    settling s = {.c = c, .machine = cuda_machine(c)};
    s.hash = s.machine ? weft_hash_name(s.machine) : 0;
    if (s.machine && c->host->rank == 0)
        s.path = cuda_choices_path(c->host->cache_dir, s.machine);
    weft_status status = s.machine ? wait_for_all(c, err) : weft_fail_memory(err);
    status = status ? status : settle(&s, err);
    weft_free(s.owner);
    weft_free(s.all);
    weft_free(s.path);
    weft_free(s.machine);
    return status;
}

static void tell_attention(const cuda *c)
{
    char version[32];
    if (!c->dnn || c->host->rank != 0)
        return;
    cuda_dnn_version(&c->dnn->api, version);
    weft_log_print(c->host->log, c->must && c->dnn->left ? WEFT_LOG_WARN : WEFT_LOG_INFO,
                   "cuda: of %d distinct calls of attention cuDNN %s computes %d%s%s%s%s",
                   c->dnn->taken + c->dnn->left, version, c->dnn->taken,
                   c->dnn->taken && !c->ordered ? ", with sums in no fixed order" : "",
                   c->dnn->left ? "; the others are for weft's own kernels (" : "",
                   c->dnn->left ? c->dnn->why : "", c->dnn->left ? ")" : "");
}

/* A warp has a row of a head, and walks over all others. */
static void tell_slow(const cuda *c)
{
    static const double worth_a_word = 1e11;
    double most = 0;
    for (int i = 0; i < CUDA_QUEUES; i++)
        most = fmax(most, c->queues[i].slow);
    if (most >= worth_a_word && c->host->rank == 0)
        weft_log_print(c->host->log, WEFT_LOG_WARN,
                       "cuda: attention of f32, or with heads of no multiple of 8 elements, is "
                       "computed without matrix instructions: a call has %.2g operations, and a "
                       "step may take minutes; list bf16, or take shorter samples",
                       most);
}

weft_status cuda_settle(void *self, weft_error *err)
{
    cuda *c = self;
    weft_status status = c->timed ? settle_all(c, err) : WEFT_OK;
    cuda_f8_products_tell(c->products);
    tell_attention(c);
    tell_slow(c);
    status = status ? status : cuda_dnn_check_mapped(c, err);
    return status || c->host->ranks == 1 ? status : cuda_products_load(c, err);
}
