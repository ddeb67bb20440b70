/* SPDX-License-Identifier: Apache-2.0 */
/* Trials of the kernels of experts, whose ops the plugin moe has. */
#ifndef WEFT_TEST_TRIAL_EXPERTS_H
#define WEFT_TEST_TRIAL_EXPERTS_H

void trial_test_route(void **state);
void trial_test_route_dx(void **state);
void trial_test_router_sums(void **state);
void trial_test_assign(void **state);
void trial_test_moved_rows(void **state);
void trial_test_scaled_rows(void **state);
void trial_test_loads(void **state);
void trial_test_grouped(void **state);
void trial_test_grouped_edges(void **state);

#define TRIAL_EXPERTS                                                                              \
    cmocka_unit_test(trial_test_route), cmocka_unit_test(trial_test_route_dx),                     \
        cmocka_unit_test(trial_test_router_sums), cmocka_unit_test(trial_test_assign),             \
        cmocka_unit_test(trial_test_moved_rows), cmocka_unit_test(trial_test_scaled_rows),         \
        cmocka_unit_test(trial_test_loads), cmocka_unit_test(trial_test_grouped),                  \
        cmocka_unit_test(trial_test_grouped_edges)

#endif
