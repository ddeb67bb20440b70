/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a JSON object of which every key may be wrong: each complaint is noted, and what is
 * returned then is good enough to go on with. */
#ifndef HF_CONFIG_H
#define HF_CONFIG_H

#include "hf.h"

typedef struct hf_reader {
    const char *path; /* for messages */
    json_t *object;
    weft_error *err;
    weft_status status; /* the first complaint's */
} hf_reader;

/* ---- values (config_values.c) ---- */

void hf_complain(hf_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);
/* "an object", "a number", ... */
const char *hf_json_type(const json_t *x);
/* NULL: not there, or null, which is the same. */
json_t *hf_get(const hf_reader *r, const char *key);
/* standard NAN: the key is required. whole: no fraction. */
double hf_get_number(hf_reader *r, const char *key, double least, double most, bool whole,
                     double standard);
bool hf_get_bool(hf_reader *r, const char *key, bool standard);
/* Some models end with one of several ids: the first is taken. -1: none. */
int64_t hf_get_id(const hf_reader *r, const char *key);

/* ---- a model's keys (config_form.c) ---- */

/* A key that may be left out, and else has one value. */
void hf_check_constant(hf_reader *r, const weft_hf_key *k);
/* The keys of an object, as the table says, into the model. */
void hf_read_keys(hf_reader *r, const weft_hf_key *keys, hf_model *m);
/* Rotary positions, in both spellings. */
void hf_read_rotary(hf_reader *r, hf_model *m);

/* ---- all other keys (config_keys.c) ---- */

/* Complains of every switch that makes another model of the same shapes, and notes in m what is not
 * known. */
void hf_check_keys(hf_reader *r, hf_model *m);

#endif
