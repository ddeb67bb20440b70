/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, error values, memory and element types: what every other header stands on. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION   "0.1.0"
#define WEFT_ABI_MAJOR 0 /* 0.x: a plugin loads only where both numbers are equal */
#define WEFT_ABI_MINOR 6

#if defined(__GNUC__)
#define WEFT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define WEFT_EXPORT            __attribute__((visibility("default")))
#else
#define WEFT_PRINTF(fmt, args)
#define WEFT_EXPORT
#endif

/* ---- status and errors ---- */

/* What a fallible function returns. The cli turns it into an exit code: OK 0, INPUT 2, STOPPED 3,
 * REPEATS 4, all others 1. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_INPUT,    /* the user's INI, data, plugin file or environment is wrong */
    WEFT_ERR_MEMORY,   /* out of memory */
    WEFT_ERR_IO,       /* the operating system refused */
    WEFT_ERR_RUN,      /* failed while running (a library's error) */
    WEFT_ERR_STOPPED,  /* a signal or an observer asked to stop */
    WEFT_ERR_PEER,     /* nothing wrong here: another rank has failed, and says why */
    WEFT_ERR_INTERNAL, /* weft or a plugin broke a promise; please report */
    WEFT_ERR_REPEATS,  /* failed in a way that would repeat itself if the run were started again */
    WEFT_ERR_PLUGIN,   /* a plugin broke its contract: its author has to change it, not the user */
} weft_status;

/* A place in the user's text. file NULL: no place (defaults, command line says so in file). line 0:
 * the whole file. */
typedef struct weft_where {
    const char *file;
    int line;
} weft_where;

#ifdef __cplusplus
#define WEFT_NOWHERE (weft_where{nullptr, 0})
#else
#define WEFT_NOWHERE ((weft_where){NULL, 0})
#endif

typedef struct weft_error_item {
    weft_status status;
    char *text; /* "file:line: what was wrong; what would be right" */
} weft_error_item;

/* A list of errors, so that bad input is reported all at once. Zero-initialised is valid and empty.
 * Not thread-safe; one per thread of work. Out of memory while noting an error is itself noted,
 * without text. */
typedef struct weft_error {
    weft_error_item *items;
    int n_items, capacity;
    bool out_of_memory;
} weft_error;

/* Leaves it empty, as all *_release of values do. */
void weft_error_release(weft_error *err);
/* Forgets all items, keeps the memory. */
void weft_error_clear(weft_error *err);
/* Notes an error and returns `status`, so that `return weft_fail(...)` reads naturally. err may be
 * NULL. */
