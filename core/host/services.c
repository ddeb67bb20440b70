/* SPDX-License-Identifier: Apache-2.0 */
/* The services whose tables weft knows, and the one way into them: whoever calls a service calls a
 * function made here, which finds the link that has it and enters its plugin (wrap.h). */
#include "base/array.h"
#include "host/wrap.h"

#include <string.h>

/* ---- the lists ---- */

/* DO(service, function, with, N, (type, name, ...)) may fail, and so may GIVE(..., out), which
 * gives *out, ASK(service, function, with, type, ...) answers, TELL(service, function, with, ...)
 * does neither. Before the N parameters stands self, behind those of DO err. The function is there
 * if and only if `with` is: always with `size`, as one likes with itself. */

/* clang-format off */
#define DEVICE(DO, ASK, TELL, GIVE) \
    GIVE(device, alloc, size, 2, (size_t, bytes, void **, memory), memory) \
    TELL(device, free, size, 2, (void *, memory, size_t, bytes)) \
    ASK(device, exportable, exportable, bool, 0, ()) \
    GIVE(device, alloc_host, alloc_host, 2, (size_t, bytes, void **, memory), memory) \
    TELL(device, free_host, alloc_host, 2, (void *, memory, size_t, bytes)) \
    DO(device, upload, size, 4, (weft_queue *, queue, void *, to, const void *, from, \
        size_t, bytes)) \
    DO(device, download, size, 4, (weft_queue *, queue, void *, to, const void *, from, \
        size_t, bytes)) \
    DO(device, move, size, 3, (weft_queue *, queue, const weft_box *, boxes, int, n)) \
    DO(device, reduce, size, 2, (weft_queue *, queue, const weft_reduction *, r)) \
    ASK(device, queue, queue, weft_queue *, 1, (int, i)) \
    ASK(device, threads, threads, int, 0, ()) \
    GIVE(device, event_create, record, 1, (weft_device_event **, event), event) \
    TELL(device, event_destroy, record, 1, (weft_device_event *, event)) \
    DO(device, record, record, 2, (weft_queue *, queue, weft_device_event *, event)) \
    DO(device, await, record, 2, (weft_queue *, queue, weft_device_event *, event)) \
    DO(device, poll, record, 2, (weft_device_event *, event, bool *, done)) \
    DO(device, wait, size, 0, ()) \
    GIVE(device, timed_event_create, elapsed, 1, (weft_device_event **, event), event) \
    DO(device, elapsed, elapsed, 3, (weft_device_event *, from, weft_device_event *, to, \
        double *, seconds)) \
    ASK(device, stream, stream, void *, 1, (weft_queue *, queue)) \
    GIVE(device, queue_create, queue_create, 1, (weft_queue **, queue), queue) \
    TELL(device, queue_destroy, queue_destroy, 1, (weft_queue *, queue)) \
    DO(device, begin, end, 2, (uint64_t, key, bool *, replayed)) \
    DO(device, end, end, 0, ()) \
    TELL(device, forget, forget, 0, ()) \
    DO(device, settle, settle, 0, ()) \
    TELL(device, tag, reached, 2, (weft_queue *, queue, uint64_t, number)) \
    ASK(device, reached, reached, uint64_t, 1, (weft_queue *, queue)) \
    ASK(device, plain, plain, bool, 0, ()) \
    ASK(device, adversary, adversary, uint64_t, 0, ()) \
    ASK(device, peak, peak, double, 2, (weft_dtype, dtype, double, reached)) \
    TELL(device, describe, describe, 1, (weft_text *, text)) \
    ASK(device, library_bytes, library_bytes, size_t, 1, (int64_t, captured)) \
    ASK(device, rates, rates, bool, 1, (weft_device_rates *, out)) \
    ASK(device, peak_bytes, peak_bytes, size_t, 0, ()) \
    ASK(device, counts, counts, int, 1, (weft_report *, list))

