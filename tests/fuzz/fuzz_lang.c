/* SPDX-License-Identifier: MIT */
/*
 * Damaged scripts and probe lines. Whatever is accepted is compiled and run against memory that faults
 * here and there; programs must be well formed and end.
 */
#include "../unit/lang_run.h"
#include "mutate.h"

#ifdef WITH_LIBFUZZER
static uint64_t random_next(void) { return rand(); }
static uint64_t random_below(uint64_t n) { return rand() % n; }
#endif

/* Like the test's world, but any address may be read that is not a multiple of 16. */
static bool some_read(void *data, uint64_t addr, void *buf, size_t len)
{
	if (addr % 16 == 0)
		return false;
	memset(buf, addr & 0x7f, len);
	return true;
}

/* Events are the target's: whatever stands in them, printing survives it. */
static void emit_damaged(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	const struct ir_unit *u = lang_unit(((struct world *)data)->lang);
	uint8_t *copy = malloc(len ? len : 1);
	FILE *null = fopen("/dev/null", "w");
	size_t n = len, i;

	world_emit(data, record, payload, len);
	if (len)
		memcpy(copy, payload, len);
	for (i = 0; null && i < 4 && len; i++) {
		copy[random_below(len)] = random_next();
		n = random_below(2) ? len : random_below(len);
		format_event(null, u, record, copy, n, &world_names);
	}
	if (null)
		fclose(null);
	free(copy);
}

static void run_each(struct world *w)
{
	const struct ir_unit *u = lang_unit(w->lang);
	uint32_t i, k;
	char *dump;

	w->store = store_new(u);
	w->in = (struct interp){ .unit = u, .ops = &store_ops, .store = w->store, .data = w, .read = some_read,
				 .stack = world_stack, .emit = emit_damaged, .enable = world_enable };
	w->in.cells = xcalloc(u->ncells, sizeof(*w->in.cells));
	for (i = 0; i < w->script->clauses.n && i < 64; i++) {
		char regs[] = "rdi=0x1003 rsi=7 rdx=-1 rcx=0x20 rax=0x55 rsp=0x7001 tid=3 / rax=3 duration=9";

		for (k = 0; k < 2; k++)
			if (w->progs[i][k]) {
				if (ir_verify(u, w->progs[i][k]))
					abort();
				dump = ir_dump(u, w->progs[i][k]);
				free(dump);
			}
		w->in.exited = false;
		run_clause(w, i, regs);
	}
	for (i = 0; i < u->maps.n; i++)
		format_map(w->out, u, i, &store_ops, w->store, 0, 0, &world_names);
	free(w->in.cells);
	store_free(w->store);
}

/* Loops of loops take their time, as they should; not here. */
static bool is_slow(const struct world *w)
{
	const struct ir_unit *u = lang_unit(w->lang);
	size_t i;

	for (i = 0; i < u->progs.n; i++)
		if (u->progs.v[i]->rounds > 5000)
			return true;
	return false;
}

