/* SPDX-License-Identifier: Apache-2.0 */
/* Index rules of ops, parsed: which index (letter) every dim of every operand and result is. The
 * text is described in <weft/op.h>. */
#ifndef WEFT_GRAPH_RULE_H
#define WEFT_GRAPH_RULE_H

#include <weft/pass.h>

enum { WEFT_RULE_MAX_LETTERS = 32, WEFT_RULE_MAX_NAME = 32, WEFT_RULE_MAX_PARTS = 64 };

/* One operand or result. */
typedef struct weft_rule_part {
    int8_t n_dims;
    int8_t letter[WEFT_MAX_DIMS];
    bool whole[WEFT_MAX_DIMS]; /* written [x] here */
    bool more[WEFT_MAX_DIMS];  /* written x+ here */
} weft_rule_part;

/* About 4 KiB and no pointers: put it on the stack, copy it freely. */
typedef struct weft_rule {
    int n_letters, n_ins, n_outs; /* n_ins counts the node's `like`, which comes last */
    char name[WEFT_RULE_MAX_LETTERS]
             [WEFT_RULE_MAX_NAME]; /* dims of "*" are called "*0", "*1", those of "..." "..0" */
    weft_rule_part in[WEFT_RULE_MAX_PARTS], out[WEFT_RULE_MAX_PARTS];
    uint32_t whole; /* set of letters marked [x] anywhere: no axis may cut them */
    uint32_t more;  /* of letters marked x+ anywhere: axes may cut these dims alone, behind those
                       that cut all dims of the letter alike */
    int n_groups;
    uint64_t group[WEFT_RULE_MAX_PARTS]; /* sets of operands that the op is linear in */
} weft_rule;

/* Parses a rule for a use with these operands (`like` included, last) and results. in_dims: dims of
 * each operand; out_dims: of each result; NULL if not known yet: "*" is one dim then. linear may be
 * NULL. Fails with
 * WEFT_ERR_INTERNAL when the text is malformed, does not fit the numbers of operands, results or
 * dims, or repeats a letter inside one part. */
weft_status weft_rule_parse(const char *rule, const char *linear, int n_ins, int n_outs,
                            const int *in_dims, const int *out_dims, weft_rule *out,
                            weft_error *err);
/* The rule of a node, through its op's make_rule if it has one. results: check it against the dims
 * of the node's results too. */
weft_status weft_rule_of_node(const weft_node *node, bool results, weft_rule *out, weft_error *err);

/* Before any use of it: can the op's rule and linear groups be read, and does every index of a
 * result come from an operand, unless the op infers its results itself? Of an op that makes its
 * rules nothing is known yet. */
weft_status weft_rule_check(const weft_op *op, weft_error *err);
/* How many operands (`like` included) and results the rule of an op has; -1: that depends on the
 * node. */
void weft_rule_count(const weft_op *op, int *n_ins, int *n_outs);

/* Which dim of the part is this letter, -1 if none. */
int weft_rule_dim(const weft_rule_part *part, int letter);
/* The letters of a part, as a set. */
uint32_t weft_rule_letters(const weft_rule_part *part);
/* The letters of all operands, as a set. */
uint32_t weft_rule_in_letters(const weft_rule *rule);

#endif
