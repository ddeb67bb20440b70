/* SPDX-License-Identifier: Apache-2.0 */
/* Detached signatures of locks in minisign's format, by libsodium: Ed25519 over the file's BLAKE2b
 * hash, and over that signature with the comment beside it. */
#include "vet/vetted.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

enum { ALGORITHM = 2, ID = 8, MOST_BYTES = 4096 };

typedef struct public_key {
    unsigned char id[ID], key[crypto_sign_PUBLICKEYBYTES];
} public_key;

typedef struct signature {
    unsigned char id[ID], of_file[crypto_sign_BYTES], of_all[crypto_sign_BYTES];
    const char *comment;
    size_t comment_size;
} signature;

/* The next line, without its end; *size 0 past the last. */
static const char *take_line(const char **p, size_t *size)
{
    const char *line = *p;
    *size = strcspn(line, "\n");
    *p = line + *size + (line[*size] == '\n');
    *size -= *size > 0 && line[*size - 1] == '\r';
    return line;
}

/* A line of base64 that holds exactly so many bytes. */
static bool take_bytes(const char **p, unsigned char *out, size_t n)
{
    size_t size, got;
    const char *line = take_line(p, &size), *end;
    return sodium_base642bin(out, n, line, size, NULL, &got, &end,
                             sodium_base64_VARIANT_ORIGINAL) == 0 &&
           got == n && end == line + size;
}

static bool take_comment(const char **p, const char *label, const char **text, size_t *size)
{
    const char *line = take_line(p, size);
    size_t n = strlen(label);
    if (*size < n || strncmp(line, label, n) != 0)
        return false;
    *text = line + n;
    *size -= n;
    return true;
}

static bool parse_key(const char *text, public_key *out)
{
    unsigned char bytes[ALGORITHM + sizeof *out];
    const char *comment;
    size_t size;
    if (!take_comment(&text, "untrusted comment:", &comment, &size) ||
        !take_bytes(&text, bytes, sizeof bytes) || memcmp(bytes, "Ed", ALGORITHM) != 0)
        return false;
    memcpy(out->id, bytes + ALGORITHM, ID);
    memcpy(out->key, bytes + ALGORITHM + ID, sizeof out->key);
    return true;
}

/* "ED": over the hash, as minisign has made them since 0.10. */
static bool parse_signature(const char *text, signature *out)
{
    unsigned char bytes[ALGORITHM + ID + crypto_sign_BYTES];
    if (!take_comment(&text, "untrusted comment:", &out->comment, &out->comment_size) ||
        !take_bytes(&text, bytes, sizeof bytes) || memcmp(bytes, "ED", ALGORITHM) != 0 ||
        !take_comment(&text, "trusted comment: ", &out->comment, &out->comment_size) ||
        !take_bytes(&text, out->of_all, sizeof out->of_all))
        return false;
    memcpy(out->id, bytes + ALGORITHM, ID);
    memcpy(out->of_file, bytes + ALGORITHM + ID, sizeof out->of_file);
    return true;
}

static bool is_good(const public_key *key, const signature *s, const char *bytes, size_t size)
{
    unsigned char hash[crypto_generichash_BYTES_MAX], all[crypto_sign_BYTES + MOST_BYTES];
    size_t n = s->comment_size;
    if (n > MOST_BYTES ||
        crypto_generichash(hash, sizeof hash, (const unsigned char *)bytes, size, NULL, 0) != 0 ||
        crypto_sign_verify_detached(s->of_file, hash, sizeof hash, key->key) != 0)
        return false;
    memcpy(all, s->of_file, sizeof s->of_file);
    memcpy(all + sizeof s->of_file, s->comment, n);
    return crypto_sign_verify_detached(s->of_all, all, sizeof s->of_file + n, key->key) == 0;
}

static weft_status check(const char *file, const char *key_file, const char *key_text,
                         const char *sig_file, const char *sig_text, const char *bytes, size_t size,
                         weft_where at, weft_error *err)
{
    public_key key;
    signature s;
    if (sodium_init() < 0)
        return weft_fail(err, WEFT_ERR_RUN, at, "libsodium does not start");
    if (!parse_key(key_text, &key))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "'%s' is not a public key of minisign (`minisign -G` makes one)",
                         key_file);
    if (!parse_signature(sig_text, &s))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "'%s' is not a signature of minisign (`minisign -S -m %s` makes one)",
                         sig_file, file);
    if (memcmp(key.id, s.id, ID) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "'%s' was signed with another key than '%s' belongs to", file, key_file);
    if (!is_good(&key, &s, bytes, size))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "'%s' is not the file that was signed in '%s'; put the signed one back, "
                         "or have this one signed",
                         file, sig_file);
    return WEFT_OK;
}

weft_status weft_signature_check(const char *file, const char *bytes, size_t size,
                                 const char *key_file, weft_where at, weft_error *err)
{
    char *key = NULL, *sig = NULL, *sig_file = weft_format("%s.minisig", file);
    size_t n;
    if (!sig_file)
        return weft_fail_memory(err);
    weft_status s = weft_read_file(key_file, &key, &n, err);
    s = s ? s : weft_read_file(sig_file, &sig, &n, err);
    s = s ? s : check(file, key_file, key, sig_file, sig, bytes, size, at, err);
    weft_free(key);
    weft_free(sig);
    weft_free(sig_file);
    return s;
}
