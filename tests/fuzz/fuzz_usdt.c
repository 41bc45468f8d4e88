/* SPDX-License-Identifier: MIT */
/* Damaged notes of static tracepoints: they are the section of a small file, and all is asked of what is read. */
#include "base/err.h"
#include "sym/usdt/usdt.h"

#include "../unit/notes.h"
#include "arch/arch.h"
#include "mutate.h"

extern const struct arch arch_aarch64;

static volatile uint64_t sink;	/* what was read must not be optimised away */

static void ask_arg(struct module *m, const struct usdt_arg *a)
{
	struct text_operand o;

	sink += strlen(usdt_type_name(a)) + strlen(a->text) + strlen(a->operand);
	if (!a->why && (a->loc.n != 1 || a->loc.nnodes > 8 || (a->loc.nnodes && a->loc.pieces[0].node >= a->loc.nnodes)))
		abort();
	for (uint32_t i = 0; !a->why && i < a->loc.nnodes; i++) {
		const struct loc_node *n = &a->loc.nodes[i];

		if (n->op == LOP_REG ? n->a >= m->arch->regs->n : n->op >= LOP_LOAD && (n->a >= i || n->b >= i))
			abort();
	}
	arch_aarch64.operand(a->operand, strlen(a->operand), &o);
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	static struct made e;
	struct made_notes x = { 0 };
	struct module *m;
	struct usdt *u;
	size_t n;

	notes_put(&x, p, size < sizeof(x.p) ? size : sizeof(x.p));
	n = notes_file(&e, &x, size % 3 ? 0 : FRAMES);
	if (module_open_memory(e.p, n, "fuzz", &m) < 0)
		abort();
	n = module_usdts(m, &u);
	for (size_t i = 0; i < n; i++) {
		usdt_read_args(m, &u[i]);
		if (u[i].nargs > USDT_ARGS_MAX || (!u[i].why && (u[i].pc < TEXT || u[i].pc >= TEXT + 0x1000)))
			abort();
		sink += strlen(u[i].shown);
		for (uint32_t k = 0; k < u[i].nargs; k++)
			ask_arg(m, &u[i].arg[k]);
	}
	sink += module_usdt_damage(m) != NULL;
	module_close(m);
	return n ? 0 : -ENOENT;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	static const char *const args[] = {
		"8@%rax -4@%ebx 2@%cx 1@%ah", "4@$-5 8@-8(%rbp,%rcx,8) 8@counter+8(%rip) 4@%fs:own@tpoff", "8f@%xmm3 4f@(%rsp) %rax",
		"8@x0 -4@[sp, 12] 4@w3 8@[x1, x2, lsl 3] 8@xzr 4@#5",
	};
	struct made_notes x = { 0 };
	struct seed s = { 0 };

	if (i >= 2)
		return s;
	for (size_t k = 0; k < 2; k++)
		notes_add(&x, TEXT + 8 * k, FRAMES, k ? FRAMES : 0, "app", k ? "two" : "one", args[2 * i + k], -1);
	s = (struct seed){ malloc(x.n), x.n, "notes" };
	memcpy(s.p, x.p, x.n);
	return s;
}
#endif
