/* SPDX-License-Identifier: Apache-2.0 */
/* gpu: a GPU on paper. Plans are made for it where weft was built without the device that would
 * compute: it has queues, memory and rates, and no kernels. */
#include <weft/weft.h>

typedef struct gpu {
    const weft_host *host;
    weft_profile *profile;
} gpu;

static const weft_param params[] = {
    {.name = "gpu",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_FILE | WEFT_PARAM_REQUIRED,
     .help = "The GPU: a100, h100, h100-500w, h200, b200, 4090 or a file of your own, and what "
             "differs from it, as h100 bandwidth=2.4e12."},
    {.name = NULL},
};

static weft_status create(void *self, weft_error *err)
{
    gpu *g = self;
    return weft_profile_read(g->host->params, "gpu", &g->profile, err);
}

static weft_status refuse(void *self, weft_error *err)
{
    (void)self;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "gpu is a GPU on paper, for plans: to train on one list cuda, else cpu");
}

static void destroy(void *self)
{
    weft_profile_destroy(((gpu *)self)->profile);
}

/* ---- the device ---- */

static size_t library_bytes(void *self, int64_t captured)
{
    return weft_gpu_bytes(weft_profile_rates(((const gpu *)self)->profile), captured);
}

/* Each rank has its own, whatever carries what they send. */
static bool rates(void *self, weft_device_rates *out)
{
    *out = *weft_profile_rates(((const gpu *)self)->profile);
    out->one_a_process = false;
    return true;
}

/* Work goes on beside the host, and tasks are kept: so plans are made that way. Never called. */
static weft_status record(void *self, weft_queue *queue, weft_device_event *event, weft_error *err)
{
    (void)queue, (void)event;
    return refuse(self, err);
}

static weft_status begin(void *self, uint64_t key, bool *replayed, weft_error *err)
{
    (void)key, (void)replayed;
    return refuse(self, err);
}

static const weft_device device = {
    .size = sizeof(weft_device),
    .name = "gpu",
    .n_queues = 4,
    .host_memory = true, /* the plain kernels, of which nobody runs one, count as its own */
    .shared = true,
    .alignment = 256,
    .head_tokens = 4096,
    .record = record,
    .begin = begin,
    .end = refuse,
    .library_bytes = library_bytes,
    .rates = rates,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE,
     .gives = (const char *const[]){"device", NULL},
     .service = "device",
     .table = &device},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(gpu) = {
    WEFT_PLUGIN_HEAD,
    .name = "gpu",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "a GPU on paper, for plans where weft was built without cuda",
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(gpu),
    .create = create,
    .open = refuse,
    .destroy = destroy,
};
