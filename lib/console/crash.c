/* SPDX-License-Identifier: Apache-2.0 */
/* Everything the handlers do is async-signal-safe: they read thread-local words and call write,
 * raise and sigaction only. */
#include "console/crash.h"

#include "base/blame.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST_PLUGINS = 256, MOST_SEGMENTS = 8 };

/* A plugin's code, never unmapped. */
typedef struct code {
    const char *plugin;
    uintptr_t from[MOST_SEGMENTS], to[MOST_SEGMENTS];
    int n;
} code;

/* Written under a lock, read by the handler. */
static code codes[MOST_PLUGINS];
static atomic_int n_codes;

static _Thread_local bool is_main;
static pthread_t main_thread;
static atomic_bool installed;
static atomic_int shown;
static _Atomic int64_t record_at;
static atomic_int record = -1;

typedef struct line {
    char text[512];
    size_t n;
} line;

static void put(line *l, const char *s)
{
    while (*s && l->n < sizeof l->text - 1)
        l->text[l->n++] = *s++;
}

static void put_number(line *l, int64_t n)
{
    char digits[24];
    size_t i = sizeof digits - 1;
    digits[i] = '\0';
    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    put(l, digits + i);
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV, a wrong address";
    case SIGBUS:
        return "SIGBUS, a wrong address or a file that shrank";
    case SIGFPE:
        return "SIGFPE, a wrong division";
    case SIGILL:
        return "SIGILL, an instruction that this processor lacks";
    default:
        return "SIGABRT";
    }
}

/* Where the processor was; 0: unknown. */
static uintptr_t program_counter(const void *context)
{
    const ucontext_t *c = context;
#if defined __x86_64__
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (uintptr_t)c->uc_mcontext.pc;
#else
    (void)c;
    return 0;
#endif
}

static const char *plugin_at(uintptr_t address)
{
    int n = atomic_load_explicit(&n_codes, memory_order_acquire);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < codes[i].n; k++)
            if (address >= codes[i].from[k] && address < codes[i].to[k])
                return codes[i].plugin;
    return NULL;
}

/* The plugin whose code it was; else the one that was called, be it that it had called a library.
 */
static void put_culprit(line *l, const char *at, const weft_blame *blame)
{
    if (at || blame->plugin) {
        put(l, "plugin ");
        put(l, at ? at : blame->plugin);
    } else {
        put(l,
            is_main || weft_blame_rank() >= 0 ? "the core" : "a thread that a plugin has started");
    }
    if (!at || !blame->plugin || strcmp(at, blame->plugin) == 0)
        return;
    put(l, ", called by plugin ");
    put(l, blame->plugin);
}

/* "weft: crashed in plugin x, hook graph, step 3, rank 0" */
static void put_place(line *l, const char *how, uintptr_t address)
{
    weft_blame blame = weft_blame_get();
    put(l, how);
    put_culprit(l, plugin_at(address), &blame);
    if (blame.hook) {
        put(l, ", hook ");
        put(l, blame.hook);
        put(l, blame.op ? " of op " : "");
        put(l, blame.op ? blame.op : "");
    }
    if (weft_blame_step() >= 0) {
        put(l, ", step ");
        put_number(l, weft_blame_step());
    }
    if (weft_blame_rank() >= 0) {
        put(l, ", rank ");
        put_number(l, weft_blame_rank());
    }
}

static void report(int number, uintptr_t address)
{
    line l = {.n = 0};
    put_place(&l, "weft: crashed in ", address);
    put(&l, " (");
    put(&l, signal_name(number));
    put(&l, ")\n");
    ssize_t written = write(STDERR_FILENO, l.text, l.n);
    int fd = atomic_load(&record);
    if (fd >= 0)
        written = pwrite(fd, l.text, l.n, (off_t)atomic_load(&record_at));
    (void)written; /* nothing is left to be done about it */
}

