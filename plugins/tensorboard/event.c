/* SPDX-License-Identifier: Apache-2.0 */
/* Events as TensorBoard reads them: protobuf messages in records with checksums. Of both only what
 * is needed here. */
#include "tensorboard.h"

#include <math.h>
#include <string.h>

/* ---- checksums ---- */

uint32_t tensorboard_crc(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

uint32_t tensorboard_masked_crc(const void *data, size_t n)
{
    uint32_t crc = tensorboard_crc(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- protobuf ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void add_little(weft_text *out, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const char byte = (char)(x >> 8 * i & 0xff);
        weft_text_add_bytes(out, &byte, 1);
    }
}

static void add_varint(weft_text *out, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        add_little(out, (x & 0x7f) | 0x80, 1);
    add_little(out, x, 1);
}

static void add_key(weft_text *out, int field, int type)
{
    add_varint(out, (uint64_t)(field << 3 | type));
}

static void add_int(weft_text *out, int field, int64_t x)
{
    add_key(out, field, VARINT);
    add_varint(out, (uint64_t)x);
}

static void add_double(weft_text *out, int field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_key(out, field, FIXED64);
    add_little(out, bits, 8);
}

static void add_float(weft_text *out, int field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_key(out, field, FIXED32);
    add_little(out, bits, 4);
}

static void add_bytes(weft_text *out, int field, const void *data, size_t n)
{
    add_key(out, field, BYTES);
    add_varint(out, n);
    weft_text_add_bytes(out, data, n);
}

static void add_message(weft_text *out, int field, weft_text *message)
{
    add_bytes(out, field, weft_text_get(message), message->size);
    out->out_of_memory = out->out_of_memory || message->out_of_memory;
    weft_text_release(message);
}

/* ---- events ---- */

enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 }; /* of Event */
enum { STATUS = 1, START = 1 };                /* of SessionLog, its status */
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2 }; /* of Summary, of its Value */

static void add_record(weft_text *out, weft_text *event)
{
    char length[8];
    const uint64_t n = event->size;
    for (int i = 0; i < 8; i++)
        length[i] = (char)(n >> 8 * i & 0xff);
    weft_text_add_bytes(out, length, sizeof length);
    add_little(out, tensorboard_masked_crc(length, sizeof length), 4);
    weft_text_add_bytes(out, weft_text_get(event), event->size);
    add_little(out, tensorboard_masked_crc(weft_text_get(event), event->size), 4);
    out->out_of_memory = out->out_of_memory || event->out_of_memory;
    weft_text_release(event);
}

void tensorboard_add_version(weft_text *out, double wall_s)
{
    static const char version[] = "brain.Event:2";
    weft_text event = {0};
    add_double(&event, WALL_TIME, wall_s);
    add_bytes(&event, FILE_VERSION, version, sizeof version - 1);
    add_record(out, &event);
}

void tensorboard_add_start(weft_text *out, double wall_s, int64_t step)
{
    weft_text event = {0}, log = {0};
    add_int(&log, STATUS, START);
    add_double(&event, WALL_TIME, wall_s);
    add_int(&event, STEP, step);
    add_message(&event, SESSION_LOG, &log);
    add_record(out, &event);
}

void tensorboard_add_scalars(weft_text *out, double wall_s, int64_t step,
                             const tensorboard_scalar *list, int n)
{
    weft_text event = {0}, summary = {0};
    for (int i = 0; i < n; i++) {
        weft_text value = {0};
        if (!isfinite(list[i].value))
            continue;
        add_bytes(&value, TAG, list[i].tag, strlen(list[i].tag));
        add_float(&value, SIMPLE_VALUE, (float)list[i].value);
        add_message(&summary, VALUE, &value);
    }
    if (summary.size == 0 && !summary.out_of_memory)
        return;
    add_double(&event, WALL_TIME, wall_s);
    add_int(&event, STEP, step);
    add_message(&event, SUMMARY, &summary);
    add_record(out, &event);
}
