/* SPDX-License-Identifier: Apache-2.0 */
/* The words behind `weft tokenize`. */
#include "command.h"

#include <string.h>

const char tokenize_usage[] =
    "usage: weft tokenize --tokenizer FILE [FILE...]                  text to ids\n"
    "       weft tokenize --tokenizer FILE --decode [FILE...]         ids to text\n"
    "       weft tokenize --tokenizer FILE --count [FILE...]          how many tokens\n"
    "       weft tokenize --tokenizer FILE --info                     what the tokenizer is\n"
    "       weft tokenize --train --vocab-size N --out FOLDER FILE... make a tokenizer\n"
    "\n"
    "FILE is text, JSON Lines (*.jsonl), either packed with gzip or zstd, or a folder of such "
    "files; without one, standard input is read. A text "
    "file\n"
    "is a document, and so is each line of JSON Lines. Ids are those of Hugging Face's "
    "encode(text, add_special_tokens=False).\n"
    "\n"
    "  --tokenizer FILE     tokenizer.json, a folder that holds one, or a rank file (*.tiktoken; "
    "see --pattern and --special)\n"
    "  --no-special         special tokens in the text are text like any other\n"
    "  --bos TOKEN          put this token before each document (training: name it in "
    "tokenizer_config.json)\n"
    "  --eos TOKEN          put this token after each document (training: likewise)\n"
    "  --bin TYPE           write ids as uint16, uint32 or auto (uint16 if they fit) instead of "
    "text; needs --out. With --decode, read such a file\n"
    "  --out FILE           write there instead of to standard output; the file appears when it is "
    "complete\n"
    "  --json               write JSON: an array of ids a document, or an object for --count and "
    "--info\n"
    "  --decode             read ids, a document a line (as numbers or as a JSON array), and write "
    "their text\n"
    "  --count              print documents, tokens, bytes and bytes per token of each file\n"
    "  --info               print the size of the vocabulary, the special tokens and the "
    "components\n"
    "  --format TYPE        text or jsonl, whatever the names of the files\n"
    "  --field NAME         the field of a JSON line that holds the text (text)\n"
    "  --invalid-utf8 WHAT  refuse what is not UTF-8, or replace each wrong part by U+FFFD "
    "(refuse)\n"
    "  --threads N          how many threads work (all processors); results do not depend on it\n"
    "\n"
    "training, and rank files:\n"
    "  --train              learn a byte-level BPE vocabulary; writes tokenizer.json and "
    "tokenizer_config.json, which Hugging Face loads, to --out\n"
    "  --vocab-size N       ids in all: special tokens, 256 bytes, and one for each merge\n"
    "  --pattern NAME       how words are cut: gpt2, llama3, qwen2, o200k, or a regular expression "
    "(training: llama3)\n"
    "  --special TOKENS     special tokens, separated by blanks; may be repeated (training: "
    "<|endoftext|>, and it is BOS and EOS unless these are\n"
    "                       given). For a rank file NAME=ID gives the id, else they follow the "
    "last rank\n"
    "  --min-frequency N    merge no pair that is rarer (2)\n"
    "  --max-token N        the longest token in bytes (any)\n"
    "  --max-word N         leave out words longer than this many bytes (1024)\n"
    "  --max-length N       name this model_max_length in tokenizer_config.json\n"
    "  --overwrite          write over a tokenizer that is there\n"
    "\n"
    "examples:\n"
    "  weft tokenize --train --vocab-size 8192 --out tok books/\n"
    "  echo 'Hello, world' | weft tokenize --tokenizer tok\n"
    "  weft tokenize --tokenizer tok --eos '<|endoftext|>' --bin auto --out train.bin books/ "
    "more.jsonl.zst\n";

/* What the words say, before it is known whether they go together. */
typedef struct parse {
    tokenize_options *o;
    weft_status status;
    weft_error *err;
    bool train, decode, count, info;
    const char *bin, *format, *utf8;
    int64_t threads, vocab_size, max_token, max_length;
    weft_option_values special;
} parse;

static void fail(parse *p, const char *format, ...) WEFT_PRINTF(2, 3);
static void fail(parse *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    p->status = weft_vfail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, format, args);
    va_end(args);
}

