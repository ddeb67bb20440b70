/* SPDX-License-Identifier: Apache-2.0 */
/* The first time that a file of tokens is used: its hash, whether every id is in the vocabulary,
 * and where its documents begin. */
#include "build.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { SCAN_BYTES = 1 << 20, WINDOW_BYTES = 1 << 13 };

static const text_bin *find_bin(const text_build *build, const text_file *file)
{
    const text_bins *bins = &build->source->bins;
    for (size_t i = 0; i < bins->n; i++)
        if (bins->list[i].path == file->path || bins->list[i].index == file->path)
            return &bins->list[i];
    return NULL;
}

static weft_status put_document(text_build *build, int64_t at, weft_error *err)
{
    build->n_documents++;
    return text_writer_put(build->offsets, (uint64_t)at, err);
}

/* The id that parts documents, and whether it is their first or their last. -1: none, each file is
 * one. */
static int parting_id(const text_build *build, const text_bin *bin, bool *begins)
{
    const text_tokenizer *t = build->text->tokenizer;
    *begins = (bin->begins && t->bos >= 0) || t->eos < 0;
    if (bin->index)
        return -1;
    return *begins ? t->bos : t->eos;
}

static weft_status scan_ids(text_build *build, const text_bin *bin, const unsigned char *raw,
                            size_t n, weft_error *err)
{
    bool begins;
    int parting = parting_id(build, bin, &begins);
    uint32_t vocab = (uint32_t)build->text->tokenizer->vocab_size;
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < n; i++) {
        const unsigned char *s = raw + i * bin->width;
        uint32_t id = (uint32_t)s[0] | (uint32_t)s[1] << 8;
        if (bin->width == 4)
            id |= (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
        int64_t at = build->n_tokens + (int64_t)i;
        if (id >= vocab)
            return weft_fail(
                err, WEFT_ERR_INPUT, (weft_where){bin->path, 0},
                "token %lld is id %u, but the vocabulary of tokenizer %s has ids 0 to %u; choose "
                "the tokenizer that made the file%s",
                (long long)(at - bin->first), id, build->text->tokenizer->name, vocab - 1,
                bin->data_at || bin->index ? ""
                                           : ", or the width of its tokens with [text] bin_dtype");
        bool is = parting >= 0 && id == (uint32_t)parting;
        bool start = at == 0 || (parting < 0 ? at == bin->first : begins ? is : build->content);
        if (start && !bin->index)
            status = put_document(build, at, err);
        build->content = is; /* the id before the next one ended a document */
    }
    return status;
}

weft_status text_read_bin(text_build *build, const text_file *file, weft_error *err)
{
    const text_bin *bin = find_bin(build, file);
    size_t n = 0;
    unsigned char *raw = weft_alloc(SCAN_BYTES);
    weft_status status = raw && bin ? WEFT_OK : weft_fail_memory(err);
    if (!status && bin->data_at)
        status = text_input_fill(build->in, (char *)raw, (size_t)bin->data_at, &n, err);
    for (bool end = false; !status && !end;) {
        status = text_input_fill(build->in, (char *)raw, SCAN_BYTES, &n, err);
        if (status)
            break;
        end = n < SCAN_BYTES;
        status = scan_ids(build, bin, raw, n / bin->width, err);
        build->n_tokens += (int64_t)(n / bin->width);
        text_progress_update(&build->progress, build->n_bytes + text_input_bytes(build->in));
    }
    if (!status && build->n_tokens != bin->first + bin->n_tokens)
        status =
            weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s changed while it was read; start again when it is complete", file->path);
    weft_free(raw);
    return status;
}

/* ---- Megatron's index: int32 size[sequences], int64 pointer[sequences], int64
 * document[documents], behind 34 bytes ---- */

/* Numbers in a row of a file. */
typedef struct window {
    int fd;
    const char *path;
    int64_t at, left; /* the next number's place; how many are left */
    size_t width, n, used;
    unsigned char bytes[WINDOW_BYTES];
} window;

