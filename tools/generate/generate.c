/* SPDX-License-Identifier: Apache-2.0 */
/* weft generate: a trained model continues texts, or makes pictures, on any mesh. */
#include "generate.h"
#include "execute/run.h"
#include "forecast/forecast.h"
#include "launch/job.h"
#include "launch/stop.h"
#include "net/digest.h"
#include "room.h"

#include <string.h>
#include <unistd.h>

/* What all ranks share. */
typedef struct job {
    const generate_wishes *wishes;
    const generate_source *source;
} job;

/* One rank's. */
typedef struct work {
    weft_rank *rank;
    const job *job;
    weft_plan *plan;
    weft_run *run;
    generate_texts texts;
    weft_decoder decoder;
    weft_generation generation;
    int32_t *eos;
    bool streams; /* text appears as it is written */
    size_t printed;
} work;

/* ---- sizes ---- */

static weft_status plan_for(const work *w, const weft_writing *writing, weft_plan **plan,
                            weft_error *err)
{
    const weft_session *session = &w->rank->session;
    const weft_plan_options options = {.rank = session->host.rank,
                                       .ranks = session->host.ranks,
                                       .write = writing,
                                       .broken = weft_plan_keep_broken};
    return weft_plan_create(session->plugins, session->settings, &options, plan, err);
}

/* What the model makes says its graph. */
static weft_status check_kind_of(const work *w, const weft_plan *plan, weft_error *err)
{
    if (w->job->wishes->out || !weft_output_is_like(plan->graphs[WEFT_MODE_GENERATE], "image"))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s writes no text, but pictures: name a file for their latents, --out FILE",
                     w->job->source->name);
}

/* A model of pictures has none, and says so itself. */
static weft_status without_tokenizer(const work *w, weft_error *err)
{
    const weft_writing least = {.rows = 1, .context = 1, .places = 1};
    weft_plan *plan = NULL;
    weft_status s = plan_for(w, &least, &plan, err);
    s = s ? s : check_kind_of(w, plan, err);
    weft_plan_destroy(plan);
    return s ? s
             : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "no tokenizer comes with %s; give the prompt as --ids \"1 2 3\"",
                         w->job->source->name);
}

static weft_status find_texts(work *w, weft_error *err)
{
    const generate_wishes *wishes = w->job->wishes;
    weft_run_tokenizer tokenizer = weft_run_tokenizer_find(w->rank->session.plugins);
    bool ids = wishes->ids.n > 0;
    if (!ids && !tokenizer.table)
        return without_tokenizer(w, err);
    if (ids)
        tokenizer.table = NULL;
    return generate_texts_init(&w->texts, wishes, &tokenizer, err);
}

static void find_lengths(const work *w, int64_t *least, int64_t *most)
{
    *least = INT64_MAX;
    *most = 0;
    for (int i = 0; i < w->texts.n; i++) {
        int64_t n = (int64_t)w->texts.list[i].n_prompt;
        *least = n < *least ? n : *least;
        *most = n > *most ? n : *most;
    }
}

/* As many places as the longest prompt and what is added to it need; shorter prompts have padding
 * in front, which is no part of their context. */
static weft_status size_writing(const work *w, weft_writing *writing, weft_error *err)
{
    const generate_wishes *wishes = w->job->wishes;
    const weft_params *train;
    weft_status s = weft_settings_section(w->rank->session.settings, "train",
                                          weft_core_params("train"), &train, err);
    if (s)
        return s;
    int64_t least, most,
        context = wishes->context > 0 ? wishes->context : weft_params_int(train, "seq_len");
    find_lengths(w, &least, &most);
    if (most >= context)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the longest prompt has %lld tokens, and the context %lld%s",
                         (long long)most, (long long)context,
                         wishes->context > 0 ? "" : ", as [train] seq_len; --context sets another");
    int64_t places = most + wishes->most, limit = context + most - least;
    *writing = (weft_writing){.rows = w->texts.n < wishes->batch ? w->texts.n : wishes->batch,
                              .cache = !wishes->no_cache};
    writing->places = places < limit ? places : limit;
    writing->context = context < most + wishes->most ? context : most + wishes->most;
    return WEFT_OK;
}

/* ---- a run ---- */

/* What has a tokenizer writes texts, most likely: the core speaks of inputs that pictures have not.
 */
static weft_status advise(const work *w, weft_status s, weft_error *err)
{
    if (s && w->job->wishes->out && weft_run_tokenizer_find(w->rank->session.plugins).table)
        weft_fail(err, s, WEFT_NOWHERE,
                  "--out is for models that make pictures, as flux does; %s has a tokenizer, as "
                  "models of texts have: leave --out out, and it writes text",
                  w->job->source->name);
    return s;
}