static void parse_words(parse *p, int argc, char **argv)
{
    static const char *const widths[] = {"uint16", "uint32", "auto", NULL},
                             *const formats[] = {"text", "jsonl", NULL},
                             *const invalid[] = {"refuse", "replace", NULL};
    tokenize_options *o = p->o;
    const weft_option list[] = {
        {.name = "tokenizer", .text = &o->tokenizer},
        {.name = "no-special", .flag = &o->no_special},
        {.name = "bos", .text = &o->bos},
        {.name = "eos", .text = &o->eos},
        {.name = "bin", .text = &p->bin, .choices = widths},
        {.name = "out", .text = &o->out},
        {.name = "json", .flag = &o->json},
        {.name = "decode", .flag = &p->decode},
        {.name = "count", .flag = &p->count},
        {.name = "info", .flag = &p->info},
        {.name = "train", .flag = &p->train},
        {.name = "format", .text = &p->format, .choices = formats},
        {.name = "field", .text = &o->field},
        {.name = "invalid-utf8", .text = &p->utf8, .choices = invalid},
        {.name = "threads", .number = &p->threads, .min = 1, .max = INT32_MAX},
        {.name = "vocab-size", .number = &p->vocab_size, .min = 257, .max = INT32_MAX},
        {.name = "pattern", .text = &o->pattern},
        {.name = "special", .values = &p->special},
        {.name = "min-frequency", .number = &o->min_frequency, .max = INT32_MAX},
        {.name = "max-token", .number = &p->max_token, .min = 2, .max = INT32_MAX},
        {.name = "max-word", .number = &o->max_word, .min = 1, .max = INT32_MAX},
        {.name = "max-length", .number = &p->max_length, .min = 1, .max = INT32_MAX},
        {.name = "overwrite", .flag = &o->overwrite},
        {.name = NULL},
    };
    const weft_options options = {.command = "tokenize",
                                  .list = list,
                                  .arguments = o->files,
                                  .max_arguments = -1,
                                  .n_arguments = &o->n_files};
    p->status = weft_options_parse(&options, argc, argv, p->err);
}

static void set_options(parse *p)
{
    tokenize_options *o = p->o;
    if (p->bin) {
        o->bin = strcmp(p->bin, "uint16") == 0 ? 2 : 4;
        o->bin_auto = strcmp(p->bin, "auto") == 0;
    }
    o->jsonl = p->format && strcmp(p->format, "jsonl") == 0;
    o->plain = p->format && !o->jsonl;
    o->replace = p->utf8 && strcmp(p->utf8, "replace") == 0;
    o->threads = (int)p->threads;
    o->vocab_size = (int)p->vocab_size;
    o->max_token = (int)p->max_token;
    o->max_length = (int)p->max_length;
    o->mode = p->train    ? TOKENIZE_TRAIN
              : p->decode ? TOKENIZE_DECODE
              : p->count  ? TOKENIZE_COUNT
              : p->info   ? TOKENIZE_INFO
                          : TOKENIZE_ENCODE;
    for (int i = 0; i < p->special.n; i++)
        weft_text_print(&o->words, "%s ", p->special.list[i].text);
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
        fail(p, "--tokenizer FILE is missing: a tokenizer.json, a folder that holds one, or a rank "
                "file (make one with --train)");
    if (o->tokenizer && p->train)
        fail(p, "--train makes a tokenizer and takes none: leave out --tokenizer");
    if (p->train && !o->vocab_size && !p->status) /* else that may be what is wrong */
        fail(p, "--train needs --vocab-size N, such as 8192");
    if (p->train && !o->out)
        fail(p, "--train needs --out FOLDER, where tokenizer.json and tokenizer_config.json are "
                "written");
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

weft_status tokenize_options_parse(tokenize_options *o, int threads, int argc, char **argv,
                                   weft_error *err)
{
    parse p = {.o = o, .err = err, .threads = threads};
    *o = (tokenize_options){.field = "text", .min_frequency = 2, .max_word = 1024};
    o->files = weft_alloc_zero((size_t)argc + 1, sizeof *o->files);
    if (!o->files)
        return weft_fail_memory(err);
    parse_words(&p, argc, argv);
    set_options(&p);
    weft_option_values_release(&p.special);
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
