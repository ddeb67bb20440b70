/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a tokenizer: what a tokenizer.json becomes, and the steps that text takes through it:
 * added tokens -> normalizers -> added tokens -> pre-tokenizers -> words -> merges -> ids. */
#ifndef WEFT_TEXT_TOKENIZER_ENGINE_H
#define WEFT_TEXT_TOKENIZER_ENGINE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer.h"

/* ---- unicode.c ---- */

/* One character of valid UTF-8; *length: its bytes. */
uint32_t unicode_get(const char *s, size_t *length);
/* Writes up to 4 bytes, returns how many. */
size_t unicode_put(uint32_t c, char *out);
bool unicode_is_numeric(uint32_t c);
bool unicode_is_punctuation(uint32_t c);
bool unicode_is_word(uint32_t c);
bool unicode_is_space(uint32_t c);
/* Normalization leaves it alone, whatever utf8proc says. */
bool unicode_is_opaque(uint32_t c);
/* Lower case, one or two code points; returns how many. */
int unicode_lower_case(uint32_t c, uint32_t out[2]);
/* What stands in brackets for \p{name}, or for \w if name is "word"; NULL: no such class. */
const char *unicode_find_class(const char *name, const char **more);

/* The printable characters of byte-level tokens. */
extern const uint16_t unicode_byte_alphabet[256];
/* The byte that a character stands for; -1: none. */
int unicode_alphabet_byte(uint32_t c);

/* ---- map.c: hash tables that are filled once ---- */

/* From bytes to an id. Keys are not copied. */
typedef struct string_map {
    struct string_slot {
        const char *text;
        uint32_t n;
        int32_t id;
    } * slots;
    size_t mask;
} string_map;

bool string_map_init(string_map *map, size_t n, weft_pool *pool);
/* An existing key keeps its id: returns that, else the new one. */
int32_t string_map_add(string_map *map, const char *text, size_t n, int32_t id);
int32_t string_map_find(const string_map *map, const char *text, size_t n); /* -1: not there */

typedef struct merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* what they become; -1: the slot is empty */
} merge;

typedef struct merge_map {
    merge *slots;
    size_t mask;
} merge_map;

bool merge_map_init(merge_map *map, size_t n, weft_pool *pool);
/* A later merge of the same pair replaces the earlier one. */
void merge_map_set(merge_map *map, int32_t left, int32_t right, uint32_t rank, int32_t id);

static inline size_t merge_map_place(uint64_t pair)
{
    return (size_t)((pair * 0x9E3779B97F4A7C15u) >> 20);
}

static inline const merge *merge_map_find(const merge_map *map, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t i = merge_map_place(pair);; i++) {
        const merge *m = &map->slots[i & map->mask];
        if (m->id < 0)
            return NULL;
        if (m->pair == pair)
            return m;
    }
}

/* ---- pattern.c, scan.c: what text is split by ---- */

typedef struct pattern {
    pcre2_code *code; /* NULL: `literal` */
    const char *literal;
    size_t n_literal;
    /* Where the match at s[at] ends, for ASCII text and expressions that match everywhere; 0: not
     * known, use `code`. May be NULL. */
    size_t (*scan)(const char *s, size_t n, size_t at);
    bool known; /* one of those that have a name */
} pattern;

/* As Oniguruma reads expression, or as plain text. Whatever PCRE2 might read otherwise is refused.
 * at: JSON path. */
weft_status pattern_compile(pattern *p, const char *expression, size_t n, bool plain,
                            weft_where where, const char *at, weft_error *err);
void pattern_release(pattern *p);
/* The expression of GPT-2, which ByteLevel has built in. */
extern const char pattern_gpt2[];
/* The scanner of a known expression or NULL. */
size_t (*pattern_find_scan(const char *expression))(const char *s, size_t n, size_t at);

