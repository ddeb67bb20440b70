/* SPDX-License-Identifier: Apache-2.0 */
/* Values of -o, --with and --without, and lists of words: the first byte says which. */
#include "console/settings.h"
#include "fuzz.h"

#include <stdlib.h>

static const char *const seeds[] = {
    "otrain.steps=5",   "oweft.dir=a b",     "omesh.rule=param - tp, input seq cp",
    "wfsdp@after:bf16", "wdump@first",       "wtp@before:cpu",
    "xllama3",          "otrain.seq_len=1k", NULL};
static const char *const words[] = {"@after:", "@before:", "@first", ".", "=",     ",",  " ", "\n",
                                    "train.",  "weft.",    "llama3", "9", "1e999", "\"", NULL};

static weft_status parse(const char *data, size_t n)
{
    static const char ini[] = "[weft]\nplugins = llama3 bf16 cpu\n[train]\nsteps = 5\n";
    weft_error err = {0};
    weft_settings *settings = NULL;
    const weft_params *params;
    if (n == 0)
        return WEFT_OK;
    if (weft_settings_read_text("run.ini", ini, sizeof ini - 1, &settings, &err))
        abort();
    weft_status s = data[0] == 'w'   ? weft_settings_with(settings, data + 1, &err)
                    : data[0] == 'x' ? weft_settings_without(settings, data + 1, &err)
                                     : weft_settings_override(settings, data + 1, &err);
    fuzz_check(s, &err);
    weft_error_clear(&err);
    fuzz_check(weft_settings_section(settings, "train", weft_core_params("train"), &params, &err),
               &err);
    weft_error_clear(&err);
    fuzz_check(weft_settings_section(settings, "mesh", weft_core_params("mesh"), &params, &err),
               &err);
    weft_settings_destroy(settings);
    weft_error_release(&err);
    return s;
}

int main(int argc, char **argv)
{
    return fuzz_main(&(fuzz_target){"fuzz_options", seeds, words, parse}, argc, argv);
}