/* SEND(transport, function, ...) does something with a group, its first parameter. */
#define TRANSPORT(DO, ASK, TELL, SEND) \
    SEND(transport, connect, connect, 3, (void *, group, int, from, int, to)) \
    DO(transport, check, check, 0, ()) \
    DO(transport, add_memory, remove_memory, 2, (void *, memory, size_t, bytes)) \
    TELL(transport, remove_memory, remove_memory, 2, (void *, memory, size_t, bytes)) \
    DO(transport, plan, plan, 3, (const weft_planned_call *, calls, int, n, \
        int64_t *, host_bytes)) \
    ASK(transport, library_bytes, library_bytes, size_t, 2, (const weft_planned_group *, groups, \
        int, n)) \
    DO(transport, takes, takes, 1, (const weft_device *, device)) \
    ASK(transport, sends_terms, sends_terms, bool, 1, (weft_reduce, op)) \
    TELL(transport, leave, leave, 0, ()) \
    SEND(transport, all_gather, size, 6, (void *, group, const void *, send, void *, recv, \
        int64_t, count, weft_dtype, dtype, weft_queue *, queue)) \
    SEND(transport, reduce_scatter, size, 7, (void *, group, const void *, send, void *, recv, \
        int64_t, count, weft_dtype, dtype, weft_reduce, op, weft_queue *, queue)) \
    SEND(transport, all_reduce, size, 7, (void *, group, const void *, send, void *, recv, \
        int64_t, count, weft_dtype, dtype, weft_reduce, op, weft_queue *, queue)) \
    SEND(transport, all_to_all, size, 6, (void *, group, const void *, send, void *, recv, \
        int64_t, count, weft_dtype, dtype, weft_queue *, queue)) \
    SEND(transport, send, send, 7, (void *, group, int, to, const void *, data, \
        int64_t, count, weft_dtype, dtype, weft_queue *, queue, weft_request **, request)) \
    SEND(transport, recv, send, 7, (void *, group, int, from, void *, data, \
        int64_t, count, weft_dtype, dtype, weft_queue *, queue, weft_request **, request)) \
    DO(transport, wait, send, 2, (weft_request *, request, weft_queue *, queue)) \
    SEND(transport, broadcast, send, 6, (void *, group, int, root, void *, data, \
        int64_t, count, weft_dtype, dtype, weft_queue *, queue))

#define TOKENIZER(DO, ASK, TELL) \
    ASK(tokenizer, vocab_size, size, int, 0, ()) \
    ASK(tokenizer, bos, size, int, 0, ()) \
    ASK(tokenizer, eos, size, int, 0, ()) \
    DO(tokenizer, encode, size, 5, (const char *, text, size_t, n, \
        int32_t **, ids, size_t *, n_ids, size_t *, capacity)) \
    DO(tokenizer, decode, size, 3, (const int32_t *, ids, size_t, n, weft_text *, text)) \
    ASK(tokenizer, files, files, const char *const *, 0, ())

#define DATA(DO, ASK, TELL) \
    DO(data, begin, size, 2, (int64_t, seq_len, uint64_t, seed)) \
    ASK(data, samples, size, int64_t, 1, (weft_split, split)) \
    DO(data, sample, size, 3, (weft_split, split, int64_t, i, const weft_sample *, out)) \
    TELL(data, describe, describe, 1, (weft_text *, text)) \
    ASK(data, fingerprint, fingerprint, uint64_t, 0, ()) \
    ASK(data, one_document, one_document, bool, 0, ()) \
    ASK(data, fields, fields, const weft_field *, 0, ()) \
    DO(data, fit, fit, 1, (const weft_graph *, g))

#define GENERATOR(DO, ASK, TELL) \
    ASK(generator, context, prompt, int64_t, 0, ()) \
    ASK(generator, want, size, bool, 2, (int64_t, step, bool, last)) \
    DO(generator, prompt, prompt, 5, (int, i, const weft_tokenizer *, tokenizer, \
        void *, tokenizer_self, const int32_t **, ids, size_t *, n)) \
    ASK(generator, pick, prompt, int32_t, 5, (const float *, logits, int64_t, vocab, \
        int64_t, step, int, text_number, int64_t, n)) \
    TELL(generator, done, prompt, 5, (int64_t, step, int, text_number, const char *, prompt, \
        const char *, continuation, const weft_log *, log)) \
    ASK(generator, fields, fields, const weft_field *, 0, ()) \
    ASK(generator, rows, rows, int64_t, 0, ()) \
    DO(generator, write, fields, 1, (const struct weft_run_view *, run))

