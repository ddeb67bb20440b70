/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune: the command. */
#include "tune.h"
#include "calibrate.h"
#include "console/columns.h"
#include "console/counts.h"
#include "forecast/forecast.h"
#include "measure.h"
#include "processors.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct wishes {
    const char *gpu, *memory, *goal, *write, *limit;
    int64_t top, plans;
    bool measured, calibrates, trust;
    weft_option_values fixed;
} wishes;

/* ---- words to numbers ---- */

/* "80GiB", "80G", "8e10". */
static weft_status read_bytes(const char *text, double *out, weft_error *err)
{
    if ((weft_parse_bytes(text, out) || weft_parse_number(text, out)) && *out > 0 && *out < 0x1p+62)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "--memory is a number of bytes of each rank, as 80GiB, not '%.40s'", text);
}

static weft_status read_seconds(const char *text, double *out, weft_error *err)
{
    char *end;
    *out = strtod(text, &end);
    end += strspn(end, " ");
    if (end != text && (!*end || strcmp(end, "s") == 0) && *out > 0 && *out < 1e9)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "--limit is a number of seconds, as '30 s', not '%.40s'", text);
}

static weft_status check_fixed(const weft_option_values *fixed, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < fixed->n; i++) {
        const char *text = fixed->list[i].text, *dot = strchr(text, '.'),
                   *equals = strchr(text, '=');
        if (!dot || !equals || dot > equals || dot == text || equals == dot + 1)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "--fix is SECTION.KEY=VALUE, as tp.degree=8, not '%.60s'", text);
        for (int k = 0; k < i && equals; k++)
            if (strncmp(fixed->list[k].text, text, (size_t)(equals - text) + 1) == 0)
                s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                              "--fix %s and --fix %s: a key stays at one value; leave one out",
                              fixed->list[k].text, text);
    }
    return s;
}

/* ---- the table ---- */

static void add_range(weft_columns *c, double best, double worst)
{
    weft_text other = {0};
    const size_t from = c->cells.size;
    weft_print_seconds(&c->cells, best);
    weft_print_seconds(&other, worst);
    if (strcmp(weft_text_get(&c->cells) + from, weft_text_get(&other)) != 0)
        weft_text_print(&c->cells, " to %s", weft_text_get(&other));
    weft_text_release(&other);
    weft_columns_next(c);
}

static void add_bytes(weft_columns *c, double bytes)
{
    if (bytes < 0)
        weft_text_add(&c->cells, "-");
    weft_print_bytes(&c->cells, fabs(bytes));
    weft_columns_next(c);
}

/* Nothing that fits is both faster and smaller. */
static bool is_front(const tune_search *s, int i)
{
    for (int k = 0; k < s->n; k++)
        if (k != i && tune_fits(s, s->results[k]) &&
            s->results[k]->step_s <= s->results[i]->step_s &&
            s->results[k]->bytes <= s->results[i]->bytes &&
            (s->results[k]->step_s < s->results[i]->step_s ||
             s->results[k]->bytes < s->results[i]->bytes || k < i))
            return false;
    return true;
}

static void add_row(weft_columns *c, const tune_search *s, int i)
{
    const tune_result *r = s->results[i];
    weft_text_print(&c->cells, "%s%d", is_front(s, i) ? "* " : "  ", i + 1);
    weft_columns_next(c);
    add_range(c, r->step_s, r->worst_s);
    weft_text_print(&c->cells, "%.0f", r->tokens_s);
    weft_columns_next(c);
    if (r->mfu > 0)
        weft_text_print(&c->cells, "%.1f %%", 100 * r->mfu);
    else
        weft_text_add(&c->cells, "-");
    weft_columns_next(c);
    add_bytes(c, r->bytes);
    if (s->room > 0)
        add_bytes(c, s->room - r->bytes);
    else
        weft_columns_add(c, "-");
    weft_text_print(&c->cells, "%.1f %%", 100 * r->bubble);
    weft_columns_next(c);
    add_bytes(c, r->sent);
    weft_text_print(&c->cells, "%s %.0f %%", r->bound, 100 * r->bound_share);
    weft_columns_next(c);
    tune_choice_print(s->space, &r->choice, &c->cells);
    weft_columns_next(c);
}

