/* SPDX-License-Identifier: Apache-2.0 */
/* A run and what keeps its state: what a store is shown of it, where the run begins, when it is
 * saved; parameters alone, for runs that only write text. */
#include "base/array.h"
#include "execute/run.h"

#include <inttypes.h>
#include <string.h>
#include <weft/files.h>
#include <weft/random.h>

/* What the store is shown; all of it lives in the pool but the tensors. */
struct weft_keeper {
    weft_pool pool;
    const weft_store *store;
    void *self;
    weft_state_view state;
    int settings_capacity;
    weft_state_tensor *tensors;
    weft_saves saves;
    int saves_seen; /* requests by signal that were heeded */
};

/* ---- what the run is ---- */

static weft_status list_plugins(struct weft_keeper *k, const weft_plugins *plugins, weft_error *err)
{
    const char **list = weft_pool_alloc(&k->pool, (3 * (size_t)plugins->n + 1) * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    k->state.plugins = list;
    k->state.model = "";
    for (int i = 0; i < plugins->n; i++) {
        const weft_plugin *plugin = plugins->list[i].module.plugin;
        list[3 * i] = plugin->name;
        list[3 * i + 1] = plugin->version;
        list[3 * i + 2] = plugins->list[i].module.id.sha256;
        if (weft_plugin_gives(plugin, "model"))
            k->state.model = plugin->name;
    }
    return WEFT_OK;
}

static bool is_listed(const char *const *list, int n, const char *op, const char *kernel)
{
    for (int i = 0; i < n; i += 2)
        if (strcmp(list[i], op) == 0 && strcmp(list[i + 1], kernel) == 0)
            return true;
    return false;
}

/* Every kernel that the training programs use, once. */
static weft_status list_kernels(struct weft_keeper *k, const weft_lowered *l, weft_error *err)
{
    int n = 0, most = 0;
    for (int a = 0; a < l->n_programs; a++)
        most += l->programs[a].n;
    const char **list = weft_pool_alloc(&k->pool, (2 * (size_t)most + 1) * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            const char *kernel = in->kernel ? in->kernel->name : "plain";
            if (in->kind != WEFT_COMPUTE || is_listed(list, n, in->node->op->name, kernel))
                continue;
            list[n++] = in->node->op->name;
            list[n++] = kernel;
        }
    k->state.kernels = list;
    return WEFT_OK;
}

const char *weft_keeper_text(weft_pool *pool, const weft_loaded *p, const weft_param *q)
{
    int64_t n = -1;
    if (p->module.plugin->self_size && q->field && q->choices && q->type == WEFT_PARAM_INT &&
        weft_plugin_gives(p->module.plugin, "model"))
        memcpy(&n, (const char *)p->self + q->field, sizeof n);
    return n < 0 ? weft_params_text(p->params, q->name) : weft_pool_format(pool, "%" PRId64, n);
}

/* p: whose section it is; NULL: the core's. */
static void add_section(struct weft_keeper *k, const char *section, const weft_param *table,
                        const weft_params *params, const weft_loaded *p)
{
    for (const weft_param *q = table; q && q->name; q++) {
        if (q->flags & WEFT_PARAM_PER_RANK)
            continue;
        weft_setting *s = weft_pool_push(&k->pool, &k->state.settings, &k->state.n_settings,
                                         &k->settings_capacity, sizeof *s);
        const char *text = p ? weft_keeper_text(&k->pool, p, q) : weft_params_text(params, q->name);
        if (s)
            *s = (weft_setting){section, q->name, text, table};
    }
}

static weft_status list_settings(struct weft_keeper *k, const weft_plan *plan, weft_error *err)
{
    add_section(k, "train", weft_core_params("train"), plan->train, NULL);
    add_section(k, "mesh", weft_core_params("mesh"), plan->mesh_params, NULL);
    for (int i = 0; i < plan->plugins->n; i++) {
        const weft_loaded *p = &plan->plugins->list[i];
        add_section(k, p->module.plugin->name, p->module.plugin->params, NULL, p);
    }
    return k->pool.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

/* Its sizes, what it makes of a text that is hard to get right, and its files. */
static weft_status identify_tokenizer(const weft_run *run, uint64_t *id, const char *const **files,
                                      weft_error *err)
{
    static const char probe[] = "The  quick brown fox's 1234567 jumps\n\tover 3.14 caf\xc3\xa9s, "
                                "\xe4\xb8\xad\xe6\x96\x87 and \xf0\x9f\x98\x80!\r\n";
    const weft_tokenizer *t = run->tokenizer;
    int32_t *ids = NULL;
    size_t n = 0, capacity = 0;
    if (!t)
        return WEFT_OK;
    const int32_t numbers[] = {t->vocab_size(run->tokenizer_self), t->bos(run->tokenizer_self),
                               t->eos(run->tokenizer_self)};
    weft_status s =
        t->encode(run->tokenizer_self, probe, sizeof probe - 1, &ids, &n, &capacity, err);
    *files = t->files ? t->files(run->tokenizer_self) : NULL;
    uint64_t hash = weft_hash_bytes(weft_hash_name("tokenizer"), numbers, sizeof numbers);
    hash = weft_hash_bytes(hash, ids, n * sizeof *ids);
    weft_free(ids);
    for (int i = 0; *files && (*files)[i] && !s; i++) {
        char *data;
        size_t bytes;
        s = weft_read_file((*files)[i], &data, &bytes, err);
        if (s)
            break;
        hash = weft_hash_bytes(hash, data, bytes);
        weft_free(data);
    }
    *id = hash ? hash : 1;
    return s;
}

static weft_progress progress_of(const weft_run *run)
{
    return (weft_progress){.step = run->step,
                           .samples = run->consumed,
                           .tokens = run->view.total_tokens,
                           .skipped = run->view.skipped,
                           .in_a_row = run->view.in_a_row};
}

/* How many bytes plugins keep, of all ranks. */
static weft_status count_kept(const weft_run *run, int64_t **kept, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const size_t n = (size_t)plan->n_kept;
    int64_t *all = *kept = weft_alloc_zero(n * (size_t)plan->ranks + n + 1, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    int64_t *mine = all + n * (size_t)plan->ranks, i = 0;
    for (const weft_kept_bytes *k = plan->plugins->kept; k; k = k->next)
        mine[i++] = k->bytes;
    return n ? weft_control_exchange(plan->plugins->control, plan->rank, mine, n * sizeof *mine,
                                     all, err)
             : WEFT_OK;
}

static weft_status describe(weft_run *run, struct weft_keeper *k, weft_error *err)
{
    const weft_plan *plan = run->plan;
    int64_t *kept;
    weft_status s = count_kept(run, &kept, err);
    s = s ? s : weft_run_state(run, kept, &k->state, &k->tensors, err);
    weft_free(kept);
    k->state.steps = plan->steps;
    k->state.saves = &k->saves;
    k->state.progress = progress_of(run);
    if (run->data->fingerprint)
        k->state.data_id = run->data->fingerprint(run->data_self);
    k->state.same_plugins = weft_params_is(plan->weft, "plugin_change", "refuse");
    s = s ? s : list_plugins(k, plan->plugins, err);
    s = s ? s : list_kernels(k, plan->lowered[WEFT_MODE_TRAIN], err);
    s = s ? s : list_settings(k, plan, err);
    return s ? s : identify_tokenizer(run, &k->state.tokenizer_id, &k->state.tokenizer_files, err);
}

/* ---- where the run begins ---- */

static weft_status load_weights(weft_run *run, struct weft_keeper *k, weft_error *err)
{
    void *self;
    bool loaded = false;
    const weft_weights *weights = weft_plugins_service(run->plan->plugins, "weights", &self);
    if (!weights || !weights->load)
        return WEFT_OK;
    return weights->load(self, &k->state, &loaded, err);
}

weft_status weft_run_continue(weft_run *run, weft_error *err)
{
    struct weft_keeper *k = run->keeper = weft_alloc_zero(1, sizeof *k);
    weft_store_found found = WEFT_STORE_NOTHING;
    weft_progress at;
    if (!k)
        return weft_fail_memory(err);
    k->store = weft_plugins_service(run->plan->plugins, "store", &k->self);
    run->view.saves = k->store ? &k->saves : NULL;
    weft_status s = describe(run, k, err);
    at = k->state.progress;
    if (!s && k->store)
        s = k->store->load(k->self, &k->state, &at, &found, err);
    if (!s && (found > WEFT_STORE_STATE || at.step < 0 || at.samples < 0 || at.tokens < 0))
        s = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                      "plugin '%s' loads what there is not: step %lld, sample %lld",
                      weft_plugins_giver(run->plan->plugins, k->store), (long long)at.step,
                      (long long)at.samples);
    if (!s && found == WEFT_STORE_NOTHING)
        s = load_weights(run, k, err);
    if (s || found != WEFT_STORE_STATE)
        return s;
    run->step = run->view.step = at.step;
    run->consumed = run->view.samples = at.samples;
    run->view.total_tokens = at.tokens;
    run->view.skipped = at.skipped;
    run->view.in_a_row = at.in_a_row;
    return WEFT_OK;
}

void weft_keeper_destroy(weft_run *run)
{
    struct weft_keeper *k = run->keeper;
    if (!k)
        return;
    weft_keeper_abandon(run);
    weft_free(k->tensors);
    weft_pool_release(&k->pool);
    weft_free(k);
    run->view.saves = NULL;
    run->keeper = NULL;
}

/* ---- while it runs ---- */

weft_status weft_keeper_before_update(weft_run *run, weft_error *err)
{
    struct weft_keeper *k = run->keeper;
    return k && k->store ? k->store->before_update(k->self, err) : WEFT_OK;
}

void weft_keeper_wish(weft_run *run, bool last, weft_wish *wish)
{
    struct weft_keeper *k = run->keeper;
    wish->saves = run->saves_asked ? (int32_t)*run->saves_asked : 0;
    if (!k || !k->store)
        return;
    const weft_progress at = progress_of(run);
    wish->save = k->store->want(k->self, &at, run->view.elapsed_s, last);
    wish->ready = k->store->ready(k->self);
}

/* Everything here depends on what all ranks know alike. */
weft_status weft_keeper_act(weft_run *run, const weft_wish *all, int n, bool stop, bool last,
                            weft_error *err)
{
    struct weft_keeper *k = run->keeper;
    bool save = stop, ready = true;
    if (!k || !k->store)
        return WEFT_OK;
    int saves = k->saves_seen;
    for (int r = 0; r < n; r++) {
        save = save || all[r].save;
        ready = ready && all[r].ready;
        saves = all[r].saves > saves ? all[r].saves : saves;
    }
    save = save || saves > k->saves_seen;
    run->saved = save || ready;
    k->saves_seen = saves;
    k->state.progress = progress_of(run);
    weft_status s = ready ? k->store->advance(k->self, err) : WEFT_OK;
    if (!s && save)
        s = k->store->begin(k->self, &k->state, err);
    return s || !(stop || last) ? s : k->store->finish(k->self, true, err);
}

bool weft_keeper_keeps(const weft_run *run)
{
    return run->keeper && run->keeper->store;
}

bool weft_keeper_saves(const weft_run *run)
{
    return weft_keeper_keeps(run) && run->dir;
}

/* Ranks that end alike, with an error that leaves the state as it was: what is under way may end
 * well. */
void weft_keeper_finish(weft_run *run)
{
    struct weft_keeper *k = run->keeper;
    weft_error err = {0};
    if (k && k->store && k->store->finish(k->self, false, &err))
        weft_log_print(run->log, WEFT_LOG_WARN, "%s", weft_error_text(&err));
    weft_error_release(&err);
}

weft_status weft_keeper_end(weft_run *run, weft_error *err)
{
    void *self;
    const weft_weights *weights = weft_plugins_service(run->plan->plugins, "weights", &self);
    struct weft_keeper *k = run->keeper;
    if (!k || !weights || !weights->save)
        return WEFT_OK;
    k->state.progress = progress_of(run);
    return weights->save(self, &k->state, err);
}

void weft_keeper_abandon(weft_run *run)
{
    struct weft_keeper *k = run->keeper;
    if (k && k->store)
        k->store->abandon(k->self);
}
