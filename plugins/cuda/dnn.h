/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN: the functions of its C backend in a table, as cuBLASLt's are, and plans of
 * graphs. What weft uses of the library is said here, so that it builds without NVIDIA's header;
 * test/dnn_matches.c compares the two where there is one. */
#ifndef WEFT_CUDA_DNN_H
#define WEFT_CUDA_DNN_H

#include "gpu.h"

/* ---- cudnn_graph.h ---- */

typedef struct cudnn_handle *cudnn_handle_t;
typedef void *cudnn_descriptor_t;

enum { DNN_SUCCESS = 0 };
enum { DNN_FLOAT = 0, DNN_INT32 = 4, DNN_BFLOAT16 = 9, DNN_BOOLEAN = 11 }; /* cudnnDataType_t */

/* cudnnBackendDescriptorType_t */
enum {
    DNN_POINTWISE = 0,
    DNN_ENGINE = 2,
    DNN_ENGINE_CONFIG = 3,
    DNN_HEURISTICS = 4,
    DNN_PLAN = 5,
    DNN_KNOB_CHOICE = 7,
    DNN_POINTWISE_OP = 13,
    DNN_GRAPH = 15,
    DNN_VARIANT_PACK = 16,
    DNN_TENSOR = 17,
    DNN_MATMUL = 18,
    DNN_MATMUL_OP = 19,
    DNN_REDUCTION = 21,
    DNN_REDUCTION_OP = 22,
    DNN_RESHAPE_OP = 31,
    DNN_DEVICE = 38
};

/* cudnnBackendAttributeType_t */
enum {
    DNN_T_HANDLE = 0,
    DNN_T_DATA_TYPE = 1,
    DNN_T_BOOLEAN = 2,
    DNN_T_INT64 = 3,
    DNN_T_POINTER = 6,
    DNN_T_HEURISTIC = 8,
    DNN_T_KNOB = 9,
    DNN_T_POINTWISE_MODE = 14,
    DNN_T_DESCRIPTOR = 15,
    DNN_T_REDUCTION = 18,
    DNN_T_CHAR = 24
};

/* cudnnBackendAttributeName_t */
enum {
    DNN_POINTWISE_MODE = 0,
    DNN_POINTWISE_PRECISION = 1,
    DNN_POINTWISE_AXIS = 9,
    DNN_HEURISTICS_MODE = 200,
    DNN_HEURISTICS_GRAPH = 201,
    DNN_HEURISTICS_RESULTS = 202,
    DNN_HEURISTICS_DEVICE = 204,
    DNN_CONFIG_ENGINE = 300,
    DNN_CONFIG_KNOBS = 302,
    DNN_PLAN_HANDLE = 400,
    DNN_PLAN_CONFIG = 401,
    DNN_PLAN_WORKSPACE = 402,
    DNN_PLAN_DEVICE = 407,
    DNN_KNOB_TYPE = 600,
    DNN_KNOB_VALUE = 601,
    DNN_POINTWISE_OP_HOW = 750,
    DNN_POINTWISE_OP_X = 751,
    DNN_POINTWISE_OP_B = 752,
    DNN_POINTWISE_OP_Y = 753,
    DNN_POINTWISE_OP_T = 758,
    DNN_GRAPH_HANDLE = 800,
    DNN_GRAPH_OPS = 801,
    DNN_TENSOR_ALIGNMENT = 900,
    DNN_TENSOR_TYPE = 901,
    DNN_TENSOR_DIMS = 902,
    DNN_TENSOR_STRIDES = 903,
    DNN_TENSOR_ID = 906,
    DNN_TENSOR_VIRTUAL = 907,
    DNN_TENSOR_BY_VALUE = 908,
    DNN_PACK_IDS = 1000,
    DNN_PACK_POINTERS = 1001,
    DNN_PACK_WORKSPACE = 1003,
    DNN_ENGINE_GRAPH = 1300,
    DNN_ENGINE_INDEX = 1301,
    DNN_ENGINE_DEVICE = 1307,
    DNN_MATMUL_PRECISION = 1500,
    DNN_MATMUL_OP_A = 1520,
    DNN_MATMUL_OP_B = 1521,
    DNN_MATMUL_OP_C = 1522,
    DNN_MATMUL_OP_HOW = 1523,
    DNN_REDUCTION_OPERATOR = 1600,
    DNN_REDUCTION_PRECISION = 1601,
    DNN_REDUCTION_OP_X = 1610,
    DNN_REDUCTION_OP_Y = 1611,
    DNN_REDUCTION_OP_HOW = 1612,
    DNN_RESHAPE_OP_X = 2200,
    DNN_RESHAPE_OP_Y = 2201,
    DNN_DEVICE_JSON = 2702
};

