/* SPDX-License-Identifier: Apache-2.0 */
/* weft oracle: two INIs, the same weights and data, k steps; are losses, gradient norms, every
 * gradient before clipping and every parameter the same within what the dtypes allow? If not, where
 * do the runs part? */
#include "oracle.h"

#include "forecast/forecast.h"

#include <stdio.h>
#include <string.h>

/* Two runs that are compared. */
typedef struct comparison {
    const weft_cli_options *options;
    oracle_exactness exact;
    oracle_survey surveys[2];
} comparison;

/* How they are run: what a record is filled with. */
typedef struct look {
    int64_t steps;
    bool trace;              /* every value of the last step's forward */
    bool evaluate, generate; /* behind it */
    bool feed;               /* then the reference once more, fed what the other run made */
    int64_t micro_batch;     /* the reference's; 0: what its INI says */
    int64_t eval_batches[2];
    bool again; /* these INIs have warned of what they do before */
} look;

enum { MOST_ADDED = 3, ADDED_SIZE = 64 };

/* The command line of one of them: what is for both, what is for this one ("A:" or "B:" in front),
 * and what this look at it asks for. */
typedef struct one_run {
    weft_cli_options options;
    char added[MOST_ADDED][ADDED_SIZE];
} one_run;

static const char *const letters[2] = {"A:", "B:"};

static weft_status one_init(one_run *to, const weft_cli_options *all, int n, weft_error *err)
{
    to->options = *all;
    to->options.ini = all->arguments[n];
    to->options.ranks = 0;
    to->options.threads = true;
    to->options.n_edits = 0;
    to->options.edits =
        weft_alloc_zero((size_t)all->n_edits + MOST_ADDED, sizeof *to->options.edits);
    if (!to->options.edits)
        return weft_fail_memory(err);
    for (int i = 0; i < all->n_edits; i++) {
        weft_cli_edit edit = all->edits[i];
        bool mine = strncmp(edit.text, letters[n], 2) == 0;
        if (strncmp(edit.text, letters[1 - n], 2) == 0)
            continue;
        edit.text += mine ? 2 : 0;
        to->options.edits[to->options.n_edits++] = edit;
    }
    return WEFT_OK;
}

static void one_release(one_run *one)
{
    weft_free(one->options.edits);
}

static void set_text(one_run *to, int i, const char *key, const char *value)
{
    snprintf(to->added[i], ADDED_SIZE, "train.%s=%s", key, value);
    to->options.edits[to->options.n_edits++] =
        (weft_cli_edit){.kind = WEFT_CLI_SET, .text = to->added[i]};
}

static void set(one_run *to, int i, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    set_text(to, i, key, text);
}

/* What the INIs say, before anything is changed. */
static weft_status survey(const comparison *c, int n, oracle_survey *to, weft_error *err)
{
    one_run one;
    weft_session session;
    weft_status s = one_init(&one, c->options, n, err);
    if (!s) {
        s = weft_session_init(&session, &one.options, 0, NULL, true, err);
        s = s ? s : weft_plan_ranks(session.plugins, &to->ranks, err);
        s = s ? s : oracle_survey_settings(to, &session, err);
        weft_session_release(&session);
    }
    if (n == 1 && c->options->ranks > 0)
        to->ranks = c->options->ranks;
    one_release(&one);
    return s;
}

static int record_one(const comparison *c, const look *how, int n, oracle_record *record,
                      weft_error *err)
{
    one_run one;
    weft_status s = one_init(&one, c->options, n, err);
    if (s) {
        one_release(&one);
        return weft_cli_report(err);
    }
    one.options.ranks = c->surveys[n].ranks;
    one.options.silent = how->again;
    set(&one, 0, "eval_every", how->evaluate);
    if (how->evaluate)
        set(&one, 1, "eval_batches", how->eval_batches[n]);
    else /* the INI's would be warned of, as one that does nothing */
        set_text(&one, 1, "eval_batches", "");
    if (n == 0 && how->micro_batch)
        set(&one, 2, "micro_batch", how->micro_batch);
    record->trace = how->trace;
    record->evaluate = how->evaluate;
    record->generate = how->generate;
    int code = weft_ranks_run(&one.options, true, oracle_run, record);
    if (!code)
        oracle_complete(record);
    one_release(&one);
    return code;
}