static weft_status next_number(window *w, int64_t *x, weft_error *err)
{
    if (w->used == w->n) {
        int64_t want = w->left * (int64_t)w->width;
        size_t room = want < WINDOW_BYTES ? (size_t)want : WINDOW_BYTES;
        for (w->used = w->n = 0; w->n < room;) {
            ssize_t got = pread(w->fd, w->bytes + w->n, room - w->n, w->at + (int64_t)w->n);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return text_fail_errno(err, WEFT_ERR_IO, "read", w->path);
            if (got == 0)
                return weft_fail(err, WEFT_ERR_INPUT, (weft_where){w->path, 0},
                                 "the index ends too early; is the file complete?");
            w->n += (size_t)got;
        }
        w->at += (int64_t)w->n;
    }
    uint64_t bits = 0;
    for (size_t i = w->width; i-- > 0;)
        bits = bits << 8 | w->bytes[w->used + i];
    *x = w->width == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    w->used += w->width;
    w->left--;
    return WEFT_OK;
}

static weft_status fail_index(const char *path, weft_error *err, const char *what, int64_t number)
{
    return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                     "%s (number %lld); make the index again", what, (long long)number);
}

/* Goes to where sequence `to` begins; *tokens: in the sequences before it. */
static weft_status skip_sequences(window *sizes, window *pointers, const text_bin *bin,
                                  int64_t *from, int64_t to, int64_t *tokens, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (; !status && *from < to; ++*from) {
        int64_t size = 0, pointer = 0;
        status = next_number(sizes, &size, err);
        if (!status)
            status = next_number(pointers, &pointer, err);
        if (!status && (size < 0 || size > bin->n_tokens - *tokens))
            status =
                fail_index(bin->index, err, "a sequence reaches over the end of the tokens", *from);
        else if (!status && pointer != *tokens * (int64_t)bin->width)
            status = fail_index(bin->index, err,
                                "a sequence does not begin where the one before it ends", *from);
        *tokens += status ? 0 : size;
    }
    return status;
}

static weft_status scan_index(text_build *build, const text_bin *bin, const unsigned char *head,
                              weft_error *err)
{
    int64_t sequences, documents, bytes = text_input_bytes(build->in);
    uint64_t numbers[2];
    memcpy(numbers, head + 18, sizeof numbers);
    sequences = (int64_t)le64toh(numbers[0]);
    documents = (int64_t)le64toh(numbers[1]);
    if (sequences < 0 || documents < 1 || sequences > bytes / 12 || documents > bytes / 8 ||
        34 + 12 * sequences + 8 * documents > bytes)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->index, 0},
                         "%lld sequences and %lld documents do not fit into %lld bytes",
                         (long long)sequences, (long long)documents, (long long)bytes);
    window *w = weft_alloc_zero(3, sizeof *w);
    if (!w)
        return weft_fail_memory(err);
    const int64_t places[] = {34, 34 + 4 * sequences, 34 + 12 * sequences},
                  counts[] = {sequences, sequences, documents};
    for (int i = 0; i < 3; i++) {
        w[i].fd = text_input_fd(build->in);
        w[i].path = bin->index;
        w[i].at = places[i];
        w[i].left = counts[i];
        w[i].width = i ? 8 : 4;
    }
    weft_status status = WEFT_OK;
    int64_t sequence = 0, tokens = 0, last = -1;
    for (int64_t d = 0; !status && d < documents; d++) {
        int64_t to = 0;
        status = next_number(&w[2], &to, err);
        if (!status && (to < sequence || to > sequences || (d == 0 && to != 0)))
            status =
                fail_index(bin->index, err, "a document begins at a sequence that cannot be", d);
        if (!status)
            status = skip_sequences(&w[0], &w[1], bin, &sequence, to, &tokens, err);
        if (!status && tokens > last && tokens < bin->n_tokens) {
            status = put_document(build, bin->first + tokens, err);
            last = tokens;
        }
    }
    if (!status)
        status = skip_sequences(&w[0], &w[1], bin, &sequence, sequences, &tokens, err);
    if (!status && tokens != bin->n_tokens)
        status = weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->index, 0},
                           "its sequences have %lld tokens, %s has %lld", (long long)tokens,
                           bin->path, (long long)bin->n_tokens);
    weft_free(w);
    return status;
}

weft_status text_read_index(text_build *build, const text_file *file, weft_error *err)
{
    const text_bin *bin = find_bin(build, file);
    unsigned char head[34] = {0};
    char *rest = weft_alloc(SCAN_BYTES);
    size_t n = 0;
    weft_status status = rest && bin ? WEFT_OK : weft_fail_memory(err);
    if (!status)
        status = text_input_fill(build->in, (char *)head, sizeof head, &n, err);
    for (n = 1; !status && n > 0;) /* for its hash */
        status = text_input_read(build->in, rest, SCAN_BYTES, &n, err);
    weft_free(rest);
    return status ? status : scan_index(build, bin, head, err);
}