enum {
    DNN_ADD = 0,
    DNN_MUL = 1,
    DNN_DIV = 6,
    DNN_SUB = 9,
    DNN_EXP = 13,
    DNN_LOG = 15,
    DNN_IDENTITY = 21,
    DNN_CMP_GE = 303,
    DNN_GEN_INDEX = 501,
    DNN_SELECT = 601
};                                       /* cudnnPointwiseMode_t */
enum { DNN_SUM = 0, DNN_MAX = 3 };       /* cudnnReduceTensorOp_t */
enum { DNN_FALLBACK = 2, DNN_BEST = 3 }; /* cudnnBackendHeurMode_t */
enum {
    DNN_KNOB_STAGES = 14,
    DNN_KNOB_KERNEL = 24,
    DNN_KNOB_CLUSTER_M = 27,
    DNN_KNOB_STREAM_K = 38,
    DNN_KNOB_TILE_M = 40,
    DNN_KNOB_TILE_N = 41
}; /* cudnnBackendKnobType_t */

#define CUDA_DNN_FUNCTIONS(X)                                                                      \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendExecute)

typedef struct cuda_dnn_api {
    size_t (*cudnnGetVersion)(void);
    const char *(*cudnnGetErrorString)(int status);
    int (*cudnnCreate)(cudnn_handle_t *handle);
    int (*cudnnDestroy)(cudnn_handle_t handle);
    int (*cudnnSetStream)(cudnn_handle_t handle, CUstream stream);
    int (*cudnnBackendCreateDescriptor)(int type, cudnn_descriptor_t *descriptor);
    int (*cudnnBackendDestroyDescriptor)(cudnn_descriptor_t descriptor);
    int (*cudnnBackendFinalize)(cudnn_descriptor_t descriptor);
    int (*cudnnBackendSetAttribute)(cudnn_descriptor_t descriptor, int name, int type, int64_t n,
                                    const void *elements);
    int (*cudnnBackendGetAttribute)(cudnn_descriptor_t descriptor, int name, int type, int64_t most,
                                    int64_t *n, void *elements);
    int (*cudnnBackendExecute)(cudnn_handle_t handle, cudnn_descriptor_t plan,
                               cudnn_descriptor_t pack);
} cuda_dnn_api;

/* 9.10: scores that are masked are minus infinity. 9.25: sums of dq in a fixed order on Hopper
 * without memory that is quadratic in the sequence. */
enum {
    DNN_OLDEST = 91000,
    DNN_ORDERED_BLACKWELL = 91800,
    DNN_NAMED_TILES = 92300,
    DNN_ORDERED_HOPPER = 92500
};

/* ---- the library ---- */

/* Fills the table from a library (a name or a path). What is missing is an input error. */
weft_status cuda_dnn_api_open(cuda_dnn_api *api, const char *library, weft_error *err);
/* "9.19.0" */
void cuda_dnn_version(const cuda_dnn_api *api, char text[32]);

struct cuda_dnn {
    cuda_dnn_api api;
    cudnn_handle_t handle;       /* NULL: plans are made for `device` */
    cudnn_descriptor_t device;   /* properties of a GPU that need not be there */
    int capability;              /* 90: Hopper */
    bool ordered;                /* sums in a fixed order, or no plan */
    struct cuda_dnn_plan *plans; /* that are alive */
    int taken, left;             /* calls that have a plan, and that have none; */
    char why[128];               /* of one of these */
};