#define STORE(DO, ASK, TELL) \
    ASK(store, buffer_bytes, buffer_bytes, int64_t, 1, (const weft_state_view *, state)) \
    DO(store, load, size, 3, (const weft_state_view *, state, weft_progress *, progress, \
        weft_store_found *, found)) \
    ASK(store, want, size, bool, 3, (const weft_progress *, at, double, elapsed_s, bool, last)) \
    DO(store, begin, size, 1, (const weft_state_view *, state)) \
    DO(store, before_update, size, 0, ()) \
    ASK(store, ready, size, bool, 0, ()) \
    DO(store, advance, size, 0, ()) \
    DO(store, finish, size, 1, (bool, last)) \
    TELL(store, abandon, size, 0, ())

#define WEIGHTS(DO, ASK, TELL) \
    DO(weights, load, load, 2, (const weft_state_view *, state, bool *, loaded)) \
    DO(weights, save, save, 1, (const weft_state_view *, state))

#define FAR(DO, ASK, TELL) \
    DO(far, reserve, read, 1, (int64_t, bytes)) \
    DO(far, read, read, 4, (int64_t, at, int64_t, n, void *, to, weft_request **, request)) \
    DO(far, write, read, 4, (int64_t, at, int64_t, n, const void *, from, \
        weft_request **, request)) \
    DO(far, wait, read, 1, (weft_request *, request)) \
    TELL(far, drain, read, 0, ()) \
    TELL(far, describe, describe, 1, (weft_text *, text)) \
    ASK(far, rates, rates, bool, 1, (weft_far_rates *, out)) \
    ASK(far, buffer_bytes, buffer_bytes, int64_t, 1, (int64_t, bytes)) \
    ASK(far, counts, counts, int, 1, (weft_report *, list))

#define SCHEDULE(DO, ASK, TELL) \
    DO(schedule, generate, size, 2, (const weft_pipeline_view *, pipeline, weft_tasks *, tasks))

/* ---- a function of each ---- */

#define PARAMS_0()
#define PARAMS_1(A, a) , A a
#define PARAMS_2(A, a, ...) , A a PARAMS_1(__VA_ARGS__)
#define PARAMS_3(A, a, ...) , A a PARAMS_2(__VA_ARGS__)
#define PARAMS_4(A, a, ...) , A a PARAMS_3(__VA_ARGS__)
#define PARAMS_5(A, a, ...) , A a PARAMS_4(__VA_ARGS__)
#define PARAMS_6(A, a, ...) , A a PARAMS_5(__VA_ARGS__)
#define PARAMS_7(A, a, ...) , A a PARAMS_6(__VA_ARGS__)
#define ARGS_0()
#define ARGS_1(A, a) , a
#define ARGS_2(A, a, ...) , a ARGS_1(__VA_ARGS__)
#define ARGS_3(A, a, ...) , a ARGS_2(__VA_ARGS__)
#define ARGS_4(A, a, ...) , a ARGS_3(__VA_ARGS__)
#define ARGS_5(A, a, ...) , a ARGS_4(__VA_ARGS__)
#define ARGS_6(A, a, ...) , a ARGS_5(__VA_ARGS__)
#define ARGS_7(A, a, ...) , a ARGS_6(__VA_ARGS__)
/* clang-format on */

/* Where nothing can fail. */
static weft_blame blame(const weft_service_link *l, const char *function)
{
    return weft_blame_set((weft_blame){.plugin = l->by->module.plugin->name, .hook = function});
}

