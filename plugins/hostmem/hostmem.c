/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory that is the host's: the core allocates it and the device copies to and from it. What
 * is left to say is where it is, and how fast. */
#include <weft/plugin.h>
#include <weft/review.h>
#include <weft/service.h>

typedef struct hostmem {
    const weft_host *host;
    const char *rate;
    double bytes_per_s; /* 0: as the device says */
} hostmem;

static const weft_param params[] = {
    {.name = "rate",
     WEFT_TEXT(hostmem, rate),
     .help = "Bytes a second, one way, between the device's memory and the host's, as 45 GB, for "
             "the plan. Not set: what the device says of its link."},
    {.name = NULL},
};

static weft_status create(void *self_, weft_error *err)
{
    hostmem *self = self_;
    if (!*self->rate ||
        (weft_parse_bytes(self->rate, &self->bytes_per_s) && self->bytes_per_s >= 1))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "rate"),
                     "[hostmem] rate = %s: expected bytes a second, as 45 GB", self->rate);
}

static void describe(void *self, weft_text *text)
{
    (void)self;
    weft_text_add(text, "the host's memory");
}

static bool rates(void *self, weft_far_rates *out)
{
    const double rate = ((hostmem *)self)->bytes_per_s;
    *out = (weft_far_rates){.read = rate, .write = rate};
    return rate > 0;
}

static const weft_far far = {
    .size = sizeof far, .in_host_memory = true, .describe = describe, .rates = rates};

/* A device that is the host has nothing to gain. */
static weft_status review(void *self_, weft_plan *plan, weft_error *err)
{
    void *device_self;
    hostmem *self = self_;
    const weft_device *device = self->host->service(self->host, "device", &device_self);
    (void)plan, (void)err;
    if (device && device->host_memory && !device->record)
        weft_warn(self->host, WEFT_NOWHERE,
                  "hostmem: device '%s' computes in the host's memory, so that what lies there is "
                  "no further away; list disk in its place",
                  device->name);
    return WEFT_OK;
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "far", .table = &far},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_ORDERED, .review = review},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(hostmem) = {
    WEFT_PLUGIN_HEAD,
    .name = "hostmem",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "far memory of a GPU in the host's memory",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(hostmem),
    .create = create,
};
