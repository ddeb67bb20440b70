/* SPDX-License-Identifier: Apache-2.0 */
/* INI texts, and the piece in which they are sent to other ranks. */
#include "console/settings.h"
#include "fuzz.h"

#include <stdlib.h>

static const char *const seeds[] = {
    "[weft]\nplugins =\n    llama3\n    ?tp ; parallel\n    cpu\ndir = run\n[train]\nsteps = 5\n"
    "seq_len = 16\nseed = 1\n[mesh]\nrule =\n    param:*.mlp.* ffn tp\n    input seq tp\n",
    "; a comment\n\n[weft]\nplugins = a, b c\n[train]\nsteps = 2k\nglobal_batch = 4\n"
    "micro_batch = auto\neval_every = 0\n# another\n",
    "[weft]\nplugins = a\n[train]\nsteps = 1e3\ndtype = f64\nnonfinite = skip\n", NULL};
static const char *const words[] = {
    "\n[train]\n", "\nsteps = ", "\n    ", "=",  "[",
    "]",           ";",          "#",      "\\", "\"",
    "\r\n",        "-1",         "1e999",  "0x", "\t",
    ",",           "?",          "@",      "%",  "\n[weft]\nplugins = x\n",
    NULL};

static void check_sections(weft_settings *settings, weft_error *err)
{
    static const char *const sections[] = {"weft", "train", "mesh"};
    const weft_params *params;
    const weft_listed *list;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        weft_settings_section(settings, sections[i], weft_core_params(sections[i]), &params, err);
    weft_settings_plugins(settings, &list);
    weft_error_clear(err);
}

static weft_status parse(const char *data, size_t n)
{
    weft_error err = {0};
    weft_settings *settings = NULL;
    weft_status s = weft_settings_read_text("run.ini", data, n, &settings, &err);
    fuzz_check(s, &err);
    if (!s)
        check_sections(settings, &err);
    weft_settings_destroy(settings);
    settings = NULL;
    weft_error_clear(&err);
    weft_status packed = weft_settings_unpack(data, n, &settings, &err);
    if ((packed != WEFT_OK) != (err.n_items > 0)) /* a wrong one is our own mistake */
        abort();
    weft_settings_destroy(settings);
    weft_error_release(&err);
    return s;
}

int main(int argc, char **argv)
{
    return fuzz_main(&(fuzz_target){"fuzz_ini", seeds, words, parse}, argc, argv);
}
