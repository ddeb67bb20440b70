/* SPDX-License-Identifier: Apache-2.0 */
/* The words behind `weft tokenize`. */
#include "command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char tokenize_usage[] =
    "usage: weft tokenize --tokenizer FILE [FILE...]                  text to ids\n"
    "       weft tokenize --tokenizer FILE --decode [FILE...]         ids to text\n"
    "       weft tokenize --tokenizer FILE --count [FILE...]          how many tokens\n"
    "       weft tokenize --tokenizer FILE --info                     what the tokenizer is\n"
    "       weft tokenize --train --vocab-size N --out FOLDER FILE... make a tokenizer\n"
    "\n"
    "FILE is text, JSON Lines (*.jsonl), either packed with gzip or zstd, or a folder of such files; without one, standard input is read. A text "
    "file\n"
    "is a document, and so is each line of JSON Lines. Ids are those of Hugging Face's encode(text, add_special_tokens=False).\n"
    "\n"
    "  --tokenizer FILE     tokenizer.json, a folder that holds one, or a rank file (*.tiktoken; see --pattern and --special)\n"
    "  --no-special         special tokens in the text are text like any other\n"
    "  --bos TOKEN          put this token before each document (training: name it in tokenizer_config.json)\n"
    "  --eos TOKEN          put this token after each document (training: likewise)\n"
    "  --bin TYPE           write ids as uint16, uint32 or auto (uint16 if they fit) instead of text; needs --out. With --decode, read such a file\n"
    "  --out FILE           write there instead of to standard output; the file appears when it is complete\n"
    "  --json               write JSON: an array of ids a document, or an object for --count and --info\n"
    "  --decode             read ids, a document a line (as numbers or as a JSON array), and write their text\n"
    "  --count              print documents, tokens, bytes and bytes per token of each file\n"
    "  --info               print the size of the vocabulary, the special tokens and the components\n"
    "  --format TYPE        text or jsonl, whatever the names of the files\n"
    "  --field NAME         the field of a JSON line that holds the text (text)\n"
    "  --invalid-utf8 WHAT  refuse what is not UTF-8, or replace each wrong part by U+FFFD (refuse)\n"
    "  --threads N          how many threads work (all processors); results do not depend on it\n"
    "\n"
    "training, and rank files:\n"
    "  --train              learn a byte-level BPE vocabulary; writes tokenizer.json and tokenizer_config.json, which Hugging Face loads, to --out\n"
    "  --vocab-size N       ids in all: special tokens, 256 bytes, and one for each merge\n"
    "  --pattern NAME       how words are cut: gpt2, llama3, qwen2, o200k, or a regular expression (training: llama3)\n"
    "  --special TOKENS     special tokens, separated by blanks; may be repeated (training: <|endoftext|>, and it is BOS and EOS unless these are\n"
    "                       given). For a rank file NAME=ID gives the id, else they follow the last rank\n"
    "  --min-frequency N    merge no pair that is rarer (2)\n"
    "  --max-token N        the longest token in bytes (any)\n"
    "  --max-word N         leave out words longer than this many bytes (1024)\n"
    "  --max-length N       name this model_max_length in tokenizer_config.json\n"
    "  --overwrite          write over a tokenizer that is there\n"
    "\n"
    "examples:\n"
    "  weft tokenize --train --vocab-size 8192 --out tok books/\n"
    "  echo 'Hello, world' | weft tokenize --tokenizer tok\n"
    "  weft tokenize --tokenizer tok --eos '<|endoftext|>' --bin auto --out train.bin books/ more.jsonl.zst\n";

typedef struct parse {
    tokenize_options *o;
    int argc, at;
    char **argv;
    weft_status status;
    weft_error *err;
    bool train, decode, count, info;
} parse;

typedef enum kind { FLAG, WORD, NUMBER, SPECIAL, BIN, FORMAT, UTF8 } kind;

typedef struct option {
    const char *name;
    kind kind;
    size_t at;     /* of the field in tokenize_options, or in parse for modes */
    int64_t least; /* NUMBER */
    bool mode, wide;
} option;

