/* SPDX-License-Identifier: Apache-2.0 */
/* One choice, planned: its seconds and bytes. */
#include "execute/run.h"
#include "forecast/forecast.h"
#include "session.h"
#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
#include <weft/review.h>

/* What the arena will take: of a rough plan nearly what is in use at once, which the search for
 * places comes close to. */
static double arena_of(const weft_plan *plan, const weft_held *held)
{
    return plan->rough ? (double)plan->lowered[WEFT_MODE_TRAIN]->live_peak : (double)held->arena;
}

/* The rank of the pipeline that holds most, libraries included. */
static weft_status most_bytes(const weft_plan *plan, const weft_forecast *f, tune_result *out,
                              weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int r = 0; r < plan->tasks[WEFT_MODE_TRAIN]->ranks && !s; r++) {
        if (f->like[r] != r) /* one that is alike holds no less */
            continue;
        const weft_plan *of = f->ranks[r] == plan->lowered[WEFT_MODE_TRAIN] ? plan : &f->others[r];
        const weft_held held = weft_plan_held(of);
        weft_libraries l;
        s = weft_plan_libraries(of, &l, err);
        const double arena = arena_of(of, &held),
                     planned = (double)weft_plan_bytes(of) - (double)held.arena + arena,
                     libraries = s ? 0 : (double)(l.device + l.captured + l.loading + l.transport);
        if (s || planned + libraries <= out->bytes)
            continue;
        out->bytes = planned + libraries;
        out->arena = arena;
        out->state = (double)held.state;
        out->others = planned - out->arena - out->state;
        out->libraries = libraries;
    }
    return s;
}

static double sent_bytes(const weft_plan *plan)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    double bytes = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            if (in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND)
                bytes +=
                    (double)weft_instruction_bytes(plan->graphs[WEFT_MODE_TRAIN], in) *
                    (weft_part_is_micro(l->programs[a].part) ? (double)plan->micro_batches : 1);
        }
    return bytes;
}

/* What most of a step goes to. */
static void name_bound(const weft_forecast *f, double idle_s, tune_result *out)
{
    const struct {
        const char *name;
        double seconds;
    } parts[] = {{"products", f->work_s[WEFT_WORK_PRODUCT]},
                 {"attention", f->work_s[WEFT_WORK_ATTENTION]},
                 {"memory", f->work_s[WEFT_WORK_OTHER]},
                 {"sending", f->waits_s},
                 {"the host", f->host_s},
                 {"other stages", idle_s}};
    int most = 0;
    for (int i = 1; i < (int)(sizeof parts / sizeof *parts); i++)
        most = parts[i].seconds > parts[most].seconds ? i : most;
    out->bound = parts[most].name;
    out->bound_share = f->step_s > 0 ? fmin(1, parts[most].seconds / f->step_s) : 0;
}

static double mean_idle(const weft_timeline *t)
{
    double sum = 0;
    for (int r = 0; r < t->tasks->ranks; r++)
        sum += t->idle_s[r];
    return sum / t->tasks->ranks;
}

static weft_status judge(const weft_plan *plan, tune_result *out, weft_error *err)
{
    weft_roofline r;
    weft_forecast f, slow = {0};
    weft_plan_roofline(plan, &r);
    const weft_roofline slower = weft_roofline_slowest(&r);
    weft_status s = weft_plan_forecast(plan, &r, &f, err);
    if (s)
        return s;
    if (out->whole)
        s = weft_plan_forecast_like(plan, &slower, &f, &slow, err);
    if (!s) {
        const double peak = r.rates.peak[WEFT_BF16];
        out->step_s = f.step_s;
        out->worst_s = out->whole ? slow.step_s : f.step_s;
        out->bubble = f.timeline->bubble;
        out->tokens_s = (double)plan->units / f.step_s;
        out->unit = plan->unit;
        out->mfu = peak > 0 ? (f.model_flops - f.model_attention / 2) / (f.step_s * peak) : 0;
        out->sent = sent_bytes(plan);
        out->profile = r.rates.hash;
        out->room = (double)weft_plan_room(plan);
        out->identity = weft_plan_identity(plan, &f);
        name_bound(&f, mean_idle(f.timeline), out);
        if (out->whole)
            weft_forecast_release(plan, &slow);
    }
    s = s ? s : most_bytes(plan, &f, out, err);
    weft_forecast_release(plan, &f);
    return s;
}

/* Of so many blocks, 0: of all; for real, as `weft plan` does, or roughly. What plugins refuse
 * cannot be; what goes wrong otherwise ends the search. */
static weft_status plan_some(const tune_space *space, const tune_choice *choice, int64_t depth,
                             bool whole, tune_result *out, weft_text *why, weft_error *err)
{
    weft_error own = {0};
    weft_pool pool = {0};
    weft_session session = {0};
    weft_plan *plan = NULL;
    weft_cli_options options;
    const weft_plan_options how = {.ranks = space->ranks, .train_only = true, .rough = !whole};
    *out = (tune_result){.choice = *choice, .whole = whole};
    weft_status s = tune_choice_edits(space, choice, depth, &pool, &options, &own);
    options.silent = true;
    s = s ? s : weft_session_init(&session, &options, 0, NULL, true, &own);
    s = s ? s : weft_plan_create(session.plugins, session.settings, &how, &plan, &own);
    out->rounds = plan ? plan->round + 1 : 1;
    s = s ? s : weft_plan_check(plan, &own);
    if (!s)
        out->waiting = (int)weft_plan_idle(plan);
    s = s || out->waiting ? s : judge(plan, out, &own);
    weft_plan_destroy(plan);
    weft_session_release(&session);
    weft_pool_release(&pool);
    if (!s && out->waiting) {
        out->refused = true;
        if (why)
            weft_text_add(why, "micro-batches are cut into more shares than they have samples");
    } else if (weft_cli_exit_code(s) == 2) {
        out->refused = true;
        if (why)
            weft_text_add(why, weft_error_text(&own));
        s = WEFT_OK;
    } else if (s) {
        s = weft_fail(err, s, WEFT_NOWHERE, "%s", weft_error_text(&own));
    }
    weft_error_release(&own);
    return s;
}

weft_status tune_plan(const tune_space *space, const tune_choice *choice, tune_result *result,
                      weft_text *why, weft_error *err)
{
    return plan_some(space, choice, 0, true, result, why, err);
}

/* A block more takes as long, and holds as much, as the one before. */
weft_status tune_estimate(const tune_space *space, const tune_choice *choice, tune_result *out,
                          weft_text *why, weft_error *err)
{
    tune_result less, more;
    const int64_t turns = tune_number(space, choice, "pp", "virtual_stages"),
                  stages = tune_number(space, choice, "pp", "degree") * turns;
    const int64_t few = stages, some = 2 * stages;
    if (!space->depth_key || some >= space->depth)
        return plan_some(space, choice, 0, false, out, why, err);
    weft_status s = plan_some(space, choice, few, false, &less, why, err);
    *out = less;
    if (s || less.refused)
        return s;
    s = plan_some(space, choice, some, false, &more, why, err);
    *out = more;
    if (s || more.refused)
        return s;
    const double times = (double)(space->depth - few) / (double)(some - few);
    out->step_s = less.step_s + (more.step_s - less.step_s) * times;
    out->worst_s = less.worst_s + (more.worst_s - less.worst_s) * times;
    out->bytes = less.bytes + (more.bytes - less.bytes) * times;
    out->identity = weft_hash_bytes(less.identity, &more.identity, sizeof more.identity);
    return WEFT_OK;
}