static void print_effort(const tune_search *s, weft_text *text)
{
    weft_text_print(text, "%lld choices planned, %lld of them refused by plugins; %s\n",
                    (long long)s->planned, (long long)s->refused,
                    s->all   ? "these are all that there are"
                    : s->cut ? "--limit has ended the search, and another machine may find another"
                             : "not all that there are: the best of them are planned whole");
}

static void print_table(const tune_search *s, int64_t top, weft_text *text)
{
    static const char *const heads[] = {"    #", "step",   "tokens/s", "MFU",      "memory",
                                        "left",  "bubble", "sent",     "bound by", "settings"};
    weft_columns c;
    weft_columns_init(&c, "rrrrrrrrll");
    const bool samples = s->n && s->results[0]->unit && strcmp(s->results[0]->unit, "samples") == 0;
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c, i == 2 && samples ? "samples/s" : heads[i]);
    for (int i = 0; i < s->n && i < top && tune_fits(s, s->results[i]); i++)
        add_row(&c, s, i);
    weft_columns_print(&c, text);
    weft_columns_release(&c);
    weft_text_add(text, "* nothing that was found is both faster and smaller\n");
    if (s->results[0]->mfu <= 0)
        weft_text_add(text,
                      "the device does not say what it reaches, and seconds are by 1e12 flop/s; "
                      "--measure makes short runs on this machine\n");
    print_effort(s, text);
}

/* ---- nothing fits ---- */

/* By the reasons that most of them have. */
static weft_status refuse_all(const tune_search *s, weft_error *err)
{
    enum { MOST = 3 };
    weft_text text = {0};
    weft_text_print(&text, "nothing can be planned: all %lld choices are refused",
                    (long long)s->planned);
    for (int i = 0; i < s->n_reasons && i < MOST; i++)
        weft_text_print(&text, "%s %lld because: %s", i ? ";" : ",", (long long)s->reasons[i].n,
                        s->reasons[i].text);
    if (s->n_reasons > MOST)
        weft_text_print(&text, "; and %d other reasons", s->n_reasons - MOST);
    weft_status status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return status;
}

static weft_status refuse(const tune_search *s, weft_error *err)
{
    weft_text text = {0};
    if (!s->n)
        return refuse_all(s, err);
    const tune_result *r = s->results[0];
    weft_text_add(&text, "nothing fits: of ");
    weft_text_print(&text, "%lld choices the smallest needs ", (long long)s->planned);
    weft_print_bytes(&text, r->bytes);
    weft_text_add(&text, " a rank (arena ");
    weft_print_bytes(&text, r->arena);
    weft_text_add(&text, ", state ");
    weft_print_bytes(&text, r->state);
    weft_text_add(&text, ", inputs and the like ");
    weft_print_bytes(&text, r->others);
    weft_text_add(&text, ", libraries ");
    weft_print_bytes(&text, r->libraries);
    weft_text_add(&text, "), and there are ");
    weft_print_bytes(&text, s->room);
    weft_text_add(&text, "; it is: ");
    tune_choice_print(s->space, &r->choice, &text);
    weft_text_print(&text, "; --memory %.2fGiB would do", ceil(r->bytes / (1 << 30) * 100) / 100);
    if (!s->all)
        weft_text_add(&text, "; not all choices were looked at");
    weft_status status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return status;
}

/* ---- --write ---- */

static void print_reason(const tune_search *s, int key, const tune_result *best,
                         const tune_result *other, weft_text *text)
{
    const tune_key *k = &s->space->keys[key];
    weft_text_print(text, ";   %s.%s = %s instead of %s: else ", k->section, k->key,
                    k->values[best->choice.at[key]], k->values[other->choice.at[key]]);
    if (other->refused) {
        weft_text_add(text, "it cannot be planned\n");
        return;
    }
    weft_text_add(text, "the step takes ");
    weft_print_seconds(text, other->step_s);
    weft_text_add(text, " and ");
    weft_print_bytes(text, other->bytes);
    weft_text_print(text, "%s\n", tune_fits(s, other) ? "" : ", which does not fit");
}