static weft_status make_plan(work *w, weft_error *err)
{
    weft_writing writing = {.rows = 1, .context = 1, .places = 1}; /* images says it itself */
    weft_status s = w->job->wishes->out ? WEFT_OK : size_writing(w, &writing, err);
    s = s ? s : advise(w, plan_for(w, &writing, &w->plan, err), err);
    return s ? s : check_kind_of(w, w->plan, err);
}

static weft_status plan_in_time(work *w, weft_error *err)
{
    weft_stop_limit(weft_session_patience(w->rank->session.run), "planning");
    weft_status s = make_plan(w, err);
    weft_stop_limit(0, NULL);
    return s;
}

static weft_status load(work *w, weft_error *err)
{
    const generate_source *source = w->job->source;
    if (w->job->wishes->untrained)
        return WEFT_OK;
    return source->checkpoint ? generate_read_weights(w->run, source->folder, err)
                              : generate_take_weights(w->run, err);
}

static weft_status check_ids(const work *w, weft_error *err)
{
    for (int i = 0; i < w->texts.n; i++)
        for (size_t k = 0; k < w->texts.list[i].n; k++)
            if (w->texts.list[i].ids[k] >= w->decoder.vocab)
                return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                 "prompt %d has the id %d, and the model only %lld ids", i + 1,
                                 (int)w->texts.list[i].ids[k], (long long)w->decoder.vocab);
    return WEFT_OK;
}

static weft_status start(work *w, weft_error *err)
{
    weft_status s = weft_decoder_init(&w->decoder, w->plan, w->run, w->run->step, err);
    return s ? s : check_ids(w, err);
}

static weft_status prepare(work *w)
{
    weft_rank *rank = w->rank;
    weft_status s = weft_rank_open(rank);
    if (!w->job->wishes->out)
        s = s ? s : weft_rank_agree(rank, "reading prompts", find_texts(w, &rank->err));
    s = s ? s : weft_rank_agree(rank, "planning", plan_in_time(w, &rank->err));
    s = s ? s
          : weft_rank_agree(rank, "comparing the ranks",
                            weft_digest_check(w->plan, rank->control, &rank->err));
    s = s ? s : weft_cli_check_room(rank, w->plan);
    s = s ? s : weft_rank_prepare(rank, w->plan, &w->run);
    s = s ? s : weft_rank_agree(rank, "loading weights", load(w, &rank->err));
    return s || w->job->wishes->out
               ? s
               : weft_rank_agree(rank, "preparing to write", start(w, &rank->err));
}

/* ---- writing ---- */

static weft_status added(void *ctx, const weft_continuation *t, weft_error *err)
{
    work *w = ctx;
    return w->streams ? generate_print_more(&w->texts, t, &w->printed, err) : WEFT_OK;
}

/* What ends texts: the tokenizer's mark, and those that come with the model. */
static weft_status set_rules(work *w, weft_error *err)
{
    const generate_source *source = w->job->source;
    const generate_texts *t = &w->texts;
    if (!(w->eos = weft_alloc(((size_t)source->n_eos + 1) * sizeof *w->eos)))
        return weft_fail_memory(err);
    int n = 0;
    for (int i = 0; i < source->n_eos; i++)
        if (source->eos[i] < w->decoder.vocab)
            w->eos[n++] = source->eos[i];
        else if (w->rank->session.host.rank == 0)
            weft_log_print(w->rank->session.host.log, WEFT_LOG_WARN,
                           "'eos_token_id' of %s is %d, and the model has %lld ids: no text ends "
                           "with it",
                           source->name, (int)source->eos[i], (long long)w->decoder.vocab);
    const weft_run_tokenizer *by = &t->tokenizer;
    int eos = by->table ? by->table->eos(by->self) : -1;
    if (eos >= 0)
        w->eos[n++] = eos;
    w->generation = (weft_generation){
        .most = w->job->wishes->most, .eos = w->eos, .n_eos = n, .added = added, .ctx = w};
    w->generation.vocab = by->table ? by->table->vocab_size(by->self) : 0;
    return WEFT_OK;
}

static weft_status print_group(work *w, const weft_continuation *list, int n, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && !s; i++) {
        size_t printed = 0;
        s = w->job->wishes->json ? generate_print_json(&w->texts, &list[i], err)
                                 : generate_print_more(&w->texts, &list[i], &printed, err);
    }
    return s;
}

static weft_status write_group(work *w, weft_continuation *list, int n, weft_error *err)
{
    bool first = w->rank->session.host.rank == 0;
    w->printed = 0;
    w->streams = first && n == 1 && !w->job->wishes->json;
    weft_status s = w->streams ? generate_print_more(&w->texts, list, &w->printed, err) : WEFT_OK;
    s = s ? s : weft_generate(&w->decoder, &w->generation, list, n, err);
    return s || w->streams || !first ? s : print_group(w, list, n, err);
}

