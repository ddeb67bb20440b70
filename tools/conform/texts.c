/* SPDX-License-Identifier: Apache-2.0 */
/* What training does not show: the loss of validation, and text that is written, on a mesh and on
 * one rank. */
#include "conform.h"

#include "process.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

enum { SECONDS = 100 };

/* Of two equal runs whose parameters have parted by the rounding of one step. */
static const double tolerance = 1e-4;

/* A call that ends well; else what is wrong is said, as far as it is the plugin's. */
static bool called(const conform *c, const char *check, const char *what, const char *const *argv,
                   weft_text *said)
{
    int code = weft_process_call(argv, NULL, SECONDS, said);
    if (code == 2 && conform_is_fault(said))
        conform_fail(c, "%s: %s: refused: %s", check, what, conform_gist(said));
    else if (code == 2)
        conform_skip(c, "%s: %s: refused: %s", check, what, conform_gist(said));
    else if (code == 128 + SIGALRM)
        conform_fail(c, "%s: %s: time: does not end within %d s", check, what, SECONDS);
    else if (code)
        conform_fail(c, "%s: %s: %s: %s", check, what, code > 128 ? "crash" : "fails",
                     conform_gist(said));
    return code == 0;
}

/* ---- validation ---- */

typedef struct validated {
    double loss;
    long tokens; /* 0: there was none */
} validated;

static void read_metrics(const char *path, validated *v)
{
    char *text = NULL;
    size_t size;
    weft_error err = {0};
    if (weft_read_file(path, &text, &size, &err) == WEFT_OK) {
        const char *loss = strstr(text, "\"eval_loss\": "),
                   *tokens = strstr(text, "\"eval_tokens\": "),
                   *samples = strstr(text, "\"eval_samples\": ");
        v->loss = loss ? strtod(loss + strlen("\"eval_loss\": "), NULL) : 0;
        v->tokens = tokens    ? strtol(tokens + strlen("\"eval_tokens\": "), NULL, 10)
                    : samples ? strtol(samples + strlen("\"eval_samples\": "), NULL, 10)
                              : 0;
    }
    weft_error_release(&err);
    weft_free(text);
}

/* In a run folder of its own: whatever lists a store must not go on from another run. */
static bool validate(const conform *c, const char *what, const char *ini, int ranks, validated *v)
{
    char number[16], folder[160], dir[180], metrics[180];
    bool listed = strcmp(c->plugin, "metrics") == 0;
    snprintf(number, sizeof number, "%d", ranks);
    snprintf(folder, sizeof folder, "%s/validated-XXXXXX", c->folder);
    if (!mkdtemp(folder))
        return false;
    snprintf(dir, sizeof dir, "weft.dir=%s", folder);
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", folder);
    const char *const argv[] = {"weft",
                                "train",
                                ini,
                                "-n",
                                number,
                                "-o",
                                dir,
                                "-o",
                                "train.steps=1",
                                "-o",
                                "train.eval_every=1",
                                "-o",
                                "train.eval_batches=8",
                                listed ? NULL : "--with",
                                "metrics",
                                NULL};
    weft_text said = {0};
    bool ended = called(c, "validation", what, argv, &said);
    if (ended)
        read_metrics(metrics, v);
    weft_text_release(&said);
    return ended;
}

void conform_compare_validation(const conform *c, const char *what, const char *one,
                                const char *many, int ranks)
{
    validated alone = {0}, spread = {0};
    conform_now(c, "validation: %s", what);
    if (!validate(c, what, one, 1, &alone) || !validate(c, what, many, ranks, &spread))
        return;
    if (alone.tokens != spread.tokens)
        conform_fail(c, "validation: %s: parity: it is of %ld tokens, not of %ld", what,
                     spread.tokens, alone.tokens);
    else if (!(fabs(alone.loss - spread.loss) <= tolerance * fabs(alone.loss)))
        conform_fail(
            c,
            "validation: %s: parity: its loss is %.9g, not %.9g, with the same weights and "
            "tokens; the graph of the mode evaluate means something else there",
            what, spread.loss, alone.loss);
    conform_count(c, "validations compared", alone.tokens > 0);
}

/* ---- text ---- */

/* The lines of JSON; what is logged may differ. */
static void take_lines(const weft_text *said, weft_text *lines)
{
    for (const char *p = weft_text_get(said); *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (*p == '{')
            weft_text_print(lines, "%.*s\n", (int)strcspn(p, "\n"), p);
}

static bool write_text(const conform *c, const char *what, const char *ini, int ranks,
                       weft_text *lines)
{
    char number[16];
    snprintf(number, sizeof number, "%d", ranks);
    const char *const argv[] = {"weft",        "generate", ini,     "-n",           number,
                                "--untrained", "--greedy", "--ids", "1 2 3",        "--ids",
                                "7",           "--ids",    "5 6",   "--max-tokens", "4",
                                "--json",      NULL};
    weft_text said = {0};
    bool ended = called(c, "text", what, argv, &said);
    if (ended)
        take_lines(&said, lines);
    weft_text_release(&said);
    return ended;
}

/* Cut off behind it. */
static const char *first_line(weft_text *lines)
{
    if (!lines->data)
        return "nothing";
    lines->data[strcspn(lines->data, "\n")] = '\0';
    return lines->data;
}

void conform_compare_text(const conform *c, const char *what, const char *one, const char *many,
                          int ranks)
{
    weft_text alone = {0}, spread = {0};
    conform_now(c, "text: %s", what);
    if (write_text(c, what, one, 1, &alone) && write_text(c, what, many, ranks, &spread)) {
        if (strcmp(weft_text_get(&alone), weft_text_get(&spread)) != 0)
            conform_fail(
                c,
                "text: %s: parity: with the same weights it writes %s, and %s on one rank; "
                "the graphs of the modes that write mean something else there",
                what, first_line(&spread), first_line(&alone));
        conform_count(c, "texts compared", 1);
    }
    weft_text_release(&alone);
    weft_text_release(&spread);
}
