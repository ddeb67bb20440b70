/* SPDX-License-Identifier: Apache-2.0 */
/* Our own loader inside libltdl. libltdl's loads lazily, searches the system for bare names and the
 * environment for all of them, and says "file not found" whatever happened. This one opens the one
 * path it was told to, binds at once, and keeps the dynamic linker's own words. */
#include "host/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOADER_NAME "weft"

/* A file that was opened, once and for all of the process: plugins are never unloaded. Not from
 * our allocator, for it outlives every run. */
typedef struct opened {
    struct opened *next;
    int fd;              /* of its sealed copy; -1: the file itself */
    unsigned long inode; /* of the copy */
    bool mapped;
    weft_file_id id;
    char path[];
} opened;

/* libltdl is one per process and not thread-safe; this lock and what it guards are the exception to
 * "nothing is global". */
static struct {
    pthread_mutex_t lock;
    const char *path; /* the only file that may be opened now; NULL: none */
    const char *copy; /* what is opened for it; NULL: itself */
    struct opened *opened;
    char error[1024]; /* why it was not */
    void (*each)(void *self, const char *name);
    void *self;
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what a file must be before the dynamic linker sees it ---- */

typedef struct elf {
    unsigned char ident[EI_NIDENT];
    uint16_t type, machine; /* in the same place whatever the class */
} elf;

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned machine;
        const char *name;
    } known[] = {{EM_X86_64, "x86-64"}, {EM_AARCH64, "AArch64"}, {EM_386, "i386"}, {EM_ARM, "ARM"},
                 {EM_PPC64, "PowerPC"}, {EM_RISCV, "RISC-V"},    {EM_S390, "s390"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].machine == machine)
            return known[i].name;
    return "another machine";
}

static int bits_of(const elf *e)
{
    return e->ident[EI_CLASS] == ELFCLASS32 ? 32 : 64;
}

static bool refuse(const char *path, const char *why)
{
    snprintf(loader.error, sizeof loader.error, "%s: %s", path, why);
    return false;
}

/* For a file of another machine the dynamic linker says that there is none. */
static bool is_of_this_machine(const char *path, int fd)
{
    elf e, own;
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = self >= 0 && pread(self, &own, sizeof own, 0) == (ssize_t)sizeof own;
    if (self >= 0)
        close(self);
    ssize_t n = pread(fd, &e, sizeof e, 0);
    if (n < SELFMAG || memcmp(e.ident, ELFMAG, SELFMAG) != 0)
        return refuse(path, n == 0 ? "the file is empty" : "this is not a shared object (ELF)");
    if (n < (ssize_t)sizeof e)
        return refuse(path, "the file is cut short");
    if (known && e.ident[EI_DATA] != own.ident[EI_DATA])
        return refuse(path, "it was built for a machine with another byte order");
    if (!known || (e.machine == own.machine && bits_of(&e) == bits_of(&own)))
        return true;
    snprintf(loader.error, sizeof loader.error,
             "%s: it was built for %s (%d bits), this is %s (%d)", path, machine_name(e.machine),
             bits_of(&e), machine_name(own.machine), bits_of(&own));
    return false;
}

/* The dynamic linker maps what the headers promise without looking whether the file is that long; a
 * file that was cut short would then kill the process. */
static bool has_its_segments(const char *path, int fd)
{
    ElfW(Ehdr) e;
    ElfW(Phdr) p;
    struct stat info;
    bool whole = fstat(fd, &info) == 0 && pread(fd, &e, sizeof e, 0) == (ssize_t)sizeof e;
    for (int i = 0; whole && e.e_phentsize == sizeof p && i < e.e_phnum; i++)
        whole = pread(fd, &p, sizeof p, (off_t)(e.e_phoff + (size_t)i * sizeof p)) ==
                    (ssize_t)sizeof p &&
                (p.p_type != PT_LOAD || (p.p_filesz <= (size_t)info.st_size &&
                                         p.p_offset <= (size_t)info.st_size - p.p_filesz));
    return whole || refuse(path, "the file is cut short");
}