weft_status weft_fail(weft_error *err, weft_status status, weft_where at, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* The same with a va_list, for functions that take a format themselves. */
weft_status weft_vfail(weft_error *err, weft_status status, weft_where at, const char *format,
                       va_list args);
/* Notes "out of memory" and returns WEFT_ERR_MEMORY. */
weft_status weft_fail_memory(weft_error *err);
/* Notes in `to` all that is in `from`, each item behind words that are printed once, and releases
 * `from`. status WEFT_OK: each item's own. */
void weft_error_move(weft_error *to, weft_error *from, weft_status status, weft_where at,
                     const char *format, ...) WEFT_PRINTF(5, 6);
/* The first item's status, WEFT_OK if there is none. */
weft_status weft_error_status(const weft_error *err);
/* The first item's text; "out of memory" if nothing else could be noted; "" if there is none. Valid
 * until the error changes. */
const char *weft_error_text(const weft_error *err);

/* ---- the current plugin: who is to blame in a crash report (thread-local) ---- */

typedef struct weft_blame {
    const char *plugin; /* NULL: the core itself */
    const char *hook;   /* or the function of a service, an op or a kernel */
    const char *op;     /* whose function it is; NULL: no op's */
} weft_blame;

/* Sets the calling thread's current plugin and hook, returns what it was; restore it with another
 * call. Strings must outlive the call. */
weft_blame weft_blame_set(weft_blame now);
/* The calling thread's, as last set. */
weft_blame weft_blame_get(void);

/* ---- memory: the one allocation seam ---- */

/* As malloc, calloc, realloc, free: NULL when out of memory, free(NULL) is fine. Zero bytes give a
 * valid pointer. Thread-safe. */
void *weft_alloc(size_t bytes);
void *weft_alloc_zero(size_t count, size_t bytes);
void *weft_realloc(void *old, size_t bytes);
void weft_free(void *p);
/* Page-friendly memory, aligned to `alignment` (a power of two, at least 16); free with
 * weft_free_aligned. */
void *weft_alloc_aligned(size_t alignment, size_t bytes);
void weft_free_aligned(void *p);
/* Whole pages; large ones where it is more than 32 MiB and the system has them, never more memory
 * than asked for. What disks read into, or much is computed from; free with weft_free_aligned. */
void *weft_alloc_pages(size_t bytes);
/* A copy, and printf, in fresh memory (weft_free); NULL when out of memory. */
char *weft_strdup(const char *text);
char *weft_format(const char *format, ...) WEFT_PRINTF(1, 2);
char *weft_vformat(const char *format, va_list args);
/* Is it letters, digits and some of `also`, a letter first? NULL is none. */
bool weft_is_name(const char *text, const char *also);
/* For tests only: the n-th allocation from now on fails (1 = the next), once; 0 switches it off.
 * Process-wide, atomic. */
void weft_alloc_fail_at(long n);
/* From now on the two count only allocations made while a call into this plugin lasts; NULL: all.
 * The string must outlive that. */
void weft_alloc_fail_within(const char *plugin);
/* Allocations made since the last weft_alloc_fail_at. */
long weft_alloc_count(void);

/* A bump allocator: everything in it is freed together. Zero-initialised is valid and empty. */
typedef struct weft_pool {
    struct weft_pool_page *pages;
    bool out_of_memory; /* since it was empty; what was asked for then is NULL */
} weft_pool;

/* Frees all that was taken from it. */
void weft_pool_release(weft_pool *pool);
/* Zeroed memory, 16-byte aligned; NULL when out of memory. */
void *weft_pool_alloc(weft_pool *pool, size_t bytes);
/* As weft_strdup and weft_format. */
char *weft_pool_strdup(weft_pool *pool, const char *text);
char *weft_pool_format(weft_pool *pool, const char *format, ...) WEFT_PRINTF(2, 3);

/* ---- growing text ---- */

/* A growing string. Zero-initialised is valid and empty. A failed append sets out_of_memory and is
 * otherwise ignored. */
typedef struct weft_text {
    char *data; /* NUL-terminated; NULL while empty */
    size_t size, capacity;
    bool out_of_memory;
} weft_text;

void weft_text_release(weft_text *text);
/* Empties it and keeps the memory; out_of_memory is forgotten. */
void weft_text_clear(weft_text *text);
/* Append a string, n bytes, printf's output. */
void weft_text_add(weft_text *text, const char *s);
void weft_text_add_bytes(weft_text *text, const void *bytes, size_t n);
void weft_text_print(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
/* Appends a JSON string literal, quotes included. */
void weft_text_add_json(weft_text *text, const char *s);
/* The shortest decimal that reads back as x, as one would write it: 0.1, 1e-05, 0.999999. */
void weft_text_add_real(weft_text *text, double x);
/* The same of n bytes, NULs among them. */
void weft_text_add_json_bytes(weft_text *text, const char *s, size_t n);
/* Well-formed UTF-8 as it is, every other byte as U+FFFD. */
void weft_text_add_utf8(weft_text *text, const char *s, size_t n);
/* "1.23 GiB", "4.50 MiB", "17 B". */
void weft_print_bytes(weft_text *text, double bytes);
/* "857 KiB", "131 MiB" from 1 GiB on: rounded up, so that whoever gives what is named has enough.
 */
void weft_print_enough(weft_text *text, int64_t bytes);
/* Reads such a size: a number, blanks if any, and B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, PiB or
 * nothing, in upper or lower case. false: it is none, or less than 0, or 2^62 and more; *bytes is
 * as before. */
bool weft_parse_bytes(const char *text, double *bytes);
/* Reads a number as an INI has it: decimal, with k, M, G, T, Ki, Mi, Gi or nothing behind it.
 * false: it is none, or is not finite; *number is as before. */
bool weft_parse_number(const char *text, double *number);
/* The text, never NULL. */
const char *weft_text_get(const weft_text *text);

/* ---- element types ---- */

typedef enum weft_dtype {
    WEFT_F32,
    WEFT_F64,
    WEFT_BF16,
    WEFT_I32,
    WEFT_U8,
    WEFT_F8E4M3, /* 4 bits of exponent, 3 of mantissa; no infinity, largest 448 */
    WEFT_F8E5M2, /* 5 bits of exponent, 2 of mantissa; largest 57344 */
    WEFT_F8E8M0, /* powers of two from 2^-127 to 2^127, and NaN; no sign, no zero: scales of blocks
                  */
    WEFT_DTYPES
} weft_dtype;

size_t weft_dtype_size(weft_dtype dtype); /* bytes an element */
const char *weft_dtype_name(
    weft_dtype dtype); /* "f32", "f64", "bf16", "i32", "u8", "f8e4m3", "f8e5m2", "f8e8m0" */
/* WEFT_DTYPES if no dtype is called so. */
weft_dtype weft_dtype_find(const char *name);
bool weft_dtype_is_float(weft_dtype dtype); /* all but i32 and u8 */
/* Is it a float of 8 bits? Such values are stored, read and sent, never summed. */
bool weft_dtype_is_f8(weft_dtype dtype);
/* The largest finite number; 0 of what is no float. */
double weft_dtype_max(weft_dtype dtype);

/* bf16 is the upper half of an f32; stores round to nearest even, NaN stays NaN. */
static inline float weft_bf16_to_f32(uint16_t h)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}

static inline uint16_t weft_f32_to_bf16(float f)
{
    union {
        float f;
        uint32_t u;
    } v = {f};
    if ((v.u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((v.u >> 16) | 0x40u);
    return (uint16_t)((v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16);
}

/* Floats of 8 bits: round to nearest even, what is larger than the largest finite number becomes
 * that, infinities too; NaN stays NaN. As "clamp, then cast" does. */
static inline uint8_t weft_f32_to_f8(float f, bool e5m2)
{
    union {
        float f;
        uint32_t u;
    } v = {f}, small = {e5m2 ? 128.0f : 16384.0f}; /* with the smallest number as the last bit */
    const uint32_t sign = v.u >> 24 & 0x80u, largest = e5m2 ? 0x47600000u : 0x43e00000u;
    const uint32_t normal = e5m2 ? 0x38800000u : 0x3c800000u, cut = e5m2 ? 21 : 20;
    const uint32_t base = small.u;
    v.u &= 0x7fffffffu;
    if (v.u > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    v.u = v.u < largest ? v.u : largest;
    small.f += v.f;
    uint32_t rounded = v.u + ((1u << (cut - 1)) - 1u) + (v.u >> cut & 1u);
    uint32_t code = (rounded >> cut) - (e5m2 ? 112u << 2 : 120u << 3);
    return (uint8_t)(sign | (v.u < normal ? small.u - base : code));
}

static inline uint8_t weft_f32_to_f8e4m3(float f)
{
    return weft_f32_to_f8(f, false);
}

static inline uint8_t weft_f32_to_f8e5m2(float f)
{
    return weft_f32_to_f8(f, true);
}

/* The nearest power of two, of two the greater; what is none, or too small, becomes the smallest,
 * what is too large, infinities too, the largest; NaN stays NaN. */
static inline uint8_t weft_f32_to_f8e8m0(float f)
{
    union {
        float f;
        uint32_t u;
    } v = {f};
    if ((v.u & 0x7fffffffu) > 0x7f800000u)
        return 0xffu;
    if (!(f > 0x1p-127f))
        return 0;
    /* half of 2^-126 is the smallest, and above it the next one is as near at three quarters */
    uint32_t up = v.u < 0x00800000u ? v.u >= 0x00600000u : v.u >> 22 & 1u;
    uint32_t code = (v.u >> 23) + up;
    return (uint8_t)(code < 0xfeu ? code : 0xfeu);
}

/* x, rounded once, as the code of a float of 8 bits. */
uint8_t weft_f64_to_f8(double x, weft_dtype dtype);

/* What the 256 codes of a float of 8 bits stand for; NULL: dtype is none. The table is const and
 * never goes away. */
const float *weft_f8_values(weft_dtype dtype);

/* What brings amax to the dtype's largest number, or to `margin` powers of two below it; of amax
 * below 1e-12 that of 1e-12. power_of_two: the power of two at or below that. */
float weft_f8_scale_of(double amax, weft_dtype dtype, bool power_of_two, int64_t margin);

/* x as an f32 whose last bit is set where anything was cut off: narrowing that further, to nearest,
 * gives what rounding x once would have. */
float weft_f64_to_f32_odd(double x);

/* ---- time ---- */

/* Seconds since some moment in the past, for differences: it never goes back. */
double weft_now(void);
/* Nanoseconds since 1970, by the host's clock, which may be set back; 0: it has none. */
int64_t weft_utc(void);
/* Such a time as text: "2026-11-22T13:01:18.042Z". */
void weft_text_add_utc(weft_text *text, int64_t ns);

/* ---- logging: the core and plugins never print, they log to whoever runs them ---- */

typedef enum weft_log_level {
    WEFT_LOG_DEBUG,
    WEFT_LOG_INFO,
    WEFT_LOG_WARN,
    WEFT_LOG_ERROR
} weft_log_level;

/* A sink; write may be called from any thread. line has no newline. A line that starts with '\r' is
 * a status line (a progress bar): a sink to a terminal shows it in place of the status line before,
 * erases it before the next normal line and shows it again after that; "\r" alone ends it. All
 * other sinks drop it. */
typedef struct weft_log {
    void (*write)(void *self, weft_log_level level, const char *line);
    void *self;
} weft_log;

/* log may be NULL: then nothing happens. */
void weft_log_print(const weft_log *log, weft_log_level level, const char *format, ...)
    WEFT_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