#define FIELD(name) offsetof(tokenize_options, name)

static const option options[] = {
    {.name = "--tokenizer", .kind = WORD, .at = FIELD(tokenizer)},
    {.name = "--no-special", .at = FIELD(no_special)},
    {.name = "--bos", .kind = WORD, .at = FIELD(bos)},
    {.name = "--eos", .kind = WORD, .at = FIELD(eos)},
    {.name = "--bin", .kind = BIN},
    {.name = "--out", .kind = WORD, .at = FIELD(out)},
    {.name = "--json", .at = FIELD(json)},
    {.name = "--decode", .at = offsetof(parse, decode), .mode = true},
    {.name = "--count", .at = offsetof(parse, count), .mode = true},
    {.name = "--info", .at = offsetof(parse, info), .mode = true},
    {.name = "--train", .at = offsetof(parse, train), .mode = true},
    {.name = "--format", .kind = FORMAT},
    {.name = "--field", .kind = WORD, .at = FIELD(field)},
    {.name = "--invalid-utf8", .kind = UTF8},
    {.name = "--threads", .kind = NUMBER, .at = FIELD(threads), .least = 1},
    {.name = "--vocab-size", .kind = NUMBER, .at = FIELD(vocab_size), .least = 257},
    {.name = "--pattern", .kind = WORD, .at = FIELD(pattern)},
    {.name = "--special", .kind = SPECIAL},
    {.name = "--min-frequency", .kind = NUMBER, .at = FIELD(min_frequency), .wide = true},
    {.name = "--max-token", .kind = NUMBER, .at = FIELD(max_token), .least = 2},
    {.name = "--max-word", .kind = NUMBER, .at = FIELD(max_word), .least = 1, .wide = true},
    {.name = "--max-length", .kind = NUMBER, .at = FIELD(max_length), .least = 1},
    {.name = "--overwrite", .at = FIELD(overwrite)},
};

enum { N_OPTIONS = sizeof options / sizeof *options };

static void fail(parse *p, const char *format, ...) WEFT_PRINTF(2, 3);
static void fail(parse *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    p->status = weft_vfail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, format, args);
    va_end(args);
}

static void set_number(parse *p, const option *which, const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < which->least || value > INT32_MAX) {
        fail(p, "%s %s: a whole number from %lld to %d is wanted", which->name, text, (long long)which->least, INT32_MAX);
        return;
    }
    char *to = (char *)p->o + which->at;
    if (which->wide)
        *(int64_t *)(void *)to = value;
    else
        *(int *)(void *)to = (int)value;
}

static void set_choice(parse *p, const option *which, const char *text)
{
    tokenize_options *o = p->o;
    if (which->kind == BIN) {
        o->bin = !strcmp(text, "uint16") ? 2 : 4;
        o->bin_auto = !strcmp(text, "auto");
        if (o->bin == 4 && !o->bin_auto && strcmp(text, "uint32"))
            fail(p, "--bin %s: it can be uint16, uint32 or auto", text);
        return;
    }
    bool *yes = which->kind == FORMAT ? &o->jsonl : &o->replace;
    const char *first = which->kind == FORMAT ? "text" : "refuse", *second = which->kind == FORMAT ? "jsonl" : "replace";
    *yes = !strcmp(text, second);
    if (!*yes && strcmp(text, first))
        fail(p, "%s %s: it can be %s or %s", which->name, text, first, second);
    if (which->kind == FORMAT)
        o->plain = !*yes;
}

static void set(parse *p, const option *which, const char *text)
{
    if (which->kind == WORD)
        *(const char **)(void *)((char *)p->o + which->at) = text;
    else if (which->kind == NUMBER)
        set_number(p, which, text);
    else if (which->kind == SPECIAL)
        weft_text_print(&p->o->words, "%s ", text);
    else
        set_choice(p, which, text);
}

static const option *find(const char *word, size_t n)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(options[i].name) == n && !strncmp(options[i].name, word, n))
            return &options[i];
    return NULL;
}