static void tell_speed(const work *w, double seconds)
{
    const weft_session *session = &w->rank->session;
    double tokens = (double)w->generation.tokens;
    weft_log_print(session->host.log, WEFT_LOG_INFO, "%.0f tokens in %.2f s: %.1f tokens/s%s",
                   tokens, seconds, seconds > 0 ? tokens / seconds : 0,
                   w->plan->writing.cache ? "" : " without a cache");
}

static weft_status write_all(work *w, weft_error *err)
{
    weft_status s = set_rules(w, err);
    int rows = (int)w->plan->writing.rows;
    double begin = weft_now();
    for (int i = 0; i < w->texts.n && !s; i += rows)
        s = write_group(w, w->texts.list + i, w->texts.n - i < rows ? w->texts.n - i : rows, err);
    if (!s && w->rank->session.host.rank == 0)
        tell_speed(w, weft_now() - begin);
    return s;
}

static weft_status body(weft_rank *rank, void *ctx)
{
    work w = {.rank = rank, .job = ctx};
    weft_status s = prepare(&w);
    if (!s)
        s = w.job->wishes->out ? weft_generate_asked(w.run, &rank->err) : write_all(&w, &rank->err);
    weft_decoder_release(&w.decoder);
    weft_free(w.eos);
    generate_texts_release(&w.texts);
    weft_run_destroy(w.run);
    weft_plan_destroy(w.plan);
    return s;
}

/* ---- the command ---- */

static weft_status refuse(const generate_wishes *w, const char *what, const char *name,
                          weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     w->out ? "%s%s is of texts, and --out is for latents of pictures"
                            : "%s%s is of pictures; --out names the file for their latents",
                     what, name);
}

/* The same with keys of the plugin that writes the one, where the other is asked for. */
static weft_status check_keys(const generate_wishes *w, const weft_cli_options *given,
                              weft_error *err)
{
    const char *const section = w->out ? "sample." : "images.";
    weft_status s = WEFT_OK;
    for (int i = 0; i < given->n_edits; i++) {
        const weft_cli_edit *e = &given->edits[i];
        if (e->kind == WEFT_CLI_SET && strncmp(e->text, section, strlen(section)) == 0)
            s = refuse(w, "-o ", e->text, err);
    }
    return s;
}

/* What is of texts alone, or of pictures, is not passed over in silence. All at once. */
static weft_status check_kind(const generate_wishes *w, weft_error *err)
{
    const struct {
        const char *name;
        bool given, of_text;
    } list[] = {
        {"prompt", w->prompts.n > 0, true},
        {"ids", w->ids.n > 0, true},
        {"max-tokens", w->most >= 0, true},
        {"greedy", w->greedy, true},
        {"temperature", w->temperature, true},
        {"top-k", w->top_k >= 0, true},
        {"top-p", w->top_p, true},
        {"context", w->context != -1, true},
        {"no-cache", w->no_cache, true},
        {"json", w->json, true},
        {"samples", w->samples, false},
        {"steps", w->steps >= 0, false},
        {"guidance", w->guidance, false},
        {"cfg", w->cfg, false},
        {"empty", w->empty, false},
    };
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].given && list[i].of_text == (w->out != NULL))
            s = refuse(w, "--", list[i].name, err);
    return s;
}

static weft_status check_source(const generate_wishes *w, const generate_source *s, weft_error *err)
{
    if (w->out || !s->images)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s lists images, so it writes no text: name a file for latents of pictures, "
                     "--out FILE",
                     s->name);
}

static weft_status check(const generate_wishes *w, const weft_cli_options *given, weft_error *err)
{
    weft_status s = check_kind(w, err), one = check_keys(w, given, err);
    s = s ? s : one;
    one = WEFT_OK;
    if (w->out)
        one = weft_cli_check_new("--out", w->out, err);
    if (s || one)
        return s ? s : one;
    if (w->ids.n && (w->prompts.n || w->prompts_file))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "give prompts as text or as --ids, not both");
    if (w->greedy && w->temperature)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--greedy is --temperature 0: give one of the two");
    return WEFT_OK;
}

/* What is not given, of texts. */
static void complete(generate_wishes *w)
{
    if (w->out)
        return;
    w->most = w->most < 0 ? 128 : w->most;
    w->batch = w->batch < 0 ? 8 : w->batch;
}

