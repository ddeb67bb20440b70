/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for what; and what is captured of tasks: the first time one by one, so that libraries
 * have made what they make at first use, the second time into a graph, then as that graph. */
#include "device.h"

/* ---- events ---- */

static weft_status create_event(cuda *c, unsigned flags, weft_device_event **event, weft_error *err)
{
    CUevent e = NULL;
    weft_status s =
        cuda_check(&c->driver, c->driver.cuEventCreate(&e, flags), "cuEventCreate", err);
    *event = (weft_device_event *)(void *)e;
    return s;
}

weft_status cuda_event_create(void *self, weft_device_event **event, weft_error *err)
{
    return create_event(self, CU_EVENT_DISABLE_TIMING, event, err);
}

weft_status cuda_timed_event_create(void *self, weft_device_event **event, weft_error *err)
{
    return create_event(self, CU_EVENT_DEFAULT, event, err);
}

static CUevent event_of(weft_device_event *event)
{
    return (CUevent)(void *)event;
}

void cuda_event_destroy(void *self, weft_device_event *event)
{
    if (event)
        ((cuda *)self)->driver.cuEventDestroy(event_of(event));
}

weft_status cuda_elapsed(void *self, weft_device_event *from, weft_device_event *to,
                         double *seconds, weft_error *err)
{
    const cuda_driver *d = &((cuda *)self)->driver;
    float ms = 0;
    weft_status s = cuda_check(d, d->cuEventElapsedTime(&ms, event_of(from), event_of(to)),
                               "cuEventElapsedTime", err);
    *seconds = (double)ms / 1000;
    return s;
}

weft_status cuda_record(void *self, weft_queue *queue, weft_device_event *event, weft_error *err)
{
    const cuda_driver *d = &((cuda *)self)->driver;
    return cuda_check(d, d->cuEventRecord(event_of(event), queue->stream), "cuEventRecord", err);
}

weft_status cuda_await(void *self, weft_queue *queue, weft_device_event *event, weft_error *err)
{
    const cuda_driver *d = &((cuda *)self)->driver;
    return cuda_check(d, d->cuStreamWaitEvent(queue->stream, event_of(event), 0),
                      "cuStreamWaitEvent", err);
}

/* Not on transports' queues: what waits there for another rank may do so until this one's host goes
 * on. */
weft_status cuda_poll(void *self, weft_device_event *event, bool *done, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    CUresult r = CUDA_SUCCESS;
    cuda_capture_abandon(c);
    if (event)
        r = d->cuEventQuery(event_of(event));
    for (int i = 0; i < CUDA_QUEUES && !event && r == CUDA_SUCCESS; i++)
        r = d->cuStreamQuery(c->queues[i].stream);
    *done = r != CUDA_ERROR_NOT_READY;
    return *done ? cuda_check(d, r, "the GPU", err) : WEFT_OK;
}

weft_status cuda_wait(void *self, weft_error *err)
{
    cuda *c = self;
    weft_status s = WEFT_OK;
    cuda_capture_abandon(c);
    for (int i = 0; i < CUDA_QUEUES && !s; i++)
        s = cuda_check(&c->driver, c->driver.cuStreamSynchronize(c->queues[i].stream), "the GPU",
                       err);
    return s;
}

/* ---- what is captured ---- */

static cuda_graph *find_graph(cuda *c, uint64_t key)
{
    cuda_graph *g = c->graphs[key % CUDA_GRAPH_LISTS];
    while (g && g->key != key)
        g = g->next;
    return g;
}

static weft_status first_time(cuda *c, uint64_t key, weft_error *err)
{
    cuda_graph *g = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    g->key = key;
    g->next = c->graphs[key % CUDA_GRAPH_LISTS];
    c->graphs[key % CUDA_GRAPH_LISTS] = g;
    return WEFT_OK;
}

weft_status cuda_begin(void *self, uint64_t key, bool *replayed, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    *replayed = false;
    c->current = NULL;
    c->capturing = c->abandoned = false;
    if (!c->capture)
        return WEFT_OK;
    cuda_graph *g = find_graph(c, key);
    if (!g)
        return first_time(c, key, err);
    if (g->exec) {
        *replayed = true;
        return cuda_check(d, d->cuGraphLaunch(g->exec, c->queues[0].stream), "cuGraphLaunch", err);
    }
    weft_status s = cuda_check(
        d, d->cuStreamBeginCapture(c->queues[0].stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture", err);
    c->current = g;
    c->capturing = !s;
    return s;
}

/* What was captured has not run yet. */
weft_status cuda_end(void *self, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    CUgraph graph = NULL;
    if (c->abandoned)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "cuda: the host waited for the GPU in the middle of a captured task");
    if (!c->capturing)
        return WEFT_OK;
    c->capturing = false;
    weft_status s = cuda_check(d, d->cuStreamEndCapture(c->queues[0].stream, &graph),
                               "cuStreamEndCapture", err);
    if (!s)
        s = cuda_check(d, d->cuGraphInstantiate(&c->current->exec, graph, 0), "cuGraphInstantiate",
                       err);
    if (graph)
        d->cuGraphDestroy(graph);
    if (!s)
        s = cuda_check(d, d->cuGraphLaunch(c->current->exec, c->queues[0].stream), "cuGraphLaunch",
                       err);
    return s;
}

void cuda_capture_abandon(cuda *c)
{
    CUgraph graph = NULL;
    if (!c->capturing)
        return;
    c->capturing = false;
    c->abandoned = true;
    c->driver.cuStreamEndCapture(c->queues[0].stream, &graph);
    if (graph)
        c->driver.cuGraphDestroy(graph);
}

void cuda_forget(void *self)
{
    cuda *c = self;
    cuda_capture_abandon(c);
    for (int i = 0; i < CUDA_GRAPH_LISTS; i++)
        for (cuda_graph *g = c->graphs[i], *next; g; g = next) {
            next = g->next;
            if (g->exec)
                c->driver.cuGraphExecDestroy(g->exec);
            weft_free(g);
            c->graphs[i] = next;
        }
}
