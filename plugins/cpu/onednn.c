/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"
#include "matmul.h"

#include <oneapi/dnnl/dnnl.h>
#include <string.h>
#include <sys/mman.h>

struct cpu_matmul {
    int threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, scratch;
    size_t scratch_bytes;
};

static dnnl_data_type_t data_type(weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
}

static weft_status failed(weft_error *err, const char *what, dnnl_status_t status)
{
    const char *why = status == dnnl_out_of_memory   ? "out of memory"
                      : status == dnnl_unimplemented ? "not implemented on this CPU"
                                                     : "refused";
    return weft_fail(err, status == dnnl_out_of_memory ? WEFT_ERR_MEMORY : WEFT_ERR_RUN,
                     WEFT_NOWHERE,
                     "oneDNN could not %s: %s (status %d); [cpu] kernels = plain does without it",
                     what, why, (int)status);
}

/* ---- memory that oneDNN takes for itself ---- */

enum { ROOM = 32 << 20 }; /* what it takes for one product, and to spare */

/* oneDNN does not look whether it got the memory that it writes its code into: asked for before. */
static bool has_room(void)
{
    void *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, ROOM) == 0;
}

/* ---- attributes: scratch memory from us, and the sum ---- */

static dnnl_status_t make_attr(bool add, dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && add) {
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success)
#if DNNL_VERSION_MAJOR >= 3
            status = dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
#else
            status = dnnl_post_ops_append_sum(ops, 1.0f);
#endif
        if (status == dnnl_success)
            status = dnnl_primitive_attr_set_post_ops(attr, ops);
        dnnl_post_ops_destroy(ops);
    }
    if (status != dnnl_success) {
        dnnl_primitive_attr_destroy(attr);
        return status;
    }
    *out = attr;
    return dnnl_success;
}

/* ---- descriptors: where the two major versions differ ---- */

typedef struct view {
    dnnl_dims_t size, stride;
    dnnl_data_type_t type;
} view;

/* The step over an extent of one is nobody's: it is what it would be where all lies dense. oneDNN
 * takes descriptions that differ in nothing else for one, and gives what it has kept of either,
 * which may want other scratch memory than what was planned. */
static view view_of(int64_t rows, int64_t cols, int64_t row, int64_t col, weft_dtype dtype)
{
    if (cols == 1)
        col = row == 1 ? rows : 1;
    if (rows == 1)
        row = cols * col;
    return (view){.size = {rows, cols}, .stride = {row, col}, .type = data_type(dtype)};
}

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t memory_desc;
typedef const_dnnl_memory_desc_t memory_desc_view;

static dnnl_status_t desc_init(memory_desc *desc, const view *v)
{
    return dnnl_memory_desc_create_with_strides(desc, 2, v->size, v->type, v->stride);
}
static void desc_release(memory_desc *desc)
{
    dnnl_memory_desc_destroy(*desc);
}
static dnnl_status_t primitive_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                    memory_desc *a, memory_desc *b, memory_desc *c,
                                    dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, *a, *b, NULL, *c, attr);
}
static size_t desc_bytes(memory_desc_view desc)
{
    return dnnl_memory_desc_get_size(desc);
}
#else
typedef dnnl_memory_desc_t memory_desc;
typedef const dnnl_memory_desc_t *memory_desc_view;

static dnnl_status_t desc_init(memory_desc *desc, const view *v)
{
    return dnnl_memory_desc_init_by_strides(desc, 2, v->size, v->type, v->stride);
}
static void desc_release(memory_desc *desc)
{
    (void)desc;
}
static dnnl_status_t primitive_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                    memory_desc *a, memory_desc *b, memory_desc *c,
                                    dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t status = dnnl_matmul_desc_init(&op, a, b, NULL, c);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, &op, attr, engine, NULL);
}
static size_t desc_bytes(memory_desc_view desc)
{
    return dnnl_memory_desc_get_size(desc);
}
#endif

static dnnl_status_t make_primitive_desc(const cpu_matmul_shape *s, dnnl_engine_t engine,
                                         dnnl_primitive_desc_t *out)
{
    view views[3] = {view_of(s->m, s->k, s->a_row, s->a_col, s->ab),
                     view_of(s->k, s->n, s->b_row, s->b_col, s->ab),
                     view_of(s->m, s->n, s->c_row, 1, s->c)};
    memory_desc desc[3];
    int made = 0;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = dnnl_success;
    while (made < 3 && (status = desc_init(&desc[made], &views[made])) == dnnl_success)
        made++;
    if (status == dnnl_success)
        status = make_attr(s->add, &attr);
    if (status == dnnl_success) {
        status = primitive_desc(out, engine, &desc[0], &desc[1], &desc[2], attr);
        dnnl_primitive_attr_destroy(attr);
    }
    while (made > 0)
        desc_release(&desc[--made]);
    return status;
}