static int run(int argc, char **argv, const weft_cli_options *given, generate_wishes *wishes)
{
    weft_error err = {0};
    generate_source source = {0};
    generate_options all = {0};
    weft_status s = check(wishes, given, &err);
    complete(wishes);
    s = s ? s : generate_source_find(&source, given->arguments[0], given, wishes, &err);
    s = s ? s : check_source(wishes, &source, &err);
    s = s ? s : generate_axes_settle(&source, given, wishes, &err);
    s = s ? s : generate_options_init(&all, given, wishes, &source, &err);
    job j = {wishes, &source};
    int code = s ? weft_cli_conclude(s, &err) : weft_job_run(argc, argv, &all.options, body, &j);
    generate_options_release(&all);
    generate_source_release(&source);
    weft_error_release(&err);
    return code;
}

enum { MOST = 1000000000 }; /* of what an option counts */

int weft_cmd_generate(int argc, char **argv)
{
    generate_wishes w = {
        .most = -1, .top_k = -1, .seed = -1, .context = -1, .batch = -1, .steps = -1};
    const weft_option extra[] = {
        {.name = "prompt",
         .argument = "TEXT",
         .help = "continue this text; may be repeated",
         .values = &w.prompts},
        {.name = "prompts",
         .argument = "FILE",
         .help = "continue every line of a file; of pictures, the embeddings of their texts",
         .text = &w.prompts_file},
        {.name = "ids",
         .argument = "\"1 2 3\"",
         .help = "continue these token ids, and print ids; may be repeated",
         .values = &w.ids},
        {.name = "max-tokens",
         .argument = "N",
         .help = "the most that is added to a prompt (128)",
         .number = &w.most,
         .min = 1,
         .max = MOST},
        {.name = "greedy", .help = "always the likeliest token", .flag = &w.greedy},
        {.name = "temperature",
         .argument = "X",
         .help = "divides the logits; 0 is greedy ([sample] temperature)",
         .text = &w.temperature},
        {.name = "top-k",
         .argument = "N",
         .help = "choose among the N likeliest tokens; 0: all ([sample] top_k)",
         .number = &w.top_k,
         .min = 0,
         .max = MOST},
        {.name = "top-p",
         .argument = "X",
         .help = "choose among those that have this probability together ([sample] top_p)",
         .text = &w.top_p},
        {.name = "seed",
         .argument = "N",
         .help = "seed of the choices ([sample] seed), or of the noise ([images] seed)",
         .number = &w.seed,
         .min = 0,
         .max = INT64_C(9000000000000000000)},
        {.name = "context",
         .argument = "N",
         .help = "the most tokens of a text, its prompt included ([train] seq_len)",
         .number = &w.context,
         .min = 1,
         .max = MOST},
        {.name = "batch",
         .argument = "N",
         .help = "prompts that are continued together (8); pictures made together (1)",
         .number = &w.batch,
         .min = 1,
         .max = MOST},
        {.name = "no-cache",
         .help = "compute everything again for every token",
         .flag = &w.no_cache},
        {.name = "json",
         .help = "print a line of JSON for every text: prompt, text, ids, why it ended",
         .flag = &w.json},
        {.name = "untrained",
         .help = "parameters as training begins with them, not those of a checkpoint",
         .flag = &w.untrained},
        {.name = "out",
         .argument = "FILE",
         .help =
             "make pictures, and write their latents to this .safetensors file; an existing one is "
             "refused",
         .text = &w.out},
        {.name = "samples",
         .argument = "\"0 1 2\"",
         .help = "pictures of these texts of the file of prompts (all)",
         .text = &w.samples},
        {.name = "steps",
         .argument = "N",
         .help = "steps from noise to a picture ([images] steps)",
         .number = &w.steps,
         .min = 1,
         .max = MOST},
        {.name = "guidance",
         .argument = "X",
         .help = "what the model is told of guidance ([images] guidance)",
         .text = &w.guidance},
        {.name = "cfg",
         .argument = "X",
         .help = "classifier-free guidance, with --empty ([images] cfg)",
         .text = &w.cfg},
        {.name = "empty",
         .argument = "FILE",
         .help = "the embeddings of an empty text",
         .text = &w.empty},
        {.name = NULL},
    };
    const weft_cli_usage usage = {
        .command = "generate",
        .arguments = "MODEL",
        .max_arguments = 1,
        .summary = "Continues texts with a trained model, or makes pictures. MODEL: a run folder, "
                   "a checkpoint "
                   "(step-N), a Hugging Face folder, or an INI file, whose run\n"
                   "folder's newest checkpoint is taken and whose mesh is used.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO)
        code = run(argc, argv, &options, &w);
    weft_cli_options_release(&options);
    weft_option_values_release(&w.prompts);
    weft_option_values_release(&w.ids);
    return code;
}