/* Why: what would be if one key were as the INI has it, or the first of its values. */
static weft_status print_reasons(const tune_search *s, weft_text *text, weft_error *err)
{
    const tune_result *best = s->results[0];
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->space->n_keys && !status; i++) {
        const int base = s->space->keys[i].base > 0 ? s->space->keys[i].base : 0;
        tune_result other = {.refused = true, .choice = best->choice};
        if (best->choice.at[i] == base || !tune_key_counts(s->space, &best->choice, i))
            continue;
        other.choice.at[i] = base;
        if (tune_choice_fits(s->space, &other.choice))
            status = tune_plan(s->space, &other.choice, &other, NULL, err);
        if (!status)
            print_reason(s, i, best, &other, text);
    }
    return status;
}

weft_status tune_write_file(const char *path, const weft_text *found, weft_text *out,
                            weft_error *err)
{
    if (found->out_of_memory)
        return weft_fail_memory(err);
    weft_status s = weft_write_file(path, weft_text_get(found), found->size, err);
    if (s)
        weft_text_print(out, "\n%s could not be written; this would stand in it:\n\n%s", path,
                        weft_text_get(found));
    return s;
}

static weft_status write_best(const tune_search *s, const char *path, weft_text *out,
                              weft_error *err)
{
    const tune_result *best = s->results[0];
    weft_text text = {0};
    weft_text_print(&text, "; weft tune %s -n %d", s->space->options->ini, s->space->ranks);
    if (s->space->options->gpu)
        weft_text_print(&text, " --gpu %s", s->space->options->gpu);
    weft_text_add(&text, ": predicted step ");
    weft_print_seconds(&text, best->step_s);
    weft_text_add(&text, ", memory ");
    weft_print_bytes(&text, best->bytes);
    weft_text_print(&text, " a rank, bound by %s", best->bound);
    if (best->profile)
        weft_text_print(&text, ", by the GPU's profile %016" PRIx64, best->profile);
    weft_text_add(&text, "\n");
    weft_status status = print_reasons(s, &text, err);
    status = status ? status : tune_print_ini(s->space, &best->choice, 0, &text, err);
    status = status ? status : tune_write_file(path, &text, out, err);
    weft_text_release(&text);
    return status;
}

/* ---- the command ---- */

static int processors(void)
{
    const weft_processors p = weft_cli_processors();
    return weft_processors_share(&p, 1, 1, 1);
}

/* More ranks can be divided in more ways. */
static int usual_plans(int ranks)
{
    int plans = 30;
    for (; ranks > 1; ranks /= 2)
        plans += 30;
    return plans < 210 ? 210 : plans;
}

/* What is for predictions has no meaning there. */
static weft_status measure(const weft_cli_options *options, const wishes *w, double room,
                           double limit_s, weft_text *text, weft_error *err)
{
    const tune_measure how = {.options = options,
                              .fixed = &w->fixed,
                              .room = room,
                              .from_s = weft_now(),
                              .limit_s = limit_s,
                              .top = w->top,
                              .write = w->write};
    if (w->gpu || w->goal || w->plans)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--measure runs choices on this machine, and --%s is for predictions; "
                         "leave one out",
                         w->gpu    ? "gpu"
                         : w->goal ? "for"
                                   : "plans");
    return tune_measure_run(&how, text, err);
}

static weft_status tune(const weft_cli_options *options, const wishes *w, weft_text *text,
                        weft_error *err)
{
    tune_space space = {0};
    tune_search s = {.space = &space,
                     .most_plans = w->plans ? (int)w->plans : usual_plans(options->ranks),
                     .top = (int)w->top,
                     .from_s = weft_now(),
                     .threads = processors(),
                     .for_memory = w->goal && strcmp(w->goal, "memory") == 0};
    weft_status status = check_fixed(&w->fixed, err), one;
    if (options->n_arguments > 1)
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "tune takes one INI, and there are %d arguments; run folders go with "
                           "--calibrate",
                           options->n_arguments);
    if (w->memory && (one = read_bytes(w->memory, &s.room, err)))
        status = one;
    if (w->limit && (one = read_seconds(w->limit, &s.limit_s, err)))
        status = one;
    if (w->write && (one = weft_cli_check_new("--write", w->write, err)))
        status = one;
    if (w->measured)
        return status ? status : measure(options, w, s.room, s.limit_s, text, err);
    status = status ? status : tune_space_init(&space, options, &w->fixed, err);
    status = status ? status : tune_run(&s, err);
    if (!status && (s.n == 0 || !tune_fits(&s, s.results[0])))
        status = refuse(&s, err);
    if (!status)
        print_table(&s, w->top, text);
    if (!status && w->write)
        status = write_best(&s, w->write, text, err);
    tune_search_release(&s);
    tune_space_release(&space);
    return status;
}

