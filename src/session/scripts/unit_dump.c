/* SPDX-License-Identifier: MIT */
/*
 * Units as text, for --dump. Machine code needs a process, so one is made up: its areas stand at round
 * addresses, and what an instruction names in them is told behind it.
 */
#include "session/scripts/units.h"

#include <inttypes.h>
#include <string.h>
#include <sys/sysinfo.h>
#include "arch/arch.h"
#include "arch/asm.h"
#include "base/err.h"
#include "base/text.h"
#include "blob/program.h"

#define CODE ((uint64_t)0x10000000)

struct made_up { const char *name; uint64_t at; };

enum { PROGRAM, CELLS, ERRORS, UNPAIRED, ENABLED, MAPS, PAIRS, BLOB, RINGS, SLOW, PID, LOST, GOOD, NO_STACK, FAST, AREAS_END };
static const struct made_up areas[] = {
	[PROGRAM] = { "program", CODE }, [CELLS] = { "cells", 0x11000000 }, [ERRORS] = { "errors", 0x12000000 },
	[UNPAIRED] = { "unpaired", 0x13000000 }, [ENABLED] = { "enabled", 0x14000000 }, [PAIRS] = { "pairs", 0x15000000 },
	[BLOB] = { "blob", 0x16000000 }, [RINGS] = { "rings", 0x17000000 }, [SLOW] = { "slow_ring", 0x18000000 },
	[PID] = { "pid", 0x19000000 }, [LOST] = { "lost", 0x1a000000 },
	[GOOD] = { "good", 0x1c000000 }, [NO_STACK] = { "no_stack", 0x1d000000 }, [FAST] = { "fast", 0x1e000000 },
	[MAPS] = { "maps", 0x20000000 }, [AREAS_END] = { NULL, 0x60000000 },
};

/* Offsets from the start of all to those from the start of a part. */
static uint64_t in_its_part(const struct maps_layout *l, uint64_t off)
{
	uint64_t last = l->parts + l->part_size * l->ncpus;

	return off >= last ? off - last : (off - l->parts) % l->part_size;
}

/* The map that an offset into their memory belongs to: its keys, or its values. */
static void name_map(const struct unit *u, uint64_t off, char *out, size_t room)
{
	const struct maps_layout *l = u->layout;
	bool in_part = off >= l->parts;
	uint64_t at = in_part ? in_its_part(l, off) : off, best = 0;

	for (uint32_t i = 0; i < l->nmaps; i++) {
		const struct ir_map *m = &lang_unit(u->lang)->maps.v[i];
		uint64_t values = l->maps[i].values, table = l->maps[i].table, bias = PROG_KEY_BIAS * l->maps[i].value_size;

		if (m->nkeys && m->kind != IR_MAP_VALUE && off + bias >= l->parts && in_its_part(l, off + bias) == values) {
			snprintf(out, room, "%s", m->name);	/* keys are numbered from the bias on */
			return;
		}
		if ((m->kind != IR_MAP_VALUE) == in_part && values <= at && values >= best) {
			best = values;
			snprintf(out, room, "%s", m->name);
		}
		if (!in_part && m->nkeys && table <= at && table >= best) {
			best = table;
			snprintf(out, room, "keys of %s", m->name);
		}
	}
}

/* "errors+0x8", "@x"; "" for what is in no area. */
static void name_address(const struct unit *u, uint64_t addr, char *out, size_t room)
{
	const struct made_up *best = NULL;

	out[0] = '\0';
	for (int i = 1; i < AREAS_END; i++)
		if (addr >= areas[i].at && (!best || areas[i].at > best->at))
			best = &areas[i];
	if (!best || addr >= areas[AREAS_END].at)
		return;
	snprintf(out, room, addr > best->at ? "%s+0x%" PRIx64 : "%s", best->name, addr - best->at);
	if (best == &areas[MAPS])
		name_map(u, addr - best->at, out, room);
}

