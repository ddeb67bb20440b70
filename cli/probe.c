/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin looked at from a distance: a process of its own opens the file, since opening runs its
 * constructors, and they may crash, hang, or end the process that they run in. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 10, MOST_BYTES = 16 << 20 };
static const rlim_t most_memory = (rlim_t)8 << 30;

typedef struct looking {
    weft_search *search;
    const char *name, *path;
    weft_describe *describe;
    void *self;
} looking;

/* What goes over the pipe: items, each a header and its text, and END. */
typedef enum item_kind { DESCRIPTION = 1, ERROR, END } item_kind;

typedef struct header {
    item_kind kind;
    weft_status status; /* of an ERROR */
    size_t size;
} header;

/* ---- in the process that looks ---- */

static void send_bytes(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        ssize_t sent = write(fd, p, n);
        if (sent < 0 && errno != EINTR)
            _exit(1); /* nobody listens */
        p += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
}

static void send_item(int fd, item_kind kind, weft_status status, const char *text, size_t n)
{
    header h;
    memset(&h, 0, sizeof h); /* its padding, too */
    h.kind = kind;
    h.status = status;
    h.size = n;
    send_bytes(fd, &h, sizeof h);
    send_bytes(fd, text, n);
}

static void confine(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    const struct rlimit no_core = {0, 0}, cpu = {SECONDS, SECONDS};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &cpu);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    struct rlimit memory; /* a sanitizer's own would not fit */
    if (getrlimit(RLIMIT_DATA, &memory) == 0 && memory.rlim_cur > most_memory) {
        memory.rlim_cur = most_memory;
        setrlimit(RLIMIT_DATA, &memory);
    }
#else
    (void)most_memory;
#endif
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO); /* what constructors print is no part of the answer */
    }
}

static _Noreturn void look(const looking *l, int fd)
{
    weft_error err = {0};
    weft_text text = {0};
    weft_module module;
    confine();
    if (weft_module_open(l->search, l->name, WEFT_NOWHERE, &module, &err) == WEFT_OK)
        l->describe(l->self, &module, &text, &err);
    if (text.out_of_memory)
        weft_fail_memory(&err);
    send_item(fd, DESCRIPTION, WEFT_OK, weft_text_get(&text), text.size);
    for (int i = 0; i < err.n_items; i++)
        send_item(fd, ERROR, err.items[i].status, err.items[i].text, strlen(err.items[i].text));
    send_item(fd, END, WEFT_OK, "", 0);
    _exit(0); /* nothing of what the plugin wants done at the end */
}

/* ---- in ours ---- */

static bool wait_readable(int fd, double deadline)
{
    for (;;) {
        double left = deadline - weft_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = left > 0 ? poll(&p, 1, (int)(1e3 * left) + 1) : 0;
        if (n >= 0 || errno != EINTR)
            return n > 0;
    }
}

/* False at the end of the time or of the pipe. */
static bool receive_bytes(int fd, double deadline, void *data, size_t n)
{
    char *p = data;
    while (n > 0) {
        if (!wait_readable(fd, deadline))
            return false;
        ssize_t got = read(fd, p, n);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        p += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

typedef struct answer {
    bool complete, out_of_memory;
    weft_status status;
} answer;

static bool receive_item(int fd, double deadline, answer *a, weft_text *text, weft_error *err)
{
    header h;
    if (!receive_bytes(fd, deadline, &h, sizeof h) || h.size > MOST_BYTES)
        return false;
    char *words = weft_alloc(h.size + 1);
    a->out_of_memory = a->out_of_memory || !words;
    bool whole = words && receive_bytes(fd, deadline, words, h.size);
    if (whole) {
        words[h.size] = '\0';
        a->complete = h.kind == END;
        if (h.kind == DESCRIPTION)
            weft_text_add_bytes(text, words, h.size);
        if (h.kind == ERROR)
            a->status = weft_fail(err, h.status, WEFT_NOWHERE, "%s", words);
    }
    weft_free(words);
    return whole && !a->complete;
}

/* There is no answer: what became of the process instead? */
static weft_status tell_end(const looking *l, bool late, int state, weft_error *err)
{
    weft_text what = {0};
    if (late)
        weft_text_print(&what, "did not end within %d s", SECONDS);
    else if (WIFSIGNALED(state))
        weft_text_print(&what, "crashed (signal %d, %s)", WTERMSIG(state),
                        strsignal(WTERMSIG(state)));
    else
        weft_text_print(&what, "ended the process (exit code %d)", WEXITSTATUS(state));
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                              "plugin '%s' cannot be opened: its constructor %s; %s", l->name,
                              weft_text_get(&what), l->path);
    weft_text_release(&what);
    return s;
}

static weft_status look_from_afar(const looking *l, weft_text *text, weft_error *err)
{
    int ends[2], state = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "plugin '%s': no pipe to look at it: %s",
                         l->name, strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        look(l, ends[1]);
    }
    int why = errno;
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "plugin '%s': no process to look at it: %s", l->name, strerror(why));
    }
    setpgid(child, child); /* whoever of the two comes first */
    answer a = {.status = WEFT_OK};
    double deadline = weft_now() + SECONDS;
    while (receive_item(ends[0], deadline, &a, text, err))
        ;
    bool late = !a.complete && weft_now() >= deadline;
    close(ends[0]);
    if (late || a.complete)
        kill(-child, SIGKILL); /* and whomever it has started */
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (a.out_of_memory)
        return weft_fail_memory(err);
    return a.complete ? a.status : tell_end(l, late, state, err);
}

weft_status weft_cli_probe(weft_search *search, const char *name, weft_describe *describe,
                           void *self, weft_text *text, weft_error *err)
{
    looking l = {.search = search, .name = name, .describe = describe, .self = self};
    weft_module module;
    weft_status s = weft_module_find(search, name, WEFT_NOWHERE, &l.path, err);
    if (s)
        return s;
    if (l.path)
        return look_from_afar(&l, text, err);
    s = weft_module_open(search, name, WEFT_NOWHERE, &module, err); /* builtin: opened long ago */
    if (s)
        return s;
    int before = err->n_items;
    describe(self, &module, text, err);
    return err->n_items > before ? err->items[before].status : WEFT_OK;
}