/* Both INIs, one after the other; the first chooses as `chooses_as` did. */
static int record_two(const comparison *c, const look *how, const oracle_record *chooses_as,
                      oracle_record records[2], weft_error *err)
{
    bool made[2] = {oracle_record_init(&records[0], how->steps),
                    oracle_record_init(&records[1], how->steps)};
    if (!made[0] || !made[1]) {
        weft_fail_memory(err);
        return weft_cli_report(err);
    }
    records[0].chooses_as = chooses_as;
    records[1].reference = &records[0];
    records[1].fed = how->feed;
    int code = record_one(c, how, 0, &records[0], err);
    return code ? code : record_one(c, how, 1, &records[1], err);
}

/* Two runs as they are and, where choices turned, once more: the reference as the other chose. */
typedef struct looked {
    oracle_record own[2], again[2];
    oracle_record *of; /* one of these */
    int64_t turned, choices;
} looked;

/* What is made of the same operands says whether a run chose what they say: see closer(). */
static bool may_turn(const comparison *c, const oracle_record records[2])
{
    return records[0].ranks == 1 && c->exact == ORACLE_ROUNDING &&
           (records[0].half || records[1].half) && !records[0].eighth && !records[1].eighth;
}

/* Release it in every case. */
static int record_both(const comparison *c, const look *how, looked *l, weft_error *err)
{
    memset(l, 0, sizeof *l);
    l->of = l->own;
    int code = record_two(c, how, NULL, l->own, err);
    if (code || !may_turn(c, l->own))
        return code;
    l->turned = oracle_count_turned(&l->own[0], &l->own[1], &l->choices);
    if (!l->turned)
        return 0;
    look again = *how;
    again.again = true;
    l->of = l->again;
    return record_two(c, &again, &l->own[1], l->again, err);
}