static bool is_sound(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(path, strerror(errno));
    bool sound = is_of_this_machine(path, fd) && has_its_segments(path, fd);
    close(fd);
    return sound;
}

static lt_module open_exact(lt_user_data data, const char *file, lt_dladvise advise)
{
    (void)data;
    (void)advise;
    if (!file || !loader.path || strcmp(file, loader.path) != 0)
        return NULL;
    const char *from = loader.copy ? loader.copy : file;
    if (!is_sound(from))
        return NULL;
    void *module = dlopen(from, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module) {
        const char *why = dlerror();
        snprintf(loader.error, sizeof loader.error, "%s",
                 why ? why : "the dynamic linker gives no reason");
    }
    return module;
}

/* Never unloaded: threads, ops and error texts of a plugin may outlive whoever opened it. */
static int keep_open(lt_user_data data, lt_module module)
{
    (void)data;
    (void)module;
    return 0;
}

static void *find_symbol(lt_user_data data, lt_module module, const char *symbol)
{
    (void)data;
    /* After NAME_LTX_plugin libltdl tries plain "plugin", which is no descriptor of ours. */
    return strstr(symbol, "_LTX_") ? dlsym(module, symbol) : NULL;
}

static weft_status add_loader(weft_error *err)
{
    if (!lt_dlloader_find(LOADER_NAME)) {
        /* libltdl frees it with free() at its end: neither static nor from our allocator. */
        lt_dlvtable *table = calloc(1, sizeof *table);
        if (!table)
            return weft_fail_memory(err);
        table->name = LOADER_NAME;
        table->module_open = open_exact;
        table->module_close = keep_open;
        table->find_sym = find_symbol;
        table->priority = LT_DLLOADER_PREPEND;
        if (lt_dlloader_add(table) != 0) {
            const char *why = lt_dlerror();
            free(table);
            return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                             "libltdl refuses weft's plugin loader: %s",
                             why ? why : "no reason given");
        }
    }
    if (lt_dlloader_find("lt_dlopen"))
        free(lt_dlloader_remove(
            "lt_dlopen")); /* else it would try again, lazily and everywhere, what ours refused */
    return WEFT_OK;
}

weft_status weft_loader_init(weft_error *err)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&loader.lock);
    if (lt_dlinit() != 0) {
        const char *why = lt_dlerror();
        status = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "libltdl does not start: %s",
                           why ? why : "no reason given");
    } else {
        status = add_loader(err);
        if (status != WEFT_OK)
            lt_dlexit();
    }
    pthread_mutex_unlock(&loader.lock);
    return status;
}

void weft_loader_exit(void)
{
    pthread_mutex_lock(&loader.lock);
    lt_dlexit();
    pthread_mutex_unlock(&loader.lock);
}

static opened *find_opened(const char *path)
{
    opened *o = loader.opened;
    while (o && strcmp(o->path, path) != 0)
        o = o->next;
    return o;
}

/* NULL: no memory. */
static opened *note_opened(const char *path, int fd, const weft_file_id *id)
{
    size_t n = strlen(path) + 1;
    opened *o = calloc(1, sizeof *o + n);
    if (!o)
        return NULL;
    memcpy(o->path, path, n);
    o->id = *id;
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0)
        o->inode = info.st_ino;
    o->fd = fd;
    o->next = loader.opened;
    return loader.opened = o;
}

/* Opened before, it must have been what it is now; else it is noted. */
static weft_status prepare(const char *name, const char *path, int *fd, const weft_file_id *id,
                           weft_where where, weft_error *err)
{
    const opened *before = find_opened(path);
    bool sealed = *fd >= 0;
    if (!before && note_opened(path, *fd, id))
        return WEFT_OK;
    if (sealed)
        close(*fd);
    if (!before)
        return weft_fail_memory(err);
    *fd = before->fd;
    if (!sealed || (before->fd >= 0 && strcmp(before->id.sha256, id->sha256) == 0))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, where,
                     "plugin '%s': %s was opened before %s; start again", name, path,
                     before->fd < 0 ? "without a lock" : "and has changed since");
}

