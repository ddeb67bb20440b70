/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int weft_cli_exit_code(weft_status status)
{
    switch (status) {
    case WEFT_OK:
        return 0;
    case WEFT_ERR_INPUT:
        return 2;
    case WEFT_ERR_STOPPED:
        return 3;
    case WEFT_ERR_MEMORY:
    case WEFT_ERR_IO:
    case WEFT_ERR_RUN:
    case WEFT_ERR_PEER:
    case WEFT_ERR_INTERNAL:
        return 1;
    }
    return 1;
}

bool weft_cli_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
}

static bool in_colour(void)
{
    const char *no_color = getenv("NO_COLOR");

    return weft_cli_terminal() && !(no_color && no_color[0]);
}

/* Text may quote what the user gave: a terminal must not obey it. */
static void add_safely(weft_text *out, const char *text)
{
    for (; *text; text++) {
        const char c = (unsigned char)*text < 0x20 && *text != '\n' && *text != '\t' ? '?' : *text;
        weft_text_add_bytes(out, &c, 1);
    }
}

int weft_cli_report(const weft_error *err)
{
    const char *label = weft_error_status(err) == WEFT_ERR_STOPPED ? ""
                        : in_colour()                              ? "\033[1;31merror:\033[0m "
                                                                   : "error: ";
    weft_text text = {0};
    for (int i = 0; i < err->n_items; i++) {
        weft_text_add(&text, label);
        add_safely(&text, err->items[i].text);
        weft_text_add(&text, "\n");
    }
    if (err->out_of_memory)
        weft_text_print(&text, "%sout of memory\n", label);
    flockfile(stderr);
    weft_cli_write_error(&text);
    if (text.out_of_memory)
        fputs("error: out of memory\n", stderr);
    funlockfile(stderr);
    weft_text_release(&text);
    return weft_cli_exit_code(weft_error_status(err));
}

int weft_cli_conclude(weft_status s, const weft_error *err)
{
    int code = weft_cli_report(err);

    if (!s || code)
        return code;
    if (err->n_items == 0)
        fputs("error: weft failed and does not say why; please report this\n", stderr);
    return 1;
}

int weft_cli_print(const weft_text *text)
{
    const char *why = NULL;

    if (text->out_of_memory)
        why = "out of memory";
    else if (fwrite(weft_text_get(text), 1, text->size, stdout) != text->size ||
             fflush(stdout) != 0)
        why = strerror(errno);
    if (!why)
        return 0;
    fprintf(stderr, "error: cannot write the output: %s\n", why);
    return 1;
}
