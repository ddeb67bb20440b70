/* SPDX-License-Identifier: Apache-2.0 */
/* What weft uses of NCCL, said here: the plugin needs no header to be built and no library to be
 * loaded. test/api_matches.c compares it with NCCL's header where there is one. */
#ifndef WEFT_PLUGINS_NCCL_API_H
#define WEFT_PLUGINS_NCCL_API_H

#include <weft/weft.h>

typedef struct nccl_comm *nccl_comm_t;
typedef struct nccl_id {
    char bytes[128];
} nccl_id;

/* ncclResult_t */
enum {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7
};
/* Nothing has failed: it is done, or under way, as all is in a group that has not ended. */
static inline bool nccl_is_well(int result)
{
    return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS;
}
/* ncclDataType_t; what is only sent goes as bytes */
enum { NCCL_BYTES = 1, NCCL_F32 = 7, NCCL_F64 = 8, NCCL_BF16 = 9 };
/* ncclRedOp_t */
enum { NCCL_SUM = 0 };
/* of a window */
enum { NCCL_SYMMETRIC = 1 };
/* 2.22: in a group all aborts begin before any waits for its kernels. */
enum { NCCL_OLDEST = 22200 };
enum { NCCL_NO_COLOR = -1, NCCL_UNSET = INT32_MIN };

/* ncclConfig_t as of 2.18. Its size says which it is: later ones have more fields behind. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
} nccl_config;
#define NCCL_CONFIG_NON_BLOCKING                                                                   \
    {                                                                                              \
        sizeof(nccl_config), 0xcafebeef, 21805, 0, NCCL_UNSET, NCCL_UNSET, NCCL_UNSET, NULL,       \
            NCCL_UNSET                                                                             \
    }

/* A stream is a CUstream. All return an ncclResult_t but those that return text. */
typedef struct nccl_api {
    int (*ncclGetVersion)(int *version);
    const char *(*ncclGetErrorString)(int result);
    const char *(*ncclGetLastError)(nccl_comm_t comm);
    int (*ncclGetUniqueId)(nccl_id *id);
    int (*ncclCommInitRankConfig)(nccl_comm_t *comm, int n, nccl_id id, int rank,
                                  nccl_config *config);
    int (*ncclCommSplit)(nccl_comm_t comm, int color, int key, nccl_comm_t *out,
                         nccl_config *config);
    int (*ncclCommGetAsyncError)(nccl_comm_t comm, int *result);
    int (*ncclCommFinalize)(nccl_comm_t comm);
    int (*ncclCommDestroy)(nccl_comm_t comm);
    int (*ncclCommAbort)(nccl_comm_t comm);
    int (*ncclGroupStart)(void);
    int (*ncclGroupEnd)(void);
    int (*ncclAllGather)(const void *send, void *recv, size_t count, int type, nccl_comm_t comm,
                         void *stream);
    int (*ncclReduceScatter)(const void *send, void *recv, size_t count, int type, int op,
                             nccl_comm_t comm, void *stream);
    int (*ncclAllReduce)(const void *send, void *recv, size_t count, int type, int op,
                         nccl_comm_t comm, void *stream);
    int (*ncclBroadcast)(const void *send, void *recv, size_t count, int type, int root,
                         nccl_comm_t comm, void *stream);
    int (*ncclSend)(const void *data, size_t count, int type, int to, nccl_comm_t comm,
                    void *stream);
    int (*ncclRecv)(void *data, size_t count, int type, int from, nccl_comm_t comm, void *stream);
    int (*ncclCommRegister)(nccl_comm_t comm, void *memory, size_t bytes, void **handle);
    int (*ncclCommDeregister)(nccl_comm_t comm, void *handle);
    /* since 2.27; NULL before */
    int (*ncclCommWindowRegister)(nccl_comm_t comm, void *memory, size_t bytes, void **window,
                                  int flags);
    int (*ncclCommWindowDeregister)(nccl_comm_t comm, void *window);
} nccl_api;

/* Opens the library (a name or a path) and fills the table. What is missing is an input error that
 * says what was looked for and where. */
weft_status nccl_api_open(nccl_api *api, const char *library, weft_error *err);

#endif