bool weft_loader_note(const char *path, const weft_file_id *id)
{
    pthread_mutex_lock(&loader.lock);
    opened *o = find_opened(path);
    if (!o && (o = note_opened(path, -1, id)))
        o->mapped = true;
    pthread_mutex_unlock(&loader.lock);
    return o;
}

bool weft_loader_has_copy(unsigned long inode)
{
    pthread_mutex_lock(&loader.lock);
    const opened *o = loader.opened;
    while (o && (o->fd < 0 || o->inode != inode))
        o = o->next;
    pthread_mutex_unlock(&loader.lock);
    return o;
}

bool weft_loader_identify(const char *path, weft_file_id *id)
{
    pthread_mutex_lock(&loader.lock);
    const opened *before = find_opened(path);
    bool mapped = before && before->mapped;
    if (mapped)
        *id = before->id;
    pthread_mutex_unlock(&loader.lock);
    return mapped;
}

weft_status weft_loader_open(const char *name, const char *path, int fd, const weft_file_id *id,
                             weft_where where, const weft_plugin **out, weft_error *err)
{
    char copy[32];
    *out = NULL;
    pthread_mutex_lock(&loader.lock);
    weft_status status = prepare(name, path, &fd, id, where, err);
    if (status) {
        pthread_mutex_unlock(&loader.lock);
        return status;
    }
    snprintf(copy, sizeof copy, "/proc/self/fd/%d", fd);
    loader.path = path;
    loader.copy = fd >= 0 ? copy : NULL;
    loader.error[0] = '\0';
    lt_dlhandle handle = lt_dlopen(path);
    loader.path = loader.copy = NULL;
    if (!handle) {
        status = weft_fail(
            err, WEFT_ERR_INPUT, where,
            "plugin '%s' cannot be opened: %s; build it again for this weft, or mend what it needs",
            name, loader.error[0] ? loader.error : lt_dlerror());
    } else {
        opened *now = find_opened(path);
        if (!now->mapped)
            now->id = *id; /* an earlier attempt may have failed with other bytes */
        now->mapped = true;
        *out = lt_dlsym(handle, "plugin");
    }
    pthread_mutex_unlock(&loader.lock);
    if (handle && !*out)
        status = weft_fail(err, WEFT_ERR_INPUT, where,
                           "%s is not a weft plugin called '%s': it exports no %s_LTX_plugin; see "
                           "WEFT_PLUGIN in <weft/plugin.h>",
                           path, name, name);
    return status;
}

const weft_plugin *weft_loader_builtin(const char *name)
{
    const weft_plugin *plugin = NULL;
    lt_dladvise advise = NULL;
    pthread_mutex_lock(&loader.lock);
    if (lt_dladvise_init(&advise) == 0 && lt_dladvise_preload(&advise) == 0) {
        lt_dlhandle handle = lt_dlopenadvise(name, advise);
        if (handle)
            plugin = lt_dlsym(handle, "plugin");
    }
    lt_dladvise_destroy(&advise);
    pthread_mutex_unlock(&loader.lock);
    return plugin;
}

/* A preloaded module's file name is that of its archive, "fsdp.a". */
static int report_builtin(lt_dlhandle handle)
{
    const lt_dlinfo *info = lt_dlgetinfo(handle);
    if (!info || !info->filename)
        return 0;
    char name[128];
    snprintf(name, sizeof name, "%s", info->filename);
    char *dot = strrchr(name, '.');
    if (dot)
        *dot = '\0';
    if (lt_dlsym(handle, "plugin"))
        loader.each(loader.self, name);
    return 0;
}

void weft_loader_builtins(void (*each)(void *self, const char *name), void *self)
{
    pthread_mutex_lock(&loader.lock);
    loader.each = each;
    loader.self = self;
    (void)lt_dlpreload_open(NULL, report_builtin); /* fails where the program has no builtin
                                                      plugins: then there is nothing to report */
    loader.each = NULL;
    loader.self = NULL;
    pthread_mutex_unlock(&loader.lock);
}