static void looked_release(looked *l)
{
    for (int i = 1; i >= 0; i--) {
        if (l->of == l->again)
            oracle_record_release(&l->again[i]);
        oracle_record_release(&l->own[i]);
    }
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Once more, as far as the runs are at parity: with every value of the forward, from micro-batches
 * of one size if the reference can have it, and with what the trained models say, of the same
 * samples. */
static look closer(const comparison *c, const oracle_record records[2], const oracle_verdict *v)
{
    int64_t sizes[2] = {records[0].micro_batch, records[1].micro_batch};
    bool parted = v->first >= 0;
    look how = {.steps = parted ? v->first + 1 : 1,
                .trace = parted || c->exact == ORACLE_ROUNDING,
                .again = true};
    if (records[0].ranks == 1 && sizes[0] != sizes[1])
        how.micro_batch = sizes[0] = sizes[1];
    how.evaluate = !parted && (c->surveys[0].evaluates || c->surveys[1].evaluates);
    how.generate = !parted && records[0].writes && records[1].writes;
    how.feed = how.trace && !parted && records[0].ranks == 1 &&
               (records[0].half || records[1].half) && !records[0].eighth && !records[1].eighth;
    for (int i = 0; i < 2; i++)
        how.eval_batches[i] = 3 * (common_multiple(sizes[0], sizes[1]) / sizes[i]);
    return how;
}

static int feed(const comparison *c, const look *how, const oracle_record *b, oracle_verdict *v,
                weft_text *out, weft_error *err)
{
    oracle_record fed;
    look again = *how;
    again.trace = again.evaluate = again.generate = false;
    int code = 0;
    if (!oracle_record_init(&fed, how->steps)) {
        weft_fail_memory(err);
        code = weft_cli_report(err);
    }
    fed.feeds = b;
    code = code ? code : record_one(c, &again, 0, &fed, err);
    if (!code)
        oracle_compare_fed(&fed, b, v, out);
    oracle_record_release(&fed);
    return code;
}

static int look_closer(const comparison *c, const oracle_record records[2], oracle_verdict *v,
                       weft_text *out, weft_error *err)
{
    const look how = closer(c, records, v);
    looked l;
    if (!how.trace && !how.evaluate && !how.generate)
        return 0;
    int code = record_both(c, &how, &l, err);
    oracle_record *both = l.of;
    if (!code && oracle_take_common(&both[0], &both[1], NULL, err))
        code = weft_cli_report(err);
    bool parted = v->first >= 0;
    if (!code && how.trace && !parted)
        oracle_compare_values(&both[0], &both[1], v, out);
    if (!code && how.trace && v->first >= 0)
        oracle_explain(&both[0], &both[1], c->exact, out);
    if (!code && how.feed && v->first < 0)
        code = feed(c, &how, &both[1], v, out, err);
    if (!code && !parted)
        oracle_compare_said(&both[0], &both[1], v, out);
    looked_release(&l);
    return code;
}

static int record_again(const comparison *c, const oracle_record *b, bool shaken, oracle_record *to,
                        weft_error *err)
{
    const look how = {.steps = b->n_steps, .again = true};
    if (!oracle_record_init(to, how.steps)) {
        weft_fail_memory(err);
        return weft_cli_report(err);
    }
    to->learns_from = b;
    to->shaken = shaken;
    return record_one(c, &how, 0, to, err);
}

/* An optimizer may make much of little: Muon's iteration takes what is next to nothing in a
 * gradient a hundred times as far. So an update that parts though no gradient does is judged by
 * what the reference makes of the other run's gradients; and where one of both runs rounds more in
 * it, by how far it goes when these are changed by as much. */
static int learn_from(const comparison *c, const oracle_record *b, oracle_verdict *v,
                      weft_text *out, weft_error *err)
{
    oracle_record again, shaken;
    oracle_verdict first = {.first = -1}, second = {.first = -1};
    int code = record_again(c, b, false, &again, err);
    if (!code)
        oracle_compare_updates(&again, NULL, b, &first, out);
    bool once_more = !code && first.first >= 0 && oracle_updates_differ(&again, b);
    if (once_more) {
        code = record_again(c, b, true, &shaken, err);
        if (!code)
            oracle_compare_updates(&again, &shaken, b, &second, out);
        oracle_record_release(&shaken);
    }
    oracle_join(v, once_more ? &second : &first);
    oracle_record_release(&again);
    return code;
}

static bool compare_replicas(const oracle_record records[2], weft_text *out)
{
    bool same = true;
    for (int i = 0; i < 2; i++)
        if (records[i].replica_error > 0) {
            same = false;
            weft_text_print(out, "replicas of %s (%s) differ by %.3g in the %s run\n",
                            records[i].replica_name, records[i].replica_of,
                            records[i].replica_error, i ? "second" : "first");
        }
    return same;
}

/* Rounding turns few of them. */
static void compare_choices(const looked *l, oracle_verdict *v, weft_text *out)
{
    if (!l->turned)
        return;
    oracle_judge(v, (double)l->turned / (double)l->choices, 0.125, "choices that turned", 0, "");
    weft_text_print(out,
                    "choices: %lld of %lld turned; the first run, once more, chooses as the second "
                    "did\n",
                    (long long)l->turned, (long long)l->choices);
}

static int conclude(const comparison *c, const looked *l, weft_text *out, weft_error *err)
{
    oracle_verdict v = {.first = -1}, updates = {.first = -1};
    oracle_record *records = l->of;
    const oracle_record *a = &records[0], *b = &records[1];
    bool settings = oracle_compare_settings(c->surveys, out) > 0;
    weft_status s = oracle_take_common(&records[0], &records[1], out, err);
    bool same = s || !settings || !oracle_compare_constants(a, b, out);
    if (s) {
        weft_cli_print(out);
        return weft_cli_report(err);
    }
    compare_choices(l, &v, out);
    oracle_compare(&records[0], b, c->exact, &v, &updates, out);
    int code = 0;
    bool rough = (a->half || b->half) && !a->eighth && !b->eighth && c->exact == ORACLE_ROUNDING;
    if (v.first < 0 && (updates.first >= 0 || rough))
        code = learn_from(c, b, &v, out, err);
    else
        oracle_join(&v, &updates);
    code = code ? code : look_closer(c, records, &v, out, err);
    same = compare_replicas(records, out) && v.first < 0 && same;
    weft_text_print(out, "%s: %d and %d rank%s; worst: %s\n",
                    !same      ? "PARTED"
                    : c->exact ? "equal"
                               : "parity",
                    a->ranks, b->ranks, b->ranks == 1 ? "" : "s", v.text);
    int printed = weft_cli_print(out);
    return code ? code : printed ? printed : !same;
}

static int compare(const comparison *c, int64_t steps, weft_error *err)
{
    looked l;
    weft_text out = {0};
    const look how = {.steps = steps};
    int code = record_both(c, &how, &l, err);
    if (!code)
        code = conclude(c, &l, &out, err);
    weft_text_release(&out);
    looked_release(&l);
    return code;
}

static int run(const weft_cli_options *options, int64_t steps, oracle_exactness exact,
               weft_error *err)
{
    comparison c = {.options = options, .exact = exact};
    weft_status s = survey(&c, 0, &c.surveys[0], err);
    s = s ? s : survey(&c, 1, &c.surveys[1], err);
    int code = s ? weft_cli_report(err) : compare(&c, steps, err);
    oracle_survey_release(&c.surveys[0]);
    oracle_survey_release(&c.surveys[1]);
    return code;
}

static weft_status check(const weft_cli_options *options, int64_t steps, const char *bitwise,
                         oracle_exactness *exact, weft_error *err)
{
    static const char *const words[] = {"backward", "gradients", "all"};
    int which = 0;
    while (bitwise && which < 3 && strcmp(bitwise, words[which]) != 0)
        which++;
    *exact = bitwise ? (oracle_exactness)(ORACLE_BACKWARD + which) : ORACLE_ROUNDING;
    if (steps < 1)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "--steps must be at least 1");
    if (which == 3)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--bitwise is backward, gradients or all, not '%s'", bitwise);
    if (options->n_arguments != 2)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "oracle compares two INI files: weft oracle A.ini B.ini");
    return WEFT_OK;
}