/* ---- the interface ---- */

size_t cpu_matmul_scratch(const cpu_matmul_shape *shape, int threads)
{
    dnnl_engine_t engine = NULL;
    dnnl_primitive_desc_t desc = NULL;
    size_t bytes = SIZE_MAX;
    if (!has_room())
        return bytes;
    cpu_team before = cpu_team_begin(threads);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success &&
        make_primitive_desc(shape, engine, &desc) == dnnl_success)
        bytes = desc_bytes(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    cpu_team_end(before);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (engine)
        dnnl_engine_destroy(engine);
    return bytes;
}

bool cpu_matmul_is_gemm(const cpu_matmul_shape *shape)
{
    dnnl_engine_t engine = NULL;
    dnnl_primitive_desc_t desc = NULL;
    const char *name = "";
    cpu_team before = cpu_team_begin(1);
    if (has_room() && dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success &&
        make_primitive_desc(shape, engine, &desc) == dnnl_success)
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    bool gemm = strncmp(name, "gemm", 4) == 0;
    cpu_team_end(before);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (engine)
        dnnl_engine_destroy(engine);
    return gemm;
}

static dnnl_status_t make_memories(cpu_matmul *m, dnnl_primitive_desc_t desc)
{
    dnnl_memory_t *memory[4] = {&m->a, &m->b, &m->c, &m->scratch};
    dnnl_query_t query[4] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md,
                             dnnl_query_scratchpad_md};
    for (int i = 0; i < 4; i++) {
        dnnl_status_t status =
            dnnl_memory_create(memory[i], dnnl_primitive_desc_query_md(desc, query[i], 0),
                               m->engine, DNNL_MEMORY_NONE);
        if (status != dnnl_success)
            return status;
    }
    m->scratch_bytes = desc_bytes(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    return dnnl_success;
}

weft_status cpu_matmul_create(const cpu_matmul_shape *shape, int threads, cpu_matmul **out,
                              weft_error *err)
{
    dnnl_primitive_desc_t desc = NULL;
    if (!has_room())
        return failed(err, "prepare a matrix product", dnnl_out_of_memory);
    cpu_matmul *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    m->threads = threads;
    cpu_team before = cpu_team_begin(threads);
    dnnl_status_t status = dnnl_engine_create(&m->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&m->stream, m->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = make_primitive_desc(shape, m->engine, &desc);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&m->primitive, desc);
    if (status == dnnl_success)
        status = make_memories(m, desc);
    cpu_team_end(before);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (status != dnnl_success) {
        cpu_matmul_destroy(m);
        return failed(err, "prepare a matrix product", status);
    }
    *out = m;
    return WEFT_OK;
}

void cpu_matmul_destroy(cpu_matmul *m)
{
    if (!m)
        return;
    dnnl_memory_t memory[4] = {m->a, m->b, m->c, m->scratch};
    for (int i = 0; i < 4; i++)
        if (memory[i])
            dnnl_memory_destroy(memory[i]);
    if (m->primitive)
        dnnl_primitive_destroy(m->primitive);
    if (m->stream)
        dnnl_stream_destroy(m->stream);
    if (m->engine)
        dnnl_engine_destroy(m->engine);
    weft_free(m);
}

weft_status cpu_matmul_run(cpu_matmul *m, const void *a, const void *b, void *c, void *scratch,
                           weft_error *err)
{
    dnnl_memory_t memory[4] = {m->a, m->b, m->c, m->scratch};
    void *data[4] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c, scratch};
    for (int i = 0; i < 4; i++) {
        dnnl_status_t status = dnnl_memory_set_data_handle(memory[i], data[i]);
        if (status != dnnl_success)
            return failed(err, "take an operand", status);
    }
    dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, m->a},
                               {DNNL_ARG_WEIGHTS, m->b},
                               {DNNL_ARG_DST, m->c},
                               {DNNL_ARG_SCRATCHPAD, m->scratch}};
    cpu_team before = cpu_team_begin(m->threads); /* the work is cut for exactly so many */
    bool whole = cpu_team_is_whole(m->threads);
    dnnl_status_t status = dnnl_success;
    if (whole)
        status = dnnl_primitive_execute(m->primitive, m->stream, 4, args);
    if (whole && status == dnnl_success)
        status = dnnl_stream_wait(m->stream);
    cpu_team_end(before);
    if (!whole)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "a matrix product was prepared for %d threads, and OpenMP gives the "
                         "calling thread fewer",
                         m->threads);
    return status == dnnl_success ? WEFT_OK : failed(err, "multiply matrices", status);
}

void cpu_matmul_library(weft_text *text)
{
    const dnnl_version_t *v = dnnl_version();
    weft_text_print(text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}
