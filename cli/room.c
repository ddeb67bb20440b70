/* SPDX-License-Identifier: Apache-2.0 */
#include "room.h"
#include "execute/control.h"
#include "processors.h"

weft_room_sums weft_cli_room_sums(const weft_room_share *all, int ranks, int rank)
{
    weft_room_sums sums = {.first_on_host = -1};
    for (int r = 0; r < ranks; r++) {
        if (all[r].host != all[rank].host)
            continue;
        if (sums.n_on_host++ == 0)
            sums.first_on_host = r;
        sums.on_host += all[r].bytes;
        if (all[r].group != all[rank].group)
            continue;
        sums.n_in_group++;
        sums.in_group += all[r].bytes;
    }
    return sums;
}

static int64_t host_bytes(const weft_plan *plan)
{
    const weft_held held = weft_plan_held(plan);
    const int64_t far = plan->far && plan->far->in_host_memory ? held.far : 0;
    return far + (plan->device->host_memory ? (int64_t)weft_plan_bytes(plan)
                                            : held.host_inputs + held.moving);
}

/* What most of a rank's memory is for, and which keys make that less. */
static const char *advice(const weft_plan *plan, int64_t *most)
{
    const weft_held held = weft_plan_held(plan);
    const struct {
        int64_t bytes;
        const char *words;
    } parts[] = {{plan->device->host_memory ? held.arena : 0,
                  "what it computes with (arena): a smaller [train] micro_batch or seq_len, ac, or "
                  "offload with gradients and activations needs less"},
                 {plan->device->host_memory ? held.state : 0,
                  "state: offload with state = all needs less, as does fsdp over more hosts"},
                 {plan->device->host_memory ? held.store : 0,
                  "what a save waits in: a smaller [ckpt] buffer needs less"},
                 {held.inputs + held.host_inputs,
                  "samples: a smaller [train] global_batch or seq_len needs less"}};
    size_t at = 0;
    for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++)
        at = parts[i].bytes > parts[at].bytes ? i : at;
    *most = parts[at].bytes;
    return parts[at].words;
}

static void print_need(int n, int64_t bytes, weft_text *text)
{
    if (n > 1)
        weft_text_print(text, "the %d ranks here need ", n);
    else
        weft_text_add(text, "the rank here needs ");
    weft_print_bytes(text, (double)bytes);
    weft_text_add(text, n > 1 ? " together, as planned, and " : ", as planned, and ");
}

static weft_status refuse(const weft_plan *plan, const weft_room_sums *sums,
                          const weft_host_room *room, weft_error *err)
{
    weft_text text = {0};
    int64_t most;
    const char *words = advice(plan, &most);
    print_need(sums->n_in_group, sums->in_group, &text);
    weft_text_add(&text,
                  sums->n_in_group > 1 ? "their control group has " : "its control group has ");
    weft_print_bytes(&text, (double)room->group);
    weft_text_add(&text, " left of its ");
    weft_print_bytes(&text, (double)room->group_limit);
    weft_text_print(&text, "; of rank %d's ", plan->rank);
    weft_print_bytes(&text, (double)host_bytes(plan));
    weft_text_add(&text, " most, ");
    weft_print_bytes(&text, (double)most);
    weft_text_print(&text, ", is for %s", words);
    const weft_status s = weft_fail(err, WEFT_ERR_MEMORY, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

static void warn(const weft_log *log, const weft_room_sums *sums, const weft_host_room *room)
{
    weft_text text = {0};
    print_need(sums->n_on_host, sums->on_host, &text);
    weft_text_add(&text, "this host has ");
    weft_print_bytes(&text, (double)room->machine);
    weft_text_add(&text, " left: unless others leave it some, the kernel will end a process");
    weft_log_print(log, WEFT_LOG_WARN, "%s", weft_text_get(&text));
    weft_text_release(&text);
}

static weft_status check(weft_rank *rank, const weft_plan *plan)
{
    const weft_host *host = &rank->session.host;
    const weft_host_room room = weft_find_host_room("");
    const weft_room_share mine = {weft_cli_host_id(), room.group_id, host_bytes(plan)};
    weft_room_share *all = weft_alloc_zero((size_t)host->ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(&rank->err);
    all[0] = mine;
    weft_status s = rank->control ? weft_control_exchange(rank->control, host->rank, &mine,
                                                          sizeof mine, all, &rank->err)
                                  : WEFT_OK;
    const weft_room_sums sums = weft_cli_room_sums(all, host->ranks, host->rank);
    weft_free(all);
    if (s)
        return s;
    if ((uint64_t)sums.in_group > room.group)
        return refuse(plan, &sums, &room, &rank->err);
    if (host->rank == sums.first_on_host && (uint64_t)sums.on_host > room.machine)
        warn(host->log, &sums, &room);
    return WEFT_OK;
}

weft_status weft_cli_check_room(weft_rank *rank, const weft_plan *plan)
{
    return weft_rank_agree(rank, "looking at the hosts' memory", check(rank, plan));
}