/* Runs are as they were: nothing is chosen. */
static weft_status calibrate(const weft_cli_options *options, const wishes *w, weft_text *text,
                             weft_error *err)
{
    const char *other = w->gpu             ? "--gpu"
                        : w->goal          ? "--for"
                        : w->memory        ? "--memory"
                        : w->limit         ? "--limit"
                        : w->measured      ? "--measure"
                        : w->plans         ? "--plans"
                        : w->fixed.n       ? "--fix"
                        : options->n_edits ? "-o, --with and --without"
                        : options->ranks   ? "-n"
                                           : NULL;
    if (other)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--calibrate takes runs as they were made, and no %s; leave it out",
                         other);
    weft_status s = w->write ? weft_cli_check_new("--write", w->write, err) : WEFT_OK;
    return s ? s
             : tune_calibrate(options->arguments, options->n_arguments,
                              w->trust ? WEFT_TRUST_ALL : WEFT_TRUST_FILES, w->write, text, err);
}

int weft_cmd_tune(int argc, char **argv)
{
    static const char *const goals[] = {"time", "memory", NULL};
    wishes w = {.top = 10};
    const weft_option extra[] = {
        {.name = "gpu",
         .argument = "GPU",
         .help = "for ranks with such a GPU, whatever device is listed: h100, a100, ... or a file",
         .text = &w.gpu},
        {.name = "memory",
         .argument = "BYTES",
         .help = "what a rank has, as 80GiB (default: what the GPU has)",
         .text = &w.memory},
        {.name = "for",
         .argument = "GOAL",
         .help = "time (default): the fastest that fits; memory: the smallest",
         .choices = goals,
         .text = &w.goal},
        {.name = "fix",
         .argument = "SECTION.KEY=VALUE",
         .help = "leave a key at this value; may be repeated",
         .values = &w.fixed},
        {.name = "top",
         .argument = "N",
         .help = "print so many choices (default 10)",
         .number = &w.top,
         .min = 1,
         .max = 1000000},
        {.name = "plans",
         .argument = "N",
         .help = "make so many plans (default: 30 for each doubling of ranks, 210 at least); if "
                 "there are "
                 "no more choices, all are planned whole",
         .number = &w.plans,
         .min = 1,
         .max = 1000000},
        {.name = "limit",
         .argument = "SECONDS",
         .help = "begin nothing that would end later; the answer then depends on the machine",
         .text = &w.limit},
        {.name = "measure",
         .help = "short runs on this machine's processors, of ranks, threads and micro-batches, "
                 "instead of predictions",
         .flag = &w.measured},
        {.name = "calibrate",
         .help =
             "instead of an INI there are run folders, to whose times the numbers of the machine "
             "are fitted, for predictions",
         .flag = &w.calibrates},
        {.name = "trust",
         .help =
             "with --calibrate: folders of plugins and libraries that run folders name are opened",
         .flag = &w.trust},
        {.name = "write",
         .argument = "FILE",
         .help =
             "write the best as an INI, with why of each key; with --calibrate, the numbers; an "
             "existing file is refused",
         .text = &w.write},
        {.name = NULL},
    };
    const weft_cli_usage usage = {
        .command = "tune",
        .arguments = "run.ini | DIR ...",
        .max_arguments = -1,
        .summary = "Finds the fastest settings of a run's parallelism that fit, by planning them.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    options.gpu = w.gpu;
    if (code == WEFT_CLI_GO) {
        weft_status s =
            w.calibrates ? calibrate(&options, &w, &text, &err) : tune(&options, &w, &text, &err);
        code = weft_cli_print(&text);
        code = s ? weft_cli_conclude(s, &err) : code;
    }
    weft_option_values_release(&w.fixed);
    weft_text_release(&text);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