/* ---- plans (dnn.c) ---- */

/* What a graph's tensors are called. */
enum {
    DNN_Q = 1,
    DNN_K,
    DNN_V,
    DNN_OUT,
    DNN_LSE,
    DNN_DOUT,
    DNN_DQ,
    DNN_DK,
    DNN_DV,
    DNN_DQ_SUMS, /* in f32, [batch heads queries d] */
    DNN_DELTA,   /* in f32, [batch heads queries 1] */
    DNN_SCALE,   /* by value */
    DNN_LOWEST,
    DNN_ONE,
    DNN_NAMES
};

/* Attention of queries over keys, all alike visible or, causal, query i the keys up to i. Tensors
 * are [batch rows heads d] in memory of which q_rows and k_rows rows belong to one of the batch;
 * log-sum-exps are [batch heads queries]. */
typedef struct cuda_dnn_attention {
    int64_t batch, heads, kv_heads, d;
    int64_t queries, keys;  /* that take part */
    int64_t q_rows, k_rows; /* that there are */
    bool causal, backward;
    bool whole; /* dq without DNN_DQ_SUMS: cuDNN keeps the scores' gradient, all of it */
} cuda_dnn_attention;

typedef struct cuda_dnn_plan cuda_dnn_plan;

/* *out NULL: the library has none that takes at most so many bytes of workspace; why, in few words,
 * is in *why, which may be NULL. */
weft_status cuda_dnn_plan_create(cuda_dnn *dnn, const cuda_dnn_attention *a, size_t most,
                                 cuda_dnn_plan **out, const char **why, weft_error *err);
void cuda_dnn_plan_destroy(cuda_dnn_plan *plan);
/* Launches every plan once, on memory of so many bytes whose content does not matter. */
size_t cuda_dnn_scratch(const cuda_dnn *dnn);
weft_status cuda_dnn_launch_all(const cuda_dnn *dnn, const weft_queue *queue, CUdeviceptr memory,
                                weft_error *err);
/* The most workspace that a plan is taken with: what it has in the run's memory, for no plan of a
 * run knows the GPU. */
size_t cuda_dnn_bound(const cuda_dnn_attention *a);
/* The most that an operand has, and the library's workspace. */
size_t cuda_dnn_attention_bytes(const cuda_dnn_attention *a, size_t workspace);
/* cuDNN's own, beside DNN_DQ_SUMS and DNN_DELTA. */
size_t cuda_dnn_plan_workspace(const cuda_dnn_plan *plan);
/* by name; of values, from host memory. */
weft_status cuda_dnn_plan_launch(const cuda_dnn_plan *plan, const weft_queue *queue,
                                 void *const *memory, void *workspace, weft_error *err);

/* ---- the graphs (dnn_graph.c) ---- */

enum { DNN_MOST_DESCRIPTORS = 128, DNN_MOST_OPS = 32 };

/* What is being described; nothing more is asked after the first that is refused. */
typedef struct cuda_dnn_graph {
    const cuda_dnn *dnn;
    cudnn_descriptor_t all[DNN_MOST_DESCRIPTORS], ops[DNN_MOST_OPS];
    int n, n_ops, status;
    const char *at; /* the call that was refused */
    int64_t next;   /* name of the next tensor that is nowhere */
} cuda_dnn_graph;

cudnn_descriptor_t cuda_dnn_make(cuda_dnn_graph *g, int type);
void cuda_dnn_set(cuda_dnn_graph *g, cudnn_descriptor_t d, int name, int type, int64_t n,
                  const void *elements);
void cuda_dnn_set_descriptor(cuda_dnn_graph *g, cudnn_descriptor_t d, int name,
                             cudnn_descriptor_t value);
void cuda_dnn_finish(cuda_dnn_graph *g, cudnn_descriptor_t d);
/* The operations of an attention. */
void cuda_dnn_describe(cuda_dnn_graph *g, const cuda_dnn_attention *a);

#endif
