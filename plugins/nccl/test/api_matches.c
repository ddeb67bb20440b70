/* SPDX-License-Identifier: Apache-2.0 */
/* What api.h says of NCCL against NCCL's own header: compiles only if they agree. */
#include "api.h"

#include <nccl.h>
#include <stddef.h>

_Static_assert((int)NCCL_SUCCESS == (int)ncclSuccess, "success");
_Static_assert((int)NCCL_SYSTEM_ERROR == (int)ncclSystemError, "system error");
_Static_assert((int)NCCL_INTERNAL_ERROR == (int)ncclInternalError, "internal error");
_Static_assert((int)NCCL_INVALID_USAGE == (int)ncclInvalidUsage, "invalid usage");
_Static_assert((int)NCCL_REMOTE_ERROR == (int)ncclRemoteError, "remote error");
_Static_assert((int)NCCL_IN_PROGRESS == (int)ncclInProgress, "in progress");
_Static_assert((int)NCCL_BYTES == (int)ncclUint8, "bytes");
_Static_assert((int)NCCL_F32 == (int)ncclFloat32, "f32");
_Static_assert((int)NCCL_F64 == (int)ncclFloat64, "f64");
_Static_assert((int)NCCL_BF16 == (int)ncclBfloat16, "bf16");
_Static_assert((int)NCCL_SUM == (int)ncclSum, "sum");
_Static_assert(NCCL_NO_COLOR == NCCL_SPLIT_NOCOLOR, "no colour");
_Static_assert(NCCL_UNSET == NCCL_CONFIG_UNDEF_INT, "unset");
_Static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId), "identifiers");
/* fields that nccl_config has lie where NCCL's lie; newer ones follow */
_Static_assert(offsetof(nccl_config, blocking) == offsetof(ncclConfig_t, blocking), "blocking");
_Static_assert(offsetof(nccl_config, min_ctas) == offsetof(ncclConfig_t, minCTAs), "min_ctas");
_Static_assert(offsetof(nccl_config, max_ctas) == offsetof(ncclConfig_t, maxCTAs), "max_ctas");
_Static_assert(offsetof(nccl_config, net_name) == offsetof(ncclConfig_t, netName), "net_name");
_Static_assert(offsetof(nccl_config, split_share) == offsetof(ncclConfig_t, splitShare), "share");
_Static_assert(sizeof(nccl_config) <= sizeof(ncclConfig_t), "size");

/* Same numbers of arguments, of the same sizes. */
typedef ncclResult_t (*reduction)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                  ncclComm_t, cudaStream_t);
typedef ncclResult_t (*copy)(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                             cudaStream_t);
extern reduction all_reduce, reduce_scatter;
reduction all_reduce = ncclAllReduce, reduce_scatter = ncclReduceScatter;
extern copy all_gather;
copy all_gather = ncclAllGather;
extern ncclResult_t (*broadcast)(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                                 cudaStream_t);
ncclResult_t (*broadcast)(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                          cudaStream_t) = ncclBroadcast;
extern ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t,
                     cudaStream_t) = ncclSend;
extern ncclResult_t (*split)(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
ncclResult_t (*split)(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *) = ncclCommSplit;
extern ncclResult_t (*create)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
ncclResult_t (*create)(ncclComm_t *, int, ncclUniqueId, int,
                       ncclConfig_t *) = ncclCommInitRankConfig;
extern ncclResult_t (*announce)(ncclComm_t, void *, size_t, void **);
ncclResult_t (*announce)(ncclComm_t, void *, size_t, void **) = ncclCommRegister;
extern ncclResult_t (*withdraw)(ncclComm_t, void *);
ncclResult_t (*withdraw)(ncclComm_t, void *) = ncclCommDeregister;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
_Static_assert((int)NCCL_SYMMETRIC == (int)NCCL_WIN_COLL_SYMMETRIC, "symmetric");
_Static_assert(sizeof(ncclWindow_t) == sizeof(void *), "windows");
extern ncclResult_t (*open_window)(ncclComm_t, void *, size_t, ncclWindow_t *, int);
ncclResult_t (*open_window)(ncclComm_t, void *, size_t, ncclWindow_t *,
                            int) = ncclCommWindowRegister;
extern ncclResult_t (*close_window)(ncclComm_t, ncclWindow_t);
ncclResult_t (*close_window)(ncclComm_t, ncclWindow_t) = ncclCommWindowDeregister;
#endif