static weft_status give_nothing(const weft_service_link *l, const char *function, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_RUN, l->by->module.where,
                     "plugin '%s': its %s says that all is well, and gives nothing",
                     l->by->module.plugin->name, function);
}

/* l: whose function it is; t: that one's table. */
#define FIND(service, function)                                                                    \
    const weft_service_link *l = weft_service_link_find(self, offsetof(weft_##service, function)); \
    const weft_##service *t = l->table

#define CALL(service, function, n, list, before, given)                                            \
    static weft_status service##_##function(void *self PARAMS_##n list, weft_error *err)           \
    {                                                                                              \
        FIND(service, function);                                                                   \
        weft_status s = before;                                                                    \
        if (s)                                                                                     \
            return s;                                                                              \
        const weft_entry entry = weft_service_link_enter(l, #function, err);                       \
        s = weft_leave(&entry, t->function(l->self ARGS_##n list, err));                           \
        return s || given ? s : give_nothing(l, #function, err);                                   \
    }
#define DO(service, function, with, n, list) CALL(service, function, n, list, WEFT_OK, true)
#define SEND(service, function, with, n, list)                                                     \
    CALL(service, function, n, list, check_group(self, l, #function, group, err), true)
#define GIVE(service, function, with, n, list, out)                                                \
    CALL(service, function, n, list, (*out = NULL, WEFT_OK), *out)

#define ASK(service, function, with, type, n, list)                                                \
    static type service##_##function(void *self PARAMS_##n list)                                   \
    {                                                                                              \
        FIND(service, function);                                                                   \
        const weft_blame before = blame(l, #function);                                             \
        type answer = t->function(l->self ARGS_##n list);                                          \
        weft_blame_set(before);                                                                    \
        return answer;                                                                             \
    }

#define TELL(service, function, with, n, list)                                                     \
    static void service##_##function(void *self PARAMS_##n list)                                   \
    {                                                                                              \
        FIND(service, function);                                                                   \
        const weft_blame before = blame(l, #function);                                             \
        t->function(l->self ARGS_##n list);                                                        \
        weft_blame_set(before);                                                                    \
    }

/* ---- groups of transports ---- */

/* A group that who is called has not made would be read as one of its own: threads would wait for a
 * lock that is none. So it never gets there. */

static int find_given(const weft_given *given, const void *group)
{
    for (int i = 0; i < given->n; i++)
        if (given->list[i] == group)
            return i;
    return -1;
}

/* Whose groups the functions of this link are called with. */
static const weft_service_link *maker_for(const weft_service_link *l)
{
    return weft_service_link_find(l, offsetof(weft_transport, group));
}

/* self: the link that was called; l: the one that has the function. */
static weft_status check_group(const weft_service_link *self, const weft_service_link *l,
                               const char *function, const void *group, weft_error *err)
{
    const weft_service_link *maker = maker_for(l), *outer = maker_for(self);
    const char *inner = maker->by->module.plugin->name;
    if (find_given(maker->given, group) >= 0)
        return WEFT_OK;
    if (outer != maker && find_given(outer->given, group) >= 0)
        return weft_fail(err, WEFT_ERR_RUN, outer->by->module.where,
                         "plugin '%s' hands out groups of its own, and has no %s for them; a wrap "
                         "that does has every function that takes a group",
                         outer->by->module.plugin->name, function);
    const char *by = weft_blame_get().plugin;
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                     "plugin '%s' calls %s of '%s' with a group that '%s' has not made; pass on "
                     "the one that next->group has given",
                     by ? by : "?", function, inner, inner);
}

static weft_status transport_group(void *self, const int *ranks, int n, int me, void **group,
                                   weft_error *err)
{
    FIND(transport, group);
    weft_given *given = l->given;
    /* before it is made: then nothing can keep it from being noted */
    if (!weft_array_push(&given->list, &given->n, &given->capacity, sizeof *given->list))
        return weft_fail_memory(err);
    const weft_entry entry = weft_service_link_enter(l, "group", err);
    *group = NULL;
    weft_status s = weft_leave(&entry, t->group(l->self, ranks, n, me, group, err));
    s = s || *group ? s : give_nothing(l, "group", err);
    if (s)
        given->n--;
    else
        given->list[given->n - 1] = *group;
    return s;
}

static void transport_ungroup(void *self, void *group)
{
    FIND(transport, ungroup);
    weft_given *given = maker_for(l)->given;
    weft_error err = {0};
    if (check_group(self, l, "ungroup", group, &err)) {
        weft_log_print(l->by->host.log, WEFT_LOG_WARN, "%s", weft_error_text(&err));
        weft_error_release(&err);
        return;
    }
    given->list[find_given(given, group)] = given->list[given->n - 1];
    given->n--;
    const weft_blame before = blame(l, "ungroup");
    t->ungroup(l->self, group);
    weft_blame_set(before);
}

static bool sees_collectives(const weft_transport *t)
{
    return t->all_gather || t->reduce_scatter || t->all_reduce || t->all_to_all || t->broadcast;
}

/* Does one of these links see collectives, from here to `end`? */
static bool find_blind(const weft_service_link *from, const weft_service_link *end)
{
    bool sees = false;
    for (const weft_service_link *l = from; l != end && !sees; l = l->inner)
        sees = sees_collectives(l->table);
    return sees;
}

/* A wrap with groups of its own need not know of it: nobody below is told then. */
static weft_status transport_places(void *self, void *group, uint64_t digest, weft_error *err)
{
    FIND(transport, places);
    if (find_given(maker_for(l)->given, group) < 0)
        return WEFT_OK;
    const weft_entry entry = weft_service_link_enter(l, "places", err);
    return weft_leave(&entry, t->places(l->self, group, digest, err));
}

/* A wrap that sees collectives, and not where they are one, might do something in the middle: then
 * nobody below is told. */
#define EDGE(function)                                                                             \
    static weft_status transport_##function(void *self, void *group, weft_error *err)              \
    {                                                                                              \
        FIND(transport, function);                                                                 \
        if (find_blind(self, l))                                                                   \
            return WEFT_OK;                                                                        \
        const weft_entry entry = weft_service_link_enter(l, #function, err);                       \
        return weft_leave(&entry, t->function(l->self, group, err));                               \
    }
EDGE(group_begin)
EDGE(group_end)

/* What is enqueued again passes by all that would have been called: each must allow it. */
static bool transport_captured(void *self)
{
    bool may = true;
    for (const weft_service_link *l = self; l && may; l = l->inner) {
        const weft_transport *t = l->table;
        if (!t->captured) {
            may = !sees_collectives(t);
            continue;
        }
        const weft_blame before = blame(l, "captured");
        may = t->captured(l->self);
        weft_blame_set(before);
    }
    return may;
}

/* ---- the tables ---- */

/* clang-format off */
DEVICE(DO, ASK, TELL, GIVE)
TRANSPORT(DO, ASK, TELL, SEND)
TOKENIZER(DO, ASK, TELL)
DATA(DO, ASK, TELL)
GENERATOR(DO, ASK, TELL)
STORE(DO, ASK, TELL)
WEIGHTS(DO, ASK, TELL)
SCHEDULE(DO, ASK, TELL)
FAR(DO, ASK, TELL)

#define ENTRY(service, function, ...) .function = service##_##function,

static const weft_device device = {DEVICE(ENTRY, ENTRY, ENTRY, ENTRY)};
static const weft_transport transport = {
    TRANSPORT(ENTRY, ENTRY, ENTRY, ENTRY)
    ENTRY(transport, group, )
    ENTRY(transport, ungroup, )
    ENTRY(transport, places, )
    ENTRY(transport, group_begin, )
    ENTRY(transport, group_end, )
    ENTRY(transport, captured, )
};
static const weft_tokenizer tokenizer = {TOKENIZER(ENTRY, ENTRY, ENTRY)};
static const weft_data data = {DATA(ENTRY, ENTRY, ENTRY)};
static const weft_generator generator = {GENERATOR(ENTRY, ENTRY, ENTRY)};
static const weft_store store = {STORE(ENTRY, ENTRY, ENTRY)};
static const weft_weights weights = {WEIGHTS(ENTRY, ENTRY, ENTRY)};
static const weft_schedule schedule = {SCHEDULE(ENTRY, ENTRY, ENTRY)};
static const weft_far far = {FAR(ENTRY, ENTRY, ENTRY)};
/* clang-format on */

#define KIND(service)                                                                              \
    {                                                                                              \
#service, "weft_" #service, sizeof service, &service                                       \
    }

static const weft_service_kind kinds[] = {
    KIND(device),    KIND(transport),
    KIND(tokenizer), KIND(data),
    KIND(generator), KIND(store),
    KIND(weights),   KIND(schedule),
    KIND(far),       {"format", "weft_model_format", sizeof(weft_model_format), NULL},
};

const weft_service_kind *weft_service_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

typedef struct pair {
    const char *service, *function, *with;
    size_t at, with_at;
} pair;
/* clang-format off */
#define PAIR(s, f, with, ...) {#s, #f, #with, offsetof(weft_##s, f), offsetof(weft_##s, with)},
static const pair together[] = {
    DEVICE(PAIR, PAIR, PAIR, PAIR)
    TRANSPORT(PAIR, PAIR, PAIR, PAIR)
    PAIR(transport, group, size, ) PAIR(transport, ungroup, size, )
    PAIR(transport, group_begin, group_end, )
    TOKENIZER(PAIR, PAIR, PAIR) DATA(PAIR, PAIR, PAIR) GENERATOR(PAIR, PAIR, PAIR)
    STORE(PAIR, PAIR, PAIR) SCHEDULE(PAIR, PAIR, PAIR) FAR(PAIR, PAIR, PAIR)
};
/* clang-format on */

static bool has(const weft_service_link *l, size_t at)
{
    static const void *const nothing;
    return memcmp((const char *)l->table + at, &nothing, sizeof nothing) != 0;
}

weft_status weft_services_check(const weft_plugins *plugins, bool runs, weft_error *err)
{
    const pair *end = together + sizeof together / sizeof *together;
    for (const weft_service_link *l = plugins->links; l; l = l->next)
        for (const pair *p = together; !l->inner && p < end; p++) {
            if (strcmp(l->service, p->service) != 0 || (!runs && strcmp(p->service, "device") == 0))
                continue; /* another kind's table may end before `at` */
            const bool there = has(l, p->at);
            if (there != has(l, p->with_at))
                return weft_fail(err, WEFT_ERR_PLUGIN, l->by->module.where,
                                 "%s '%s' cannot run anything: it lacks %s%s%s", p->service,
                                 l->by->module.plugin->name, there ? p->with : p->function,
                                 p->with_at ? ", and has " : "",
                                 !p->with_at ? ""
                                 : there     ? p->function
                                             : p->with);
        }
    return WEFT_OK;
}

weft_status weft_service_check_count(const weft_plugins *plugins, const char *service,
                                     const char *function, int64_t n, int64_t least,
                                     const char *right, weft_error *err)
{
    const pair *p = together;
    if (n >= least)
        return WEFT_OK;
    while (strcmp(p->service, service) != 0 || strcmp(p->function, function) != 0)
        p++;
    const weft_service_link *l = weft_service_link_find(weft_wraps_find(plugins, service), p->at);
    return weft_fail(err, WEFT_ERR_PLUGIN, l->by->module.where,
                     "%s '%s'%s%s cannot run anything: its %s says %lld; %s", service,
                     l->by->module.plugin->name, l->inner ? " around " : "",
                     l->inner ? l->inner->by->module.plugin->name : "", function, (long long)n,
                     right);
}

weft_status weft_transport_check_send(const weft_transport *t, const char *by, weft_error *err)
{
    if (t->send)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "this run sends values from one rank to another, and the transport of plugin "
                     "'%s' cannot: it has no send; list another, as local or mpi",
                     by);
}