/* Goes over the matches of a pattern in s[0..n). Zero but for these two at first. */
typedef struct pattern_matches {
    const char *s;
    size_t n;
    size_t next, last_end;
    bool any;
} pattern_matches;

/* 1: a match, 0: none left, -1: an error. */
int pattern_next(const pattern *p, pcre2_match_data *data, pcre2_match_context *context,
                 pattern_matches *m, size_t *start, size_t *end, weft_error *err);

/* ---- the tokenizer ---- */

typedef struct vocab_token {
    const char *text; /* as in the file; NULL: no such id */
    uint32_t n;
    bool special, added;
} vocab_token;

typedef struct added_token {
    const char *content; /* as in the file */
    size_t n_content;
    const char *text; /* what is looked for */
    size_t n;
    int32_t id;
    int order;
    bool single_word, lstrip, rstrip, normalized, special;
} added_token;

/* Added tokens that are looked for together, sorted by text. */
typedef struct added_set {
    added_token *list;
    size_t n;
    bool first[256]; /* bytes that some token begins with */
} added_set;

typedef enum normalizer_kind {
    NORMALIZER_NFC,
    NORMALIZER_NFD,
    NORMALIZER_NFKC,
    NORMALIZER_NFKD,
    NORMALIZER_LOWERCASE,
    NORMALIZER_REPLACE,
    NORMALIZER_PREPEND,
    NORMALIZER_STRIP,
} normalizer_kind;

typedef struct normalizer {
    normalizer_kind kind;
    pattern pattern;
    const char *content;
    size_t n_content;
    bool left, right;
} normalizer;

typedef enum split_kind {
    SPLIT_PATTERN,
    SPLIT_DIGITS,
    SPLIT_PUNCTUATION,
    SPLIT_METASPACE,
    SPLIT_BYTE_LEVEL,
    SPLIT_BYTE_MAP
} split_kind;
typedef enum split_behaviour {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_PREVIOUS,
    SPLIT_NEXT,
    SPLIT_CONTIGUOUS
} split_behaviour;
typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef struct splitter {
    split_kind kind;
    split_behaviour behaviour;
    pattern pattern;      /* PATTERN, BYTE_LEVEL */
    bool invert;          /* PATTERN */
    bool split;           /* METASPACE; BYTE_LEVEL: use_regex */
    bool prefix;          /* BYTE_LEVEL: add_prefix_space */
    prepend_scheme first; /* METASPACE */
    char replacement[5];  /* METASPACE */
    size_t n_replacement;
} splitter;

typedef enum decoder_kind {
    DECODER_BYTE_LEVEL,
    DECODER_REPLACE,
    DECODER_BYTE_FALLBACK,
    DECODER_FUSE,
    DECODER_STRIP,
    DECODER_METASPACE
} decoder_kind;

typedef struct decoder {
    decoder_kind kind;
    pattern pattern;
    const char *content;
    size_t n_content;
    int64_t start, stop;
    bool prepended; /* METASPACE: prepend_scheme is not never */
} decoder;

enum { SYMBOL_NONE = -1, SYMBOL_UNKNOWN = -2 };

struct tokenizer {
    weft_pool pool;
    char *name;
    uint64_t hash;
    vocab_token *tokens;
    int n_tokens;        /* 1 + the highest id */
    string_map by_text;  /* tokens as in the file */
    string_map by_word;  /* as words: byte-level tokens as bytes */
    string_map by_added; /* added tokens */
    merge_map merges;
    int32_t byte_symbols[256][4]; /* byte-level: what a byte is at first; SYMBOL_NONE ends */
    bool byte_known[256];         /* ... and whether that is a token of its own */
    int32_t byte_tokens[256];     /* byte fallback: <0x00> to <0xFF>; -1: none */
    int32_t unknown;              /* -1: none */
    bool byte_level, byte_fallback, fuse_unknown, ignore_merges;
    bool raw;   /* tokens are bytes, not characters */
    bool parts; /* no merge joins U+2581 to another character before it: what stands before and
                   behind are encoded apart */
    added_set added, added_normalized;
    normalizer *normalizers;
    size_t n_normalizers;
    splitter *splitters;
    size_t n_splitters;
    decoder *decoders;
    size_t n_decoders;
    bool has_decoder;
};

