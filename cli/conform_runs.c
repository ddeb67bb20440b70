/* SPDX-License-Identifier: Apache-2.0 */
/* Short runs with the plugin: each mesh against one rank, and, where the plugin says that it
 * changes no numbers, with it against without. */
#include "conform.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/files.h>

enum { SECONDS = 100 };

typedef struct mesh {
    const char *others, *degrees;
} mesh;

static const mesh meshes[] = {
    {"tp", ""},
    {"fsdp", "[fsdp]\ndegree = 2\n"},
    {"tp fsdp", "[fsdp]\ndegree = 2\n"},
    {"bf16 tp fsdp ac", "[fsdp]\ndegree = 2\n"},
};

/* ---- a command of this program ---- */

/* Returns its exit code, 128 and the number of a signal; text: what it said. */
static int run(const char *const *argv, weft_text *text)
{
    char piece[4096];
    int state = 0, code = 1, said = memfd_create("said", MFD_CLOEXEC);
    ssize_t n = 0;
    pid_t child = said < 0 ? -1 : fork();
    if (child == 0) {
        dup2(said, STDOUT_FILENO);
        dup2(said, STDERR_FILENO);
        alarm(SECONDS);
        execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
        _exit(1);
    }
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (child > 0)
        code = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    for (off_t at = 0; said >= 0 && (n = pread(said, piece, sizeof piece, at)) > 0; at += n)
        weft_text_add_bytes(text, piece, (size_t)n);
    if (said >= 0)
        close(said);
    return code;
}

static bool write_ini(const conform *c, const conform_case *k, const char *more, const char *name,
                      char path[200])
{
    weft_text ini = {0};
    snprintf(path, 200, "%s/%s.ini", c->folder, name);
    conform_print_ini(c, k, &ini);
    weft_text_add(&ini, more);
    bool written =
        !ini.out_of_memory && weft_write_file(path, weft_text_get(&ini), ini.size, NULL) == WEFT_OK;
    weft_text_release(&ini);
    return written;
}

/* The line that says most: the last error, where they parted, or the last line. */
static const char *gist(char *text)
{
    const char *best = "", *found;
    if ((found = strstr(text, "error: ")) || (found = strstr(text, "first parted at")))
        best = found;
    else
        for (char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
            best = *p != '\n' && *p ? p : best;
    text[best - text + (long)strcspn(best, "\n")] = '\0';
    return best;
}

static void compare(const conform *c, const char *what, const char *one, const char *two,
                    const char *exactly)
{
    const char *const argv[] = {"weft",  "oracle", one, two, exactly ? "--bitwise" : NULL,
                                exactly, NULL};
    weft_text text = {0};
    conform_now(c, "run: %s", what);
    int code = run(argv, &text);
    if (code == 2)
        conform_skip(c, "run: %s: refused: %s", what, text.data ? gist(text.data) : "");
    else if (code == 128 + SIGALRM)
        conform_fail(c, "run: %s: time: does not end within %d s", what, SECONDS);
    else if (code)
        conform_fail(c, "run: %s: %s: %s", what, code > 128 ? "crash" : "parity",
                     text.data ? gist(text.data) : "");
    conform_count(c, "runs compared", code != 2);
    weft_text_release(&text);
}

/* ---- the plugin at one place ---- */

typedef struct at {
    const weft_plugin *plugin;
    const char *place;
} at;

static void check_alone(const conform *c, const at *a, const conform_case *k)
{
    char with[200], without[200], what[120];
    conform_case bare = *k;
    bare.place = NULL;
    if (!a->place)
        return;
    bool extra =
        strncmp(a->place, "after:", 6) == 0 && a->plugin->numerics != WEFT_NUMERICS_CHANGES;
    snprintf(what, sizeof what, "%s, against the same run without it", a->place);
    if (extra && write_ini(c, k, "", "with", with) && write_ini(c, &bare, "", "without", without))
        compare(c, what, without, with,
                a->plugin->numerics == WEFT_NUMERICS_BITWISE ? "all" : NULL);
}

static void check_mesh(const conform *c, const at *a, const conform_case *k, const mesh *m)
{
    char one[200], many[200], what[160];
    conform_case alone = *k;
    const char *places[CONFORM_MOST_PLACES];
    alone.others = strstr(m->others, "bf16") ? "bf16" : "";
    alone.ranks = 1;
    /* Of a plugin of meshes one rank has no need; any other stands where it can. */
    alone.place = NULL;
    if (a->place && conform_find_places(c, &alone, places) > 0)
        alone.place = places[0];
    snprintf(what, sizeof what, "%s%s%s, against one rank", a->place ? a->place : "",
             a->place ? " with " : "with ", m->others);
    if (write_ini(c, &alone, "", "one", one) && write_ini(c, k, m->degrees, "many", many))
        compare(c, what, one, many, NULL);
}

/* What fits nowhere may want settings or company that we do not know; what breaks a graph is
 * broken. */
static void tell_nowhere(const conform *c, const conform_case *k)
{
    weft_text why = {0};
    conform_case alone = *k;
    alone.others = "";
    alone.ranks = 1;
    if (conform_find_breakage(c, alone, &why) || c->set.n)
        conform_fail(c, "runs: it runs nowhere: %s", weft_text_get(&why));
    else
        conform_skip(c,
                     "runs: there is no place in the list of a small run for this plugin (%s); set "
                     "what it needs with -o %s.KEY=VALUE, or its own tests must run it",
                     weft_text_get(&why), c->plugin);
    weft_text_release(&why);
}

void conform_runs(const conform *c, void *self)
{
    const weft_module *module = self;
    int tried = 0, n_meshes = (int)(sizeof meshes / sizeof meshes[0]);
    const char *places[CONFORM_MOST_PLACES];
    if (!module || c->ini)
        return;
    conform_case k = {.model = strcmp(c->plugin, "gpt2") ? "llama3" : "gpt2",
                      .others = "",
                      .ranks = 1,
                      .threads = 1};
    int n = conform_find_places(c, &k, places);
    for (int i = 0; i < n; i++) {
        const at a = {module->plugin, places[i]};
        k.place = places[i];
        check_alone(c, &a, &k);
        tried++;
    }
    for (int m = 0; m < n_meshes; m++) {
        k.others = meshes[m].others;
        k.ranks = *meshes[m].degrees ? strstr(k.others, "tp") ? 4 : 2 : 2;
        n = conform_find_places(c, &k, places);
        for (int i = c->whole ? 0 : m % 2; i < n; i += c->whole ? 1 : 3) {
            const at a = {module->plugin, places[i]};
            k.place = places[i];
            check_mesh(c, &a, &k, &meshes[m]);
            tried++;
        }
    }
    if (tried == 0)
        tell_nowhere(c, &k);
}