static void parse_option(parse *p)
{
    const char *word = p->argv[p->at], *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    const option *which = find(word, n);
    if (!which) {
        fail(p, "unknown option %.60s; weft tokenize --help lists them", word);
        return;
    }
    if (which->kind == FLAG) {
        if (equals)
            fail(p, "%s takes no value", which->name);
        *(bool *)((which->mode ? (char *)p : (char *)p->o) + which->at) = true;
        return;
    }
    if (!equals && p->at + 1 == p->argc) {
        fail(p, "%s needs a value", which->name);
        return;
    }
    set(p, which, equals ? equals + 1 : p->argv[++p->at]);
}

/* Cuts the words of --special in place. */
static weft_status split_special(tokenize_options *o, weft_error *err)
{
    if (o->words.out_of_memory)
        return weft_fail_memory(err);
    o->special = weft_alloc_zero(o->words.size / 2 + 2, sizeof *o->special);
    if (!o->special)
        return weft_fail_memory(err);
    for (char *at = o->words.data; at && *at;) {
        size_t n = strcspn(at, " \t\n");
        if (n)
            o->special[o->n_special++] = at;
        char end = at[n];
        at[n] = 0;
        at += n + (end != 0);
    }
    return WEFT_OK;
}

static void check(parse *p)
{
    tokenize_options *o = p->o;
    bool ids = o->mode == TOKENIZE_ENCODE;
    if (p->train + p->decode + p->count + p->info > 1)
        fail(p, "--train, --decode, --count and --info do different things; give one");
    if (!o->tokenizer && !p->train)
        fail(p, "--tokenizer FILE is missing: a tokenizer.json, a folder that holds one, or a rank file (make one with --train)");
    if (o->tokenizer && p->train)
        fail(p, "--train makes a tokenizer and takes none: leave out --tokenizer");
    if (p->train && !o->vocab_size)
        fail(p, "--train needs --vocab-size N, such as 8192");
    if (p->train && !o->out)
        fail(p, "--train needs --out FOLDER, where tokenizer.json and tokenizer_config.json are written");
    if (!p->train && (o->vocab_size || o->max_token || o->max_length || o->overwrite))
        fail(p, "--vocab-size, --max-token, --max-length and --overwrite belong to --train");
    if (o->bin && !ids && !p->decode)
        fail(p, "--bin is for text to ids, and for --decode");
    if (o->bin && ids && !o->out)
        fail(p, "--bin needs --out FILE");
    if (o->bin && o->json)
        fail(p, "--bin and --json are two formats; give one");
    if (o->out && (o->mode == TOKENIZE_COUNT || o->mode == TOKENIZE_INFO))
        fail(p, "--count and --info print to standard output: leave out --out");
    if (p->info && o->n_files)
        fail(p, "--info reads no text: leave out %s", o->files[0]);
    if ((o->bos || o->eos) && !ids && !p->train)
        fail(p, "--bos and --eos are for text to ids, and for --train");
}

weft_status tokenize_options_parse(tokenize_options *o, int threads, int argc, char **argv, weft_error *err)
{
    parse p = {.o = o, .argc = argc, .argv = argv, .err = err};
    *o = (tokenize_options){.threads = threads, .field = "text", .min_frequency = 2, .max_word = 1024};
    o->files = weft_alloc_zero((size_t)argc + 1, sizeof *o->files);
    if (!o->files)
        return weft_fail_memory(err);
    bool only_files = false;
    for (p.at = 1; p.at < argc; p.at++) {
        const char *word = argv[p.at];
        if (only_files || word[0] != '-' || !word[1])
            o->files[o->n_files++] = word;
        else if (!strcmp(word, "--"))
            only_files = true;
        else
            parse_option(&p);
    }
    o->mode = p.train ? TOKENIZE_TRAIN : p.decode ? TOKENIZE_DECODE : p.count ? TOKENIZE_COUNT : p.info ? TOKENIZE_INFO : TOKENIZE_ENCODE;
    check(&p);
    return p.status ? p.status : split_special(o, err);
}

void tokenize_options_release(tokenize_options *o)
{
    weft_free(o->files);
    weft_free(o->special);
    weft_text_release(&o->words);
    *o = (tokenize_options){0};
}