/* Form feeds separate the probe from contexts, and these from each other. */
static int parse_line(char *text, struct script **ret_script)
{
	char *parts[8];
	struct line_more more = { .contexts = parts };
	char *at = strchr(text, '\f');

	for (; at && more.ncontexts < ARRAY_SIZE(parts); at = strchr(at, '\f')) {
		*at++ = 0;
		parts[more.ncontexts++] = at;
	}
	return line_parse(text, &more, ret_script);
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	struct world *w = xcalloc(1, sizeof(*w));
	bool line = size && p[0] == '!';
	char *text = xcalloc(1, size + 1), *out = NULL, *more;
	size_t n;
	int r;

	memcpy(text, p, size);
	w->out = open_memstream(&out, &n);
	r = line ? parse_line(text + 1, &w->script) : script_parse("fuzz", text, size, &w->script);
	if (r == 0 && w->script->clauses.n <= 64)
		r = compile_all(w);
	if (r < 0 && !w->script->diags.errors)
		abort();
	more = diags_text(&w->script->diags);
	free(more);
	more = script_dump(w->script);
	free(more);
	if (r == 0 && w->lang && !is_slow(w))
		run_each(w);
	fclose(w->out);
	free(out);
	lang_free(w->lang);
	script_free(w->script);
	free(w);
	free(text);
	return r;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	static const char *const texts[] = {
		"BEGIN { printf(\"%d %s\\n\", 1 + 2 * 3, \"x\"); @x = 5; @h = hist(5); @c[1, \"a\"] = count(); print((1, \"b\", 3)); }",
		"uprobe:exe:f /arg0 > 3 && arg1 != 0/ { @m[arg0] = count(); @s = stats(arg0); printf(\"%s\\n\", str(arg1)); }",
		"struct n { int v; struct n *next; char s[8]; unsigned f:3; }\nu:exe:f { $n = (struct n *)arg0; while ($n != 0) { @ += $n->v; "
		"$n = $n->next; if ($n->f == 3) { break } } print(*$n); print($n->s == \"ab\") }",
		"call:libc:malloc /arg0 > 100/ { @[arg0, func] = hist(duration); record(arg0, r = retval, s = str(arg0, 8)) }",
		"BEGIN { for ($i : 0..10) { @[$i] = $i % 3 == 0 ? \"fizz\" : \"no\" } for ($kv : @) { print($kv.0) } print(@, 2, 3); clear(@) }",
		"config = { max_strlen = 10; stack_mode = perf } let @a = hash(5); #define X 5\nEND { @a[X] = 1 } interval:ms:5 { exit(3) }",
		"u:exe:g { $x = 1.5; $x *= 2; $y = (int8)arg0 / (int8)arg1; $t = ($x, $y); print($t.0); @q = quantile($y, .5, .9); "
		"@l = lhist($y, -5, 5, 2); unroll(4) { $y <<= 1 } delete(@k, 1); @k[1] = (1, \"t\"); if (has_key(@k, 1)) { print(@k[1].1) } }",
		"u:exe:h { @[ustack(perf, 3), usym(arg0), comm] = count(); printf(\"%r %rx %5.2f %p %c\\n\", buf(arg0, 4), buf(arg0, arg1), 1.5, arg0, 65); }",
		"!t=libc:malloc size=arg0 arg1:string *(int *)arg0 $regs if arg0 > 5 || !arg1", "!@foo.c:42 i buf:string if i > 3",
		"u:exe:f { join(arg0, \",\"); print(ntop(arg0)); $a = (uint8[8])arg1; print($a[arg0 & 7]); @v[$a] = (uint64)$a; print($a == (int8[])arg0); "
		"print(macaddr((uint8 *)arg0)); printf(\"%s %x %d\\n\", ntop(10, (uint8 *)arg1), -1, arg0); print(strerror(arg0)); print(str($1 + 1)) }",
		"struct o { struct { int a; union { int b; char c[4]; }; } i; struct in { uint8 d[6]; } n[2]; enum e x; } enum e { A, B = -3, C };\n"
		"u:exe:f { $o = (struct o *)arg0; print(*$o); print(&$o->n[1].d); print($o->i.c); print((enum e)arg1); printf(\"%s\\n\", B); "
		"print($o->n[0].d == $o->n[1].d); @e[C] = *$o; print(offsetof(struct o, i.c)); print(pton(\"::1\") == pton(\"1::\")); print(args) }",
		"#define M 4\ntypedef struct { int x[M]; } t; typedef t *p; typedef enum { A, B = 1 << 3 | A, C = -(2) } k; struct s { t v; k e; unsigned b : M - 1; };\n"
		"u:exe:f { $s = (p)arg0; print($s->x[1]); print(*(struct s *)arg0); print((k)arg1); let $n : k = B; print(sizeof(t)) }",
		"!call:f duration arg0 retval:int", "!f arg1:bytes[4] arg0:double v=arg2:int[3] xmm1:float backtrace $stack\fint:x:symbol+4\fregs",
		"!f\fstring[9]:s:0x10\fstack:16\fbacktrace:3\freg:rdi\fo64:o:y\fint[2]:z:v", "!f x=arg0:x32 if x == 3\fbytes[4]:b:n\fptr:p:q", "a=u:x:/^a(b|c)$/, ur:\"y z\":*foo, @f.c:9 { disable(\"a\"); return; }",
	};

	if (i >= ARRAY_SIZE(texts))
		return (struct seed){ 0 };
	return (struct seed){ (uint8_t *)strdup(texts[i]), strlen(texts[i]), texts[i] };
}
#endif