/* As if nobody had looked, core dump included. */
static void end_by(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* Threads may crash at the same time: the first one reports and ends the process, and the others
 * must not end it before that. */
static void handle(int number, siginfo_t *info, void *context)
{
    enum { PATIENCE_S = 5 };
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    static _Thread_local bool here;
    bool again = here;
    (void)info;
    here = true;
    if (!again && atomic_flag_test_and_set(&taken))
        sleep(PATIENCE_S);
    else if (!again)
        report(number, program_counter(context));
    end_by(number);
}

/* ---- where it was when it was ended ---- */

static int show_signal(void)
{
    return SIGRTMIN + 5;
}

static void show(uintptr_t address)
{
    line l = {.n = 0};
    if (weft_blame_get().plugin) {
        put_place(&l, "weft: ended in ", address);
        put(&l, "\n");
        ssize_t written = write(STDERR_FILENO, l.text, l.n);
        (void)written; /* nothing is left to be done about it */
    }
    atomic_fetch_add(&shown, 1);
}

static void handle_end(int number, siginfo_t *info, void *context)
{
    (void)info;
    show(program_counter(context));
    if (number != show_signal())
        end_by(number);
}

void weft_crash_show(pthread_t thread)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    const int before = atomic_load(&shown);
    if (atomic_load(&installed) && pthread_kill(thread, show_signal()) == 0)
        for (int i = 0; i < 100 && atomic_load(&shown) == before; i++)
            nanosleep(&pause, NULL);
}

void weft_crash_show_main(void)
{
    weft_crash_show(main_thread);
}

/* Who is deaf to one of them stays so. */
static weft_status install_ends(weft_error *err)
{
    const int signals[] = {SIGINT, SIGTERM, show_signal()};
    struct sigaction action = {.sa_sigaction = handle_end,
                               .sa_flags = (int)(SA_SIGINFO | SA_RESTART | SA_ONSTACK)},
                     before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &before) != 0 ||
            (before.sa_handler == SIG_DFL && sigaction(signals[i], &action, NULL) != 0))
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "signals cannot be watched: %s",
                             strerror(errno));
    main_thread = pthread_self();
    atomic_store(&installed, true);
    return WEFT_OK;
}

weft_status weft_crash_install(weft_error *err)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char stack_memory[64 * 1024];
    is_main = true;
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    if (sigaltstack(&stack, NULL) != 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no signal stack for crash reports: %s",
                         strerror(errno));
    struct sigaction action = {.sa_sigaction = handle,
                               .sa_flags = (int)(SA_SIGINFO | SA_NODEFER | SA_ONSTACK)};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no crash reports: %s",
                             strerror(errno));
    return install_ends(err);
}

/* ---- whose code is where ---- */

typedef struct search {
    const char *plugin;
    uintptr_t inside;
} search;

/* Notes the code of the object that has `inside` in it; 1 ends the walk. */
static int note_code(struct dl_phdr_info *info, size_t size, void *arg)
{
    const search *s = arg;
    code found = {.plugin = s->plugin};
    bool here = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type != PT_LOAD)
            continue;
        here = here || (s->inside >= from && s->inside < to);
        if ((p->p_flags & PF_X) && found.n < MOST_SEGMENTS) {
            found.from[found.n] = from;
            found.to[found.n++] = to;
        }
    }
    int n = atomic_load_explicit(&n_codes, memory_order_relaxed);
    if (!here || n == MOST_PLUGINS || (found.n && plugin_at(found.from[0])))
        return here;
    codes[n] = found;
    atomic_store_explicit(&n_codes, n + 1, memory_order_release);
    return 1;
}

void weft_crash_note_plugin(const weft_module *module)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!module->path)
        return; /* part of the program */
    search s = {module->plugin->name, (uintptr_t)module->plugin};
    pthread_mutex_lock(&lock);
    dl_iterate_phdr(note_code, &s);
    pthread_mutex_unlock(&lock);
}

void weft_crash_note_plugins(const weft_plugins *plugins)
{
    for (int i = 0; i < plugins->n; i++)
        weft_crash_note_plugin(&plugins->list[i].module);
}

void weft_crash_set_record(int fd, int64_t at)
{
    atomic_store(&record_at, at);
    atomic_store(&record, fd);
}
