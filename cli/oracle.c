/* SPDX-License-Identifier: Apache-2.0 */
/* weft oracle: two INIs, the same weights and data, k steps; are losses, gradient norms, every
 * gradient before clipping and every parameter the same within what the dtypes allow? If not, where
 * do the runs part? */
#include "oracle.h"

#include <string.h>

/* Ranks that an INI's mesh asks for. */
static weft_status count_ranks(weft_cli_options *options, weft_error *err)
{
    weft_session session;
    weft_status s = weft_session_init(&session, options, 0, NULL, true, err);
    s = s ? s : weft_plan_ranks(session.plugins, &options->ranks, err);
    weft_session_release(&session);
    return s;
}

/* Both INIs, one after the other. Release both records in every case. */
static int record_both(const weft_cli_options *options, int64_t steps, bool trace,
                       oracle_record records[2], weft_error *err)
{
    int code = 0;
    bool made[2] = {oracle_record_init(&records[0], steps), oracle_record_init(&records[1], steps)};
    for (int n = 0; n < 2 && !code; n++) {
        weft_cli_options one = *options;
        one.ini = options->arguments[n];
        one.ranks = 0;
        one.threads = true;
        records[n].trace = trace;
        records[n].reference = n ? &records[0] : NULL;
        if (!made[n])
            weft_fail_memory(err);
        else
            count_ranks(&one, err);
        code = weft_error_status(err) ? weft_cli_report(err)
                                      : weft_ranks_run(&one, true, oracle_run, &records[n]);
        if (!code)
            oracle_complete(&records[n]);
    }
    return code;
}

/* Once more, up to the step in which the runs part, with every value of the forward. */
static int trace_both(const weft_cli_options *options, int64_t steps, oracle_exactness exact,
                      weft_text *out, weft_error *err)
{
    oracle_record records[2];
    int code = record_both(options, steps, true, records, err);
    if (!code)
        oracle_explain(&records[0], &records[1], exact, out);
    oracle_record_release(&records[1]);
    oracle_record_release(&records[0]);
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

static int conclude(const weft_cli_options *options, oracle_record records[2],
                    oracle_exactness exact, weft_error *err)
{
    oracle_verdict v;
    weft_text out = {0};
    oracle_record *a = &records[0];
    const oracle_record *b = &records[1];
    if (oracle_compare(a, b, exact, &v, &out, err)) {
        weft_text_release(&out);
        return weft_cli_report(err);
    }
    bool same = compare_replicas(records, &out) && v.first < 0;
    int code = v.first < 0 ? 0 : trace_both(options, v.first + 1, exact, &out, err);
    weft_text_print(&out, "%s: %d and %d rank%s; worst: %s\n",
                    !same   ? "PARTED"
                    : exact ? "equal"
                            : "parity",
                    a->ranks, b->ranks, b->ranks == 1 ? "" : "s", v.text);
    int printed = weft_cli_print(&out);
    weft_text_release(&out);
    return code ? code : printed ? printed : !same;
}

static int run(const weft_cli_options *options, int64_t steps, oracle_exactness exact,
               weft_error *err)
{
    oracle_record records[2];
    int code = record_both(options, steps, false, records, err);
    if (!code)
        code = conclude(options, records, exact, err);
    oracle_record_release(&records[1]);
    oracle_record_release(&records[0]);
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
    int64_t steps = 2;
    const char *bitwise = NULL;
    const weft_option extra[] = {
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
                   "Exit code 0 at parity, 1 where they part: then it "
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
    if (code == WEFT_CLI_GO)
        code = run(&options, steps, exact, &err);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