int weft_cmd_oracle(int argc, char **argv)
{
    int64_t steps = 2, ranks = 0;
    const char *bitwise = NULL;
    const weft_option extra[] = {
        {.name = "n",
         .argument = "RANKS",
         .help = "ranks of the second run; the first one has as many as its mesh asks for, and so "
                 "has this one if nothing is said",
         .number = &ranks,
         .min = 1,
         .max = 1 << 20},
        {.name = "steps",
         .argument = "N",
         .help = "compare so many steps (default 2)",
         .number = &steps},
        {.name = "bitwise",
         .argument = "WHAT",
         .help =
             "bit for bit: backward (loss and gradients; the norm within 1e-6), gradients (and the "
             "norm), or all (and parameters after the update)",
         .text = &bitwise},
        {.name = NULL},
    };
    const weft_cli_usage usage = {
        .command = "oracle",
        .arguments = "A.ini B.ini",
        .max_arguments = 2,
        .summary = "Runs two INI files for some steps from the same weights and data and compares "
                   "losses, gradient norms, every gradient before "
                   "clipping and every parameter. Each runs on as many ranks as its mesh asks for. "
                   "-o, --with and --without are for both; A: or B: in front, as in -o "
                   "B:train.seed=7, makes them that one's. Exit code 0 at parity, 1 where they "
                   "part: then it "
                   "runs both again and names the first value that parts.",
        .accepts = WEFT_CLI_INI,
        .extra = extra,
    };
    weft_cli_options options;
    oracle_exactness exact = ORACLE_ROUNDING;
    weft_error err = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO && check(&options, steps, bitwise, &exact, &err))
        code = weft_cli_report(&err);
    options.ranks = (int)ranks;
    if (code == WEFT_CLI_GO)
        code = run(&options, steps, exact, &err);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
