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
enum { STATUS = 1, START = 1 }; /* of SessionLog, its status */
enum {
    VALUE = 1,
    TAG = 1,
    SIMPLE_VALUE = 2,
    TENSOR = 8,
    METADATA = 9
};                                                      /* of Summary, of its Value
                                                         */
enum { PLUGIN_DATA = 1, PLUGIN_NAME = 1, CONTENT = 2 }; /* of SummaryMetadata, of its PluginData */
enum { DTYPE = 1, SHAPE = 2, STRING_VALUES = 8, DT_STRING = 7, DIM = 2, SIZE = 1 }; /* of Tensor */
enum { SESSION_START = 3, SESSION_END = 4 };                  /* of HParamsPluginData */
enum { HPARAMS = 1, START_S = 5, KEY = 1, MAP_VALUE = 2 };    /* of SessionStartInfo, of its map */
enum { NUMBER = 2, STRING = 3, BOOL = 4 };                    /* of a map's Value */
enum { END_STATUS = 1, END_S = 2, SUCCESS = 1, FAILURE = 2 }; /* of SessionEndInfo */

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

/* A summary of one value that is for a page of its own; takes the value's other fields. */
static void add_for_page(weft_text *out, double wall_s, const char *tag, const char *page,
                         weft_text *content, weft_text *tensor)
{
    weft_text event = {0}, summary = {0}, value = {0}, metadata = {0}, data = {0};
    add_bytes(&data, PLUGIN_NAME, page, strlen(page));
    add_message(&data, CONTENT, content);
    add_message(&metadata, PLUGIN_DATA, &data);
    add_bytes(&value, TAG, tag, strlen(tag));
    if (tensor->size)
        add_message(&value, TENSOR, tensor);
    add_message(&value, METADATA, &metadata);
    add_message(&summary, VALUE, &value);
    add_double(&event, WALL_TIME, wall_s);
    add_message(&event, SUMMARY, &summary);
    add_record(out, &event);
}

void tensorboard_add_text(weft_text *out, double wall_s, const char *tag, const weft_text *text)
{
    weft_text tensor = {0}, shape = {0}, dim = {0}, nothing = {0};
    add_int(&dim, SIZE, 1);
    add_message(&shape, DIM, &dim);
    add_int(&tensor, DTYPE, DT_STRING);
    add_message(&tensor, SHAPE, &shape);
    add_bytes(&tensor, STRING_VALUES, weft_text_get(text), text->size);
    add_for_page(out, wall_s, tag, "text", &nothing, &tensor);
}

static void add_setting(weft_text *out, const tensorboard_setting *setting)
{
    weft_text entry = {0}, value = {0};
    if (setting->type == TENSORBOARD_NUMBER)
        add_double(&value, NUMBER, setting->value);
    else if (setting->type == TENSORBOARD_BOOL)
        add_int(&value, BOOL, setting->value != 0);
    else
        add_bytes(&value, STRING, setting->text, strlen(setting->text));
    add_bytes(&entry, KEY, setting->name, strlen(setting->name));
    add_message(&entry, MAP_VALUE, &value);
    add_message(out, HPARAMS, &entry);
}

void tensorboard_add_hparams(weft_text *out, double wall_s, const tensorboard_setting *list, int n)
{
    weft_text start = {0}, content = {0}, nothing = {0};
    for (int i = 0; i < n; i++)
        add_setting(&start, &list[i]);
    add_double(&start, START_S, wall_s);
    add_message(&content, SESSION_START, &start);
    add_for_page(out, wall_s, "_hparams_/session_start_info", "hparams", &content, &nothing);
}

void tensorboard_add_end(weft_text *out, double wall_s, bool well)
{
    weft_text end = {0}, content = {0}, nothing = {0};
    add_int(&end, END_STATUS, well ? SUCCESS : FAILURE);
    add_double(&end, END_S, wall_s);
    add_message(&content, SESSION_END, &end);
    add_for_page(out, wall_s, "_hparams_/session_end_info", "hparams", &content, &nothing);
}
