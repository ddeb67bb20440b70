/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever bytes a data file holds, opening it ends with tokens in the vocabulary or with an error
 * that names the file. The corpus is replayed, each file as it is and with random changes:
 * fuzz_text [changes a file [seed]] FILE... A file's first byte says what it is.
 *
 * With -DWEFT_LIBFUZZER it is a target for libFuzzer. */
#include "text_run.h"

#include <dirent.h>

enum { KINDS = 8, MAX_BYTES = 1 << 16, SEQ = 5 };

/* What the first byte stands for: the INI, and the file that the other bytes go to. */
static const struct {
    const char *ini, *file;
} kinds[KINDS] = {
    {"path = a.jsonl\non_bad = skip", "a.jsonl"},
    {"path = a.jsonl\ninvalid_utf8 = replace\non_bad = skip\nreset = attention positions",
     "a.jsonl"},
    {"path = a.txt\non_bad = skip", "a.txt"},
    {"path = a.txt\ninvalid_utf8 = replace", "a.txt"},
    {"path = a.bin\nreset = attention", "a.bin"},
    {"path = a.bin\nbin_dtype = uint32", "a.bin"},
    {"path = b.bin\nreset = positions", "b.idx"},
    {"path = a.jsonl\nfield = a", "a.jsonl"},
};

static void check_sample(run *r, weft_split split, int64_t i)
{
    int32_t space[4][SEQ];
    weft_sample out = {
        .ids = space[0], .labels = space[1], .positions = space[2], .segments = space[3]};
    if (r->data->sample(r->text, split, i, &out, &r->err))
        abort();
    for (int j = 0; j < SEQ; j++)
        if (out.ids[j] < 0 || out.ids[j] > 257 || out.labels[j] < -1 || out.labels[j] > 257 ||
            out.positions[j] < 0 || out.positions[j] >= SEQ || out.segments[j] < -1 ||
            out.segments[j] >= SEQ)
            abort();
}

static void check_samples(run *r)
{
    if (r->data->begin(r->text, SEQ, 1, &r->err))
        return;
    for (int64_t i = 0; i < 20; i++)
        check_sample(r, WEFT_SPLIT_TRAIN, i);
    for (int64_t i = 0; i <= r->data->samples(r->text, WEFT_SPLIT_VALIDATION) && i < 20; i++)
        check_sample(r, WEFT_SPLIT_VALIDATION, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1)
        return 0;
    unsigned kind = data[0] % KINDS;
    put_bytes(kinds[kind].file, data + 1, n - 1);
    run r;
    if (run_create(&r, kinds[kind].ini))
        abort();
    r.host.threads = 1 + data[0] / KINDS % 2 * 2;
    weft_status status = text_LTX_plugin.open(r.text, &r.err);
    if (!status)
        check_samples(&r);
    else if (status != WEFT_ERR_INPUT || !*weft_error_text(&r.err))
        abort();
    run_end(&r);
    if (nftw("cache", remove_entry, 16, FTW_DEPTH | FTW_PHYS))
        return 0; /* it was refused before the folder was made */
    return 0;
}

static void enter(void)
{
    static char
        memory[] = "/dev/shm/weft-fuzz-XXXXXX",
        disk[] = "/tmp/weft-fuzz-XXXXXX"; /* token files are synced, which takes time on a disk */
    unsigned char tokens[36];
    for (int i = 0; i < 36; i++)
        tokens[i] = i % 2 ? 0 : (unsigned char)(i + 1);
    const char *folder = mkdtemp(memory) ? memory : mkdtemp(disk);
    if (!folder || chdir(folder))
        abort();
    put_bytes("b.bin", tokens, sizeof tokens);
}

#ifdef WEFT_LIBFUZZER
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    enter();
    return 0;
}
#else

static uint64_t state_of_noise;

static uint32_t noise(uint32_t n)
{
    return (uint32_t)(weft_random_bits(1, 2, state_of_noise++) % n);
}

/* A few random edits: bytes, bits, cuts, repeats, numbers that matter. */
static size_t change(uint8_t *data, size_t n, size_t room)
{
    static const uint32_t numbers[] = {0,          1,          0x7f,       0x80,     0xff,
                                       0x7fffffff, 0x80000000, 0xffffffff, 20240520, 20240801};
    for (uint32_t edits = 1 + noise(6); edits > 0 && n > 1; edits--) {
        size_t at = 1 + noise((uint32_t)n - 1), length = 1 + noise(8);
        length = at + length > n ? n - at : length;
        switch (noise(6)) {
        case 0:
            data[at] = (uint8_t)noise(256);
            break;
        case 1:
            data[at] ^= (uint8_t)(1u << noise(8));
            break;
        case 2:
            memmove(data + at, data + at + length, n - at - length);
            n -= length;
            break;
        case 3:
            if (n + length <= room) {
                memmove(data + at + length, data + at, n - at);
                n += length;
            }
            break;
        case 4:
            if (n - at >= 4)
                memcpy(data + at, &numbers[noise(sizeof numbers / sizeof *numbers)], 4);
            break;
        default:
            n = noise(8) ? n : at;
        }
    }
    return n;
}

static int replay(const char *path, unsigned changes)
{
    static uint8_t original[MAX_BYTES], data[MAX_BYTES];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(original, 1, MAX_BYTES / 2, f) : 0;
    if (!f || fclose(f)) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    LLVMFuzzerTestOneInput(original, n);
    for (unsigned i = 0; i < changes; i++) {
        memcpy(data, original, n);
        LLVMFuzzerTestOneInput(data, change(data, n, MAX_BYTES));
    }
    return 0;
}

/* Without arguments: the corpus, each file with some changes, as TAP. */
int main(int argc, char **argv)
{
    const char *tree = getenv("WEFT_TREE");
    char home[4096], pattern[5000];
    if (!getcwd(home, sizeof home))
        return 1;
    snprintf(pattern, sizeof pattern, "%s%s%s/plugins/text/test/corpus",
             tree && *tree == '/' ? "" : home, tree && *tree == '/' ? "" : "/", tree ? tree : ".");
    unsigned changes = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    state_of_noise = argc > 2 ? strtoull(argv[2], NULL, 10) << 40 : 0;
    struct dirent **names;
    int n = scandir(argc > 3 ? argv[3] : pattern, &names, NULL, alphasort), bad = 0, number = 0;
    if (n < 0) {
        fprintf(stderr, "no corpus in %s\n", pattern);
        return 1;
    }
    enter();
    const char *seconds = getenv("WEFT_FUZZ_SECONDS"); /* then as often as fits into them */
    double end = weft_now() + (seconds ? strtod(seconds, NULL) : 0);
    for (bool again = false; !again || weft_now() < end; again = true)
        for (int i = 0; i < n; i++) {
            char path[6000];
            snprintf(path, sizeof path, "%s/%s", argc > 3 ? argv[3] : pattern, names[i]->d_name);
            if (names[i]->d_name[0] != '.') {
                int rc = replay(path, changes);
                bad |= rc;
                if (!again)
                    printf("%s %d - %s\n", rc ? "not ok" : "ok", ++number, names[i]->d_name);
            }
        }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    printf("1..%d\n", number);
    char folder[4096];
    if (getcwd(folder, sizeof folder) && !chdir("/"))
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return bad || !number;
}
#endif
