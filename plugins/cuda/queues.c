/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: those of the plan, those that a transport asks for, and what each is at. */
#include "device.h"

/* early: its work begins before that of others that could, for other ranks wait for it. */
static weft_status open_stream(const cuda *c, bool early, CUstream *stream, weft_error *err)
{
    const cuda_driver *d = &c->driver;
    int last = 0, first = 0;
    weft_status s = cuda_check(d, d->cuCtxGetStreamPriorityRange(&last, &first),
                               "cuCtxGetStreamPriorityRange", err);
    return s ? s
             : cuda_check(d,
                          d->cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING,
                                                        early ? first : last),
                          "cuStreamCreateWithPriority", err);
}

static weft_status open_queue(cuda *c, weft_queue *q, weft_error *err)
{
    q->driver = &c->driver;
    q->functions = c->functions;
    q->products = c->products;
    q->host = c->host;
    weft_status s = q->careful ? cuda_event_create(c, &q->behind, err) : WEFT_OK;
    return s ? s : open_stream(c, q != &c->queues[0], &q->stream, err);
}

weft_status cuda_queues_open(cuda *c, weft_error *err)
{
    void *tags = NULL;
    weft_status s = cuda_alloc_host(c, CUDA_QUEUES * sizeof *c->tags, &tags, err);
    c->tags = tags;
    for (int i = 0; i < CUDA_QUEUES && !s; i++)
        s = open_queue(c, &c->queues[i], err);
    return s ? s : open_stream(c, false, &c->zeros, err);
}

void cuda_queues_close(cuda *c)
{
    while (c->extra)
        cuda_queue_destroy(c, c->extra);
    for (int i = 0; i < CUDA_QUEUES; i++) {
        cuda_event_destroy(c, c->queues[i].behind);
        c->queues[i].behind = NULL;
        if (c->queues[i].stream)
            c->driver.cuStreamDestroy(c->queues[i].stream);
    }
    if (c->zeros)
        c->driver.cuStreamDestroy(c->zeros);
    c->zeros = NULL;
    cuda_free_host(c, (void *)(uintptr_t)c->tags, 0);
    c->tags = NULL;
}

/* ---- for transports ---- */

void *cuda_stream(void *self, weft_queue *queue)
{
    return (queue ? queue : &((cuda *)self)->queues[0])->stream;
}

weft_status cuda_queue_create(void *self, weft_queue **queue, weft_error *err)
{
    cuda *c = self;
    weft_queue *q = weft_alloc_zero(1, sizeof *q);
    weft_status s = q ? open_queue(c, q, err) : weft_fail_memory(err);
    if (s) {
        weft_free(q);
        return s;
    }
    q->careful = c->queues[0].careful;
    q->next = c->extra;
    c->extra = q;
    *queue = q;
    return WEFT_OK;
}

void cuda_queue_destroy(void *self, weft_queue *queue)
{
    cuda *c = self;
    weft_queue **at = &c->extra;
    while (*at && *at != queue)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = queue->next;
    c->driver.cuStreamDestroy(queue->stream);
    weft_free(queue);
}

/* ---- tags: the stream itself writes them to the host's memory ---- */

static int number_of(const cuda *c, const weft_queue *queue)
{
    for (int i = 0; i < CUDA_QUEUES; i++)
        if (queue == &c->queues[i])
            return i;
    return -1;
}

/* A tag that could not be written names the instruction before. Nobody reads by tags what the
 * stream has written, so the barrier of memory that comes with one is of no use; but this version
 * of the call refuses to do without. */
void cuda_tag(void *self, weft_queue *queue, uint64_t tag)
{
    cuda *c = self;
    int i = number_of(c, queue);
    if (i >= 0 && c->tags)
        c->driver.cuStreamWriteValue64(queue->stream, (CUdeviceptr)(uintptr_t)&c->tags[i], tag,
                                       CU_STREAM_WRITE_VALUE_DEFAULT);
}

uint64_t cuda_reached(void *self, weft_queue *queue)
{
    cuda *c = self;
    int i = number_of(c, queue);
    cuda_capture_abandon(c);
    bool idle = i < 0 || !c->tags || c->driver.cuStreamQuery(queue->stream) == CUDA_SUCCESS;
    return idle ? 0 : c->tags[i];
}
