/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the ucx plugin share. */
#ifndef WEFT_PLUGINS_UCX_H
#define WEFT_PLUGINS_UCX_H

#include <weft/pairs.h>
#include <weft/weft.h>

#include <stdatomic.h>
#include <ucp/api/ucp.h>

/* A message that has gone through is a sign of life, also over a slow link. */
#define WEFT_MESSAGE_BYTES ((size_t)16 << 20)

typedef struct transport {
    const weft_host *host;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h *ends; /* [ranks] NULL: nothing was sent there */
    char *addresses;
    size_t address_bytes; /* of each rank's, rounded up to the longest */
    int groups;           /* made so far, on all ranks alike */
    atomic_bool left;     /* whoever sets it ends all waiting */
} transport;

/* What a message is for: with the group and its sender it makes the tag. */
typedef enum message_kind { COLLECTIVE, SENDER, RECEIVER, DATA } message_kind;

/* A message under way: UCX's own, NULL if it went at once. */
typedef struct message {
    void *request;
    int with; /* member of the group */
    bool receives;
} message;

typedef struct group {
    transport *t;
    int number, n, me;
    int *ranks;   /* [n] of the run */
    bool *absent; /* [n] who is being waited for */
    weft_pairs pairs;
    message *messages;       /* [2 * n] of a swap */
    weft_request *transfers; /* begun, and nobody has waited for them */
} group;

weft_status ucx_error(ucs_status_t status, const char *what, weft_error *err);

/* wait.c */
weft_status ucx_send_message(group *g, int to, message_kind kind, const void *data, size_t bytes,
                             message *out, weft_error *err);
weft_status ucx_recv_message(group *g, int from, message_kind kind, void *data, size_t bytes,
                             message *out, weft_error *err);
/* Until these n messages are there, which are gone then. */
weft_status ucx_wait_all(group *g, message *list, int n, weft_error *err);
/* They are no longer wanted. */
void ucx_drop_messages(transport *t, message *list, int n);
/* The length of message number i of so many bytes: 0 behind the last. */
size_t ucx_slice(size_t bytes, size_t i);
/* For weft_pairs. */
weft_status ucx_swap(void *group, weft_error *err);

/* transfer.c */
weft_status ucx_send(void *self, void *handle, int to, const void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err);
weft_status ucx_recv(void *self, void *handle, int from, void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err);
weft_status ucx_wait(void *self, weft_request *request, weft_queue *queue, weft_error *err);
/* Ends what nobody has waited for. */
void ucx_drop_transfers(group *g);

#endif