static struct gen_env made_up_env(const struct unit *u, bool switches)
{
	return (struct gen_env){
		.event = {
			.rseq_off = -320, .rseq_sig = arch_host()->thread->rseq_sig, .has_rseq = true, .has_tid = true, .tid_off = 720,
			.ring_table = areas[RINGS].at, .fast = areas[FAST].at, .pid_cell = areas[PID].at, .slow = areas[SLOW].at,
			.lost_shared = areas[LOST].at, .ring_size = 1 << 20,
		},
		.ids = u->ids.v, .maps = areas[MAPS].at,
		.layout = u->layout, .cells = areas[CELLS].at, .errors = areas[ERRORS].at,
		.enabled = switches ? areas[ENABLED].at : 0, .nclauses = u->script->clauses.n, .blob = areas[BLOB].at,
		.scratch_size = 256 << 10, .may_call = true, .has_thread_insn = true, .good = areas[GOOD].at, .mult = 1ull << 30, .pairs = areas[PAIRS].at, .pair_bits = PAIR_BITS,
		.unpaired = areas[UNPAIRED].at, .online_cpus = get_nprocs(),
	};
}

/* Code of one program, and which bytes of it begin an instruction that can be reached. */
struct listing {
	const struct arch *arch;
	const struct unit *u;
	const uint8_t *code;
	size_t len;
	uint8_t *starts;
	VEC(uint64_t) todo;
	FILE *to;
};

struct descriptor { uint32_t version, flags; uint64_t start, size, abort; };

/* Of a restartable sequence. */
static bool descriptor_at(const struct listing *l, size_t at, struct descriptor *ret)
{
	if (at % 32 || at + sizeof(*ret) > l->len)
		return false;
	memcpy(ret, l->code + at, sizeof(*ret));
	return !ret->version && !ret->flags && ret->start - CODE < l->len && ret->abort - CODE < l->len && ret->size < l->len;
}

static void add_start(struct listing *l, uint64_t addr)
{
	if (addr - CODE < l->len && !l->starts[addr - CODE])
		*vec_add(&l->todo) = addr;
}

/* Follow the flow from here to where it ends or was before. */
static void follow(struct listing *l, uint64_t addr)
{
	struct descriptor d;
	struct insn insn;

	while (addr - CODE < l->len && !l->starts[addr - CODE] &&
	       l->arch->decode(l->code + (addr - CODE), l->len - (addr - CODE), addr, &insn) == 0) {
		l->starts[addr - CODE] = 1;
		if (insn.kind == INSN_JMP || insn.kind == INSN_JCC || insn.kind == INSN_CALL || insn.kind == INSN_XBEGIN ||
		    insn.kind == INSN_LOOP)
			add_start(l, insn.target);
		else if (insn.flags & INSN_PCREL && descriptor_at(l, insn.target - CODE, &d))
			add_start(l, d.abort);
		/* An indirect jump asks for stack, and comes back behind it. */
		if (insn.kind == INSN_JMP || insn.kind == INSN_RET || insn.kind == INSN_STOP || insn.kind == INSN_INT3)
			return;
		addr += insn.len;
	}
}

static void find_starts(struct listing *l)
{
	*vec_add(&l->todo) = CODE;
	while (l->todo.n)
		follow(l, l->todo.v[--l->todo.n]);
	vec_free(&l->todo);
}

/* What is no code: descriptors, fillers, numbers. Returns how many bytes. */
static size_t print_data(const struct listing *l, size_t at)
{
	struct descriptor d;
	size_t n = 0;

	if (descriptor_at(l, at, &d)) {
		fprintf(l->to, "%8" PRIx64 "  .rseq 0x%" PRIx64 " to 0x%" PRIx64 ", abort 0x%" PRIx64 "\n", CODE + at, d.start,
			d.start + d.size, d.abort);
		return sizeof(d);
	}
	while (at + n < l->len && l->code[at + n] == l->arch->assembler->fill && !l->starts[at + n])
		n++;
	if (n)
		return n;
	fprintf(l->to, "%8" PRIx64 "  .byte", CODE + at);
	for (; n < 16 && at + n < l->len && !l->starts[at + n] && !(n && descriptor_at(l, at + n, &d)); n++)
		fprintf(l->to, " %02x", l->code[at + n]);
	fputc('\n', l->to);
	return n;
}

