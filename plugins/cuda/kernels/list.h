/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel: its file, its name, threads of a block. */
#ifndef WEFT_CUDA_LIST_H
#define WEFT_CUDA_LIST_H

#define CUDA_FILES(X)                                                                              \
    X(adamw)                                                                                       \
    X(attention)                                                                                   \
    X(attention_any)                                                                               \
    X(attention_dnn)                                                                               \
    X(attention_dx)                                                                                \
    X(elementwise)                                                                                 \
    X(embedding)                                                                                   \
    X(float8)                                                                                      \
    X(grouped)                                                                                     \
    X(heads)                                                                                       \
    X(load)                                                                                        \
    X(loss)                                                                                        \
    X(move)                                                                                        \
    X(norm)                                                                                        \
    X(narrow)                                                                                      \
    X(quantise)                                                                                    \
    X(rope)                                                                                        \
    X(route)                                                                                       \
    X(rows)                                                                                        \
    X(scalar)                                                                                      \
    X(slots)                                                                                       \
    X(sum)

#define CUDA_KERNELS(X)                                                                            \
    X(adamw, adamw, 256)                                                                           \
    X(attention, attention_ranges, 256)                                                            \
    X(attention, attention_64, 128)                                                                \
    X(attention, attention_128, 128)                                                               \
    X(attention, attention_256, 128)                                                               \
    X(attention_any, attention_any, 256)                                                           \
    X(attention_any, attention_any_dq, 256)                                                        \
    X(attention_any, attention_any_dkv, 256)                                                       \
    X(attention_any, attention_merge, 256)                                                         \
    X(attention_dnn, attention_rows, 256)                                                          \
    X(attention_dnn, attention_lse_from, 256)                                                      \
    X(attention_dnn, attention_lse_to, 256)                                                        \
    X(attention_dx, attention_delta, 256)                                                          \
    X(attention_dx, attention_dq_64, 128)                                                          \
    X(attention_dx, attention_dq_128, 128)                                                         \
    X(attention_dx, attention_dq_256, 128)                                                         \
    X(attention_dx, attention_dkv_64, 128)                                                         \
    X(attention_dx, attention_dkv_128, 128)                                                        \
    X(attention_dx, attention_dkv_256, 128)                                                        \
    X(elementwise, add, 256)                                                                       \
    X(elementwise, add_bias, 256)                                                                  \
    X(elementwise, scale, 256)                                                                     \
    X(elementwise, copy, 256)                                                                      \
    X(elementwise, larger, 256)                                                                    \
    X(elementwise, lowest, 256)                                                                    \
    X(elementwise, broadcast, 256)                                                                 \
    X(elementwise, silu_mul, 256)                                                                  \
    X(elementwise, silu_mul_dx, 256)                                                               \
    X(elementwise, gelu, 256)                                                                      \
    X(elementwise, gelu_dx, 256)                                                                   \
    X(embedding, embedding, 256)                                                                   \
    X(embedding, sort_tokens, 256)                                                                 \
    X(embedding, order_tokens, 256)                                                                \
    X(embedding, embedding_dw, 256)                                                                \
    X(embedding, embedding_join, 256)                                                              \
    X(float8, f8_inverse, 256)                                                                     \
    X(float8, f8_turn, 256)                                                                        \
    X(float8, f8_widen, 256)                                                                       \
    X(grouped, grouped_list, 256)                                                                  \
    X(grouped, grouped_clear, 256)                                                                 \
    X(grouped, grouped_any, 256)                                                                   \
    X(grouped, grouped_any_dw, 256)                                                                \
    X(grouped, grouped_mma, 256)                                                                   \
    X(grouped, grouped_mma_dx, 256)                                                                \
    X(grouped, grouped_mma_dw, 256)                                                                \
    X(heads, head_norm, 256)                                                                       \
    X(heads, head_norm_dx, 256)                                                                    \
    X(heads, head_norm_dw, 256)                                                                    \
    X(heads, head_part, 256)                                                                       \
    X(heads, head_place, 256)                                                                      \
    X(heads, head_join, 256)                                                                       \
    X(heads, head_sum, 256)                                                                        \
    X(load, expert_load, 256)                                                                      \
    X(load, load_peak, 256)                                                                        \
    X(load, largest, 256)                                                                          \
    X(load, bias_step, 256)                                                                        \
    X(load, balance, 256)                                                                          \
    X(load, balance_dp, 256)                                                                       \
    X(load, scalar_sum, 32)                                                                        \
    X(load, scalar_max, 32)                                                                        \
    X(loss, max_v, 256)                                                                            \
    X(loss, sumexp, 256)                                                                           \
    X(loss, sumexp_dx, 256)                                                                        \
    X(loss, pick, 256)                                                                             \
    X(loss, pick_dx, 256)                                                                          \
    X(loss, pick_dx_add, 256)                                                                      \
    X(loss, nll, 256)                                                                              \
    X(loss, nll_de, 256)                                                                           \
    X(loss, nll_dt, 256)                                                                           \
    X(move, move, 256)                                                                             \
    X(move, reduce, 256)                                                                           \
    X(norm, norm, 256)                                                                             \
    X(norm, norm_2, 256)                                                                           \
    X(norm, norm_4, 256)                                                                           \
    X(norm, norm_dx, 256)                                                                          \
    X(norm, norm_dx_2, 256)                                                                        \
    X(norm, norm_dx_4, 256)                                                                        \
    X(norm, norm_dw_2, 256)                                                                        \
    X(norm, norm_dw_4, 256)                                                                        \
    X(norm, add_norm_2, 256)                                                                       \
    X(norm, add_norm_4, 256)                                                                       \
    X(norm, norm_dx_dw_2, 256)                                                                     \
    X(norm, norm_dx_dw_4, 256)                                                                     \
    X(norm, norm_stats, 256)                                                                       \
    X(norm, column_parts, 256)                                                                     \
    X(norm, column_sums, 256)                                                                      \
    X(narrow, narrow_norm_2, 256)                                                                  \
    X(narrow, narrow_norm_4, 256)                                                                  \
    X(narrow, narrow_silu_mul, 256)                                                                \
    X(narrow, narrow_silu_mul_dx, 256)                                                             \
    X(narrow, narrow_silu_mul_rows, 256)                                                           \
    X(narrow, narrow_given, 256)                                                                   \
    X(narrow, narrow_given_rows, 256)                                                              \
    X(quantise, amax_rows, 256)                                                                    \
    X(quantise, amax_column_parts, 256)                                                            \
    X(quantise, amax_of_columns, 256)                                                              \
    X(quantise, amax_parts, 256)                                                                   \
    X(quantise, amax_of_parts, 256)                                                                \
    X(quantise, f8_scale, 256)                                                                     \
    X(quantise, f8_history, 32)                                                                    \
    X(quantise, quantise, 256)                                                                     \
    X(rope, angles, 256)                                                                           \
    X(rope, rope, 256)                                                                             \
    X(rope, rope_whole, 256)                                                                       \
    X(route, route, 128)                                                                           \
    X(route, route_dx, 256)                                                                        \
    X(route, router_mean, 128)                                                                     \
    X(route, router_share, 128)                                                                    \
    X(route, router_sums, 256)                                                                     \
    X(route, router_mean_dx, 256)                                                                  \
    X(route, router_z, 256)                                                                        \
    X(route, router_z_dx, 256)                                                                     \
    X(rows, take, 256)                                                                             \
    X(rows, cache, 256)                                                                            \
    X(rows, repeat_kv, 256)                                                                        \
    X(rows, repeat_kv_dx, 256)                                                                     \
    X(scalar, constant, 32)                                                                        \
    X(scalar, reciprocal, 32)                                                                      \
    X(scalar, square_root, 32)                                                                     \
    X(scalar, clip, 32)                                                                            \
    X(scalar, lr_schedule, 32)                                                                     \
    X(slots, assign_count, 256)                                                                    \
    X(slots, assign_place, 256)                                                                    \
    X(slots, slots_map, 256)                                                                       \
    X(slots, slots_fill, 256)                                                                      \
    X(slots, slots_spread, 256)                                                                    \
    X(slots, slots_collect, 256)                                                                   \
    X(slots, slots_combine, 256)                                                                   \
    X(slots, slot_scale, 256)                                                                      \
    X(slots, slot_dot, 256)                                                                        \
    X(sum, sum_parts, 256)                                                                         \
    X(sum, sumsq_parts, 256)                                                                       \
    X(sum, valid_parts, 256)                                                                       \
    X(sum, add_parts, 256)

#endif