/* load.c. An empty tokenizer with the hash of these bytes. */
weft_status tokenizer_create(const char *name, const void *data, size_t n, tokenizer **out,
                             weft_error *err);

/* ---- scratch ---- */

/* Words of up to WORD_BYTES bytes and WORD_IDS ids are remembered. */
enum { WORD_BYTES = 24, WORD_IDS = 8, WORD_SLOTS = 1 << 15 };

typedef struct word_slot {
    uint64_t key[WORD_BYTES / 8];
    uint8_t n, n_ids; /* n 0: empty */
    uint16_t unused;
    int32_t ids[WORD_IDS];
    uint32_t unused2;
} word_slot;

typedef struct symbol {
    int32_t id;
    int32_t length; /* 0: merged away */
    int64_t previous, next;
} symbol;

typedef struct queued {
    uint32_t rank;
    int32_t id;
    int64_t at;
} queued;

struct tokenizer_scratch {
    const tokenizer *t;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    word_slot *words;
    weft_text normal[2]; /* normalizers write from one to the other */
    weft_text *split;    /* [n_splitters]: text that a splitter changed */
    int32_t *points;     /* normalization */
    size_t n_points;
    symbol *symbols;
    size_t symbols_capacity;
    queued *queue;
    size_t n_queue, queue_capacity;
    /* of the call */
    int32_t **ids;
    size_t *n_ids, *capacity;
    tokenizer_word word;
    void *self;
    bool no_special, continues;
};

/* ---- steps ---- */

/* normalize.c. Leaves the result in *out, *n_out, which may be the text itself or in the scratch.
 * continues: nothing is put before it. *moved: the text's first character is gone. */
weft_status tokenizer_normalize(const tokenizer *t, tokenizer_scratch *s, const char *text,
                                size_t n, bool continues, const char **out, size_t *n_out,
                                bool *moved, weft_error *err);
/* split.c. first: the text begins where the document begins. Calls tokenizer_add_word. */
weft_status tokenizer_split(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                            bool first, weft_error *err);
/* encode.c */
weft_status tokenizer_add_word(const tokenizer *t, tokenizer_scratch *s, const char *word, size_t n,
                               weft_error *err);
weft_status tokenizer_add_ids(tokenizer_scratch *s, const int32_t *ids, size_t n, weft_error *err);
/* bpe.c. Appends the ids of a word. */
weft_status tokenizer_merge(const tokenizer *t, tokenizer_scratch *s, const char *word, size_t n,
                            weft_error *err);
/* parts.c. Fills parts. */
void tokenizer_find_parts(tokenizer *t);
/* parts.c. Where in word[at..n), at > 0, the next U+2581 stands with something else before it; n:
 * nowhere. */
size_t tokenizer_next_part(const char *word, size_t n, size_t at);
/* bpe.c. Fills byte_symbols. */
void tokenizer_fill_bytes(tokenizer *t);
/* bpe.c. How the model sees one character at first: up to 4 ids, SYMBOL_UNKNOWN or nothing. Returns
 * how many. */
int tokenizer_symbols(const tokenizer *t, const char *character, size_t n, int32_t out[4]);

/* added.c. The next added token in text from `at` on. False: none. It takes text[*start..*end);
 * nothing before `done` is taken again. */
bool added_set_next(const added_set *set, const char *text, size_t n, size_t at, size_t done,
                    bool no_special, const added_token **token, size_t *start, size_t *end,
                    size_t *match_end);
/* Sorts and indexes. list is kept. */
void added_set_init(added_set *set, added_token *list, size_t n);

#endif