static void print_code(struct listing *l)
{
	char text[160], where[96];
	uint64_t names;

	find_starts(l);
	for (size_t at = 0; at < l->len; ) {
		int n = !l->starts[at] ? -1 : l->arch->text(l->code + at, l->len - at, CODE + at, text, sizeof(text), &names);

		if (n < 0) {
			at += print_data(l, at);
			continue;
		}
		name_address(l->u, names, where, sizeof(where));
		fprintf(l->to, where[0] ? "%8" PRIx64 "  %-48s # %s\n" : "%8" PRIx64 "  %s\n", CODE + at, text, where);
		at += n;
	}
}

static bool switches(const struct jab *j)
{
	for (size_t i = 0; i < j->programs.n; i++)
		for (int k = 0; k < PARTS && j->programs.v[i].progs[k]; k++)
			for (size_t n = 0; n < j->programs.v[i].progs[k]->ins.n; n++)
				if (j->programs.v[i].progs[k]->ins.v[n].op == IR_ENABLE)
					return true;
	return false;
}

static int dump_program(struct jab *j, const struct program *p, int part, FILE *to)
{
	const struct unit *u = &j->units.v[p->unit];
	const struct row *row = &j->rows.v[p->row];
	struct module *m = j->files.v[row->file].m;
	const struct ir_prog *prog = p->progs[part];
	struct gen_env env = made_up_env(u, switches(j));
	struct gen_site site = { .addr = 0x401000, .number = p->row, .func = 0x401000, .need = unit_stack(p),
				 .no_stack = areas[NO_STACK].at };
	uint8_t *code = xcalloc(p->body[part] + 1, 1);
	struct listing l = { .arch = j->arch, .u = u, .code = code, .starts = xcalloc(p->body[part] + 1, 1), .to = to };
	int n = gen_emit(lang_unit(u->lang), prog, &env, &site, CODE, code);

	if (n >= 0) {
		fprintf(to, "%s", j->probes.v[row->probe].spec->text);
		if (row->func != UINT32_MAX) {
			fputs(" at ", to);
			print_safe(to, func_name(m, &m->funcs.v[row->func]));
		}
		fprintf(to, "%s: %d bytes\n", prog->is_left ? " (left)" : prog->where == IR_WHERE_EXIT ? " (exit)" : prog->where == IR_WHERE_ENTRY ? " (entry)" : "", n);
		l.len = n;
		print_code(&l);
		fputc('\n', to);
	}
	free(l.starts);
	free(code);
	return n < 0 ? n : 0;
}

static int dump_asm(struct jab *j, uint32_t unit, FILE *to)
{
	int r = units_plan(j);

	if (!r && !j->programs.n)
		log_warn("nothing of this script is machine code: begin, end and interval run in jab itself");
	for (size_t i = 0; !r && i < j->programs.n; i++)
		for (int k = 0; !r && k < PARTS && j->programs.v[i].progs[k]; k++)
			if (j->programs.v[i].unit == unit)
				r = dump_program(j, &j->programs.v[i], k, to);
	return r;
}

static void dump_ir(const struct unit *u, FILE *to)
{
	const struct ir_unit *ir = lang_unit(u->lang);

	for (size_t i = 0; i < ir->progs.n; i++) {
		const struct clause *c = u->script->clauses.v[ir->progs.v[i]->clause];
		char *text = ir_dump(ir, ir->progs.v[i]);

		fprintf(to, "%s%s:\n%s\n", c->nprobes ? c->probes[0]->text : "",
			ir->progs.v[i]->is_left ? " (left)" : ir->progs.v[i]->where == IR_WHERE_EXIT ? " (exit)" : "", text);
		free(text);
	}
}

int unit_dump(struct jab *j, uint32_t unit, const char *what, FILE *to)
{
	struct unit *u = &j->units.v[unit];
	char *text;

	if (!strcmp(what, "asm"))
		return dump_asm(j, unit, to);
	if (!strcmp(what, "ir")) {
		dump_ir(u, to);
		return 0;
	}
	if (strcmp(what, "ast"))
		return fail(-EINVAL, "--dump knows ast, ir and asm, not '%s'", what);
	text = script_dump(u->script);
	fputs(text, to);
	free(text);
	return 0;
}
