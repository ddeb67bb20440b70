/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int weft_cli_exit_code(weft_status status)
{
    switch (status) {
    case WEFT_OK:
        return 0;
    case WEFT_ERR_INPUT:
    case WEFT_ERR_PLUGIN:
        return 2;
    case WEFT_ERR_STOPPED:
        return 3;
    case WEFT_ERR_REPEATS:
        return 4;
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

/* U+0080 to U+009F are controls, too. */
static bool is_late_control(const char *c, size_t left)
{
    return left > 1 && (unsigned char)c[0] == 0xc2 && (unsigned char)c[1] >= 0x80 &&
           (unsigned char)c[1] < 0xa0;
}

void weft_cli_add_safely(weft_text *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool late = is_late_control(text + i, n - i);
        const bool control = late || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        weft_text_add_bytes(out, control ? "?" : text + i, 1);
        i += late;
    }
}

bool weft_cli_write(const void *data, size_t n)
{
    if (!isatty(STDOUT_FILENO))
        return fwrite(data, 1, n, stdout) == n;
    weft_text safe = {0};
    weft_cli_add_safely(&safe, data, n);
    bool well =
        !safe.out_of_memory && fwrite(weft_text_get(&safe), 1, safe.size, stdout) == safe.size;
    weft_text_release(&safe);
    return well;
}

int weft_cli_report(const weft_error *err)
{
    const char *label = in_colour() ? "\033[1;31merror:\033[0m " : "error: ";
    weft_text text = {0};
    bool faulty = false;
    for (int i = 0; i < err->n_items; i++) {
        faulty = faulty || err->items[i].status == WEFT_ERR_PLUGIN;
        if (err->items[i].status != WEFT_ERR_STOPPED) /* what was asked for is no error */
            weft_text_add(&text, label);
        weft_cli_add_safely(&text, err->items[i].text, strlen(err->items[i].text));
        weft_text_add(&text, "\n");
    }
    if (faulty)
        weft_text_add(&text, WEFT_CLI_FAULT "\n");
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
        fputs("error: weft failed without a message; please report this\n", stderr);
    return 1;
}

int weft_cli_print(const weft_text *text)
{
    const char *why = NULL;

    if (text->out_of_memory)
        why = "out of memory";
    else if (!weft_cli_write(weft_text_get(text), text->size) || fflush(stdout) != 0)
        why = strerror(errno);
    if (!why)
        return 0;
    fprintf(stderr, "error: cannot write the output: %s\n", why);
    return 1;
}

weft_status weft_cli_check_new(const char *option, const char *path, weft_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: %s is there already; name another file", option, path);
    const char *slash = strrchr(path, '/');
    char *folder = slash ? weft_format("%.*s", (int)(slash > path ? slash - path : 1), path)
                         : weft_strdup(".");
    weft_status s = WEFT_OK;
    if (!folder)
        s = weft_fail_memory(err);
    else if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s %s: there is no folder %s; make it, or name a file elsewhere", option,
                      path, folder);
    else if (access(folder, W_OK) != 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s %s: the folder %s cannot be written to", option, path, folder);
    weft_free(folder);
    return s;
}
