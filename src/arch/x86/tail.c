/* SPDX-License-Identifier: MIT */
/*
 * Notes of tail calls (arch/arch.h, docs/why/tail-calls.md). The code keeps every register, the flags and the red zone. It uses
 * rax, rcx and rdx: rax is the upper part of the note's word, rcx the address of a word.
 *
 * Only the thread whose call it is writes to a note, except that another one may take the word of a full bucket away. A
 * compare-and-exchange that fails therefore means that the note is gone: it is not tried again.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"

#define SAVED (128 + 4 * 8)	/* from the stack pointer here to that of the site */
#define AGAIN 0x8000u
#define JUMPED 0x4000u
#define MOST (JUMPED - 1)	/* calls of one note */
#define HASH 0x9e3779b97f4a7c15ull

_Static_assert(SAVED < STACK_UNASKED, "no stack is asked for");
_Static_assert(TAIL_BUCKETS == 1 << 10 && TAIL_BUCKET_SIZE == 1 << 6, "as the shifts below say");

static void put_save(uint8_t **p)
{
	put(p, 0x48, 0x8d, 0x64, 0x24, 0x80);		/* lea  -128(%rsp),%rsp */
	put(p, 0x50, 0x51, 0x52);			/* push %rax; push %rcx; push %rdx */
	put(p, 0x9f, 0x0f, 0x90, 0xc0, 0x50);		/* lahf; seto %al; push %rax */
}

static void put_restore(uint8_t **p)
{
	put(p, 0x58, 0x04, 0x7f, 0x9e);			/* pop  %rax; add $127,%al; sahf */
	put(p, 0x5a, 0x59, 0x58);			/* pop  %rdx; pop %rcx; pop %rax */
	put(p, 0x48, 0x8d, 0xa4, 0x24);			/* lea  128(%rsp),%rsp */
	put32(p, 128);
}

/* Where the byte of a stack pointer of 0 is for this function. */
static uint32_t ever_from(const struct tail_spec *spec)
{
	return spec->func * HASH >> 48;
}

/* After put_save(): a note is written with this stack pointer. */
static void put_ever(uint8_t **p, const struct tail_spec *spec)
{
	put(p, 0x48, 0x8d, 0x8c, 0x24);			/* lea  site's rsp + from,%rcx */
	put32(p, SAVED + ever_from(spec));
	put(p, 0x0f, 0xb7, 0xc9);			/* movzwl %cx,%ecx */
	put(p, 0x48, 0xba);				/* movabs $ever,%rdx */
	put64(p, spec->ever);
	put(p, 0xc6, 0x04, 0x0a, 1);			/* movb $1,(%rdx,%rcx) */
}

/* rax = the word of this call without its lower 16 bits, rcx = its bucket */
static void put_find_bucket(uint8_t **p, const struct tail_spec *spec)
{
	put(p, 0x48, 0x8d, 0x84, 0x24);			/* lea  rsp with the return address,%rax */
	put32(p, SAVED - (spec->code == TAIL_BACK ? 8 : 0));
	if (spec->code == TAIL_BACK) {
		put(p, 0x48, 0xb9);			/* movabs $return address,%rcx */
		put64(p, spec->ret);
	} else {
		put(p, 0x48, 0x8b, 0x8c, 0x24);		/* mov  return address,%rcx */
		put32(p, SAVED);
	}
	put(p, 0x48, 0xba);				/* movabs $func,%rdx */
	put64(p, spec->func);
	put(p, 0x48, 0x01, 0xd0);			/* add  %rdx,%rax */
	put(p, 0x48, 0xba);				/* movabs $HASH,%rdx */
	put64(p, HASH);
	put(p, 0x48, 0x0f, 0xaf, 0xc2);			/* imul %rdx,%rax */
	put(p, 0x48, 0x31, 0xc8);			/* xor  %rcx,%rax */
	put(p, 0x48, 0x0f, 0xaf, 0xc2);			/* imul %rdx,%rax */
	put(p, 0x66, 0x31, 0xc0);			/* xor  %ax,%ax */
	put(p, 0x48, 0x0d);				/* or   $0x10000,%rax: never 0 */
	put32(p, 0x10000);
	put(p, 0x48, 0x89, 0xc1);			/* mov  %rax,%rcx */
	put(p, 0x48, 0xc1, 0xe9, 54);			/* shr  $54,%rcx */
	put(p, 0x48, 0xc1, 0xe1, 6);			/* shl  $6,%rcx */
	put(p, 0x48, 0xba);				/* movabs $table,%rdx */
	put64(p, spec->table);
	put(p, 0x48, 0x01, 0xd1);			/* add  %rdx,%rcx */
}

/* The next word of the bucket, at `loop`; goes on after the last one. */
static void put_next(uint8_t **p, const uint8_t *loop)
{
	put(p, 0x48, 0x83, 0xc1, 8);			/* add  $8,%rcx */
	put(p, 0xf6, 0xc1, TAIL_BUCKET_SIZE - 1);	/* test $63,%cl */
	put(p, 0x75, loop - (*p + 2));			/* jne  loop */
}

/* Branches to `found` with rcx = address of the note and rdx = its lower 16 bits. */
static void put_search(uint8_t **p, struct branches *found)
{
	const uint8_t *loop = *p;

	put(p, 0x48, 0x8b, 0x11);			/* mov  (%rcx),%rdx */
	put(p, 0x48, 0x31, 0xc2);			/* xor  %rax,%rdx */
	put(p, 0x48, 0x81, 0xfa);			/* cmp  $0x10000,%rdx */
	put32(p, 0x10000);
	put_branch(p, 0x72, found);			/* jb   found */
	put_next(p, loop);
}

/* A note that is there: others don't write to it, unless it is taken away just now. Then one note more is lost, but no word is torn. */
static void put_exchange(uint8_t **p)
{
	put(p, 0x48, 0x0f, 0xb1, 0x11);			/* cmpxchg %rdx,(%rcx) */
}

/* rcx: the end of the bucket. A free word of it, or else one that is in use: which of them depends on the note. */
static void put_new_note(uint8_t **p, const struct tail_spec *spec, uint32_t low, struct branches *done)
{
	struct branches taken = { .n = 0 };
	const uint8_t *loop;

	put(p, 0x48, 0x83, 0xe9, TAIL_BUCKET_SIZE);	/* sub  $64,%rcx */
	put(p, 0x48, 0x89, 0xc2);			/* mov  %rax,%rdx */
	put(p, 0x48, 0x81, 0xca);			/* or   $low,%rdx */
	put32(p, low);
	loop = *p;
	put(p, 0x31, 0xc0);				/* xor  %eax,%eax */
	put(p, 0x48, 0x39, 0x01);			/* cmp  %rax,(%rcx) */
	put_branch(p, 0x75, &taken);			/* jne  taken */
	put(p, 0xf0, 0x48, 0x0f, 0xb1, 0x11);		/* lock cmpxchg %rdx,(%rcx) */
	put_branch(p, 0x74, done);			/* je   done */
	land_branches(&taken, *p);
	put_next(p, loop);
	put(p, 0x89, 0xd0);				/* mov  %edx,%eax */
	put(p, 0xc1, 0xe8, 20);				/* shr  $20,%eax */
	put(p, 0x83, 0xe0, 7);				/* and  $7,%eax */
	put(p, 0x48, 0x89, 0x54, 0xc1, 0x100 - TAIL_BUCKET_SIZE);	/* mov %rdx,-64(%rcx,%rax,8) */
	put(p, 0x48, 0xb9);				/* movabs $crowded,%rcx */
	put64(p, spec->crowded);
	put(p, 0xf0, 0x48, 0xff, 0x01);			/* lock incq (%rcx) */
}

/* One that is there is what is left of a call that has ended in another way, unless that has come back to its function by a jump. */
static void put_old_note(uint8_t **p, uint32_t low, struct branches *done)
{
	struct branches adds = { .n = 0 }, write = { .n = 0 };

	put(p, 0x48, 0x09, 0xd0);			/* or   %rdx,%rax */
	put(p, 0x48, 0x8d, 0x50, 0x01);			/* lea  1(%rax),%rdx */
	put(p, 0x66, 0x85, 0xc0);			/* test %ax,%ax */
	put_branch(p, 0x78, &adds);			/* js   1f */
	put(p, 0x66, 0xba, low & 0xff, low >> 8);	/* mov  $low,%dx */
	put_branch(p, 0xeb, &write);			/* jmp  2f */
	land_branches(&adds, *p);
	put(p, 0xf7, 0xc2);				/* 1: test $MOST,%edx */
	put32(p, MOST);
	put_branch(p, 0x74, done);			/* jz   done: it can't hold more */
	if (!(low & AGAIN))
		put(p, 0x48, 0x0f, 0xba, 0xf2, 15);	/* btr  $15,%rdx */
	put(p, 0x48, 0x0f, 0xba, 0xea, 14);		/* bts  $14,%rdx */
	land_branches(&write, *p);
	put_exchange(p);				/* 2: */
}

static void put_note(uint8_t **p, const struct tail_spec *spec)
{
	uint32_t low = 1 | (spec->code == TAIL_ASK ? 0 : JUMPED) | (spec->code == TAIL_NOTE_AGAIN ? AGAIN : 0);
	struct branches found = { .n = 0 }, done = { .n = 0 };

	put_ever(p, spec);
	put_find_bucket(p, spec);
	put_search(p, &found);
	put_new_note(p, spec, low, &done);
	put_branch(p, 0xeb, &done);			/* jmp  done */
	land_branches(&found, *p);
	put_old_note(p, low, &done);
	land_branches(&done, *p);
	put_restore(p);
}

/* rax is the word of the note, rdx the same with the bits of a jump, at an entry without, or 0. */
static void put_marked(uint8_t **p, enum tail_code code)
{
	struct branches jumped = { .n = 0 };

	if (code == TAIL_DROP) {
		put(p, 0x31, 0xd2);			/* xor  %edx,%edx */
		return;
	}
	put(p, 0x48, 0x89, 0xc2);			/* mov  %rax,%rdx */
	if (code == TAIL_ENTER) {
		put(p, 0x48, 0x0f, 0xba, 0xf2, 14);	/* btr  $14,%rdx */
		put_branch(p, 0x72, &jumped);		/* jc   1f */
		put(p, 0x31, 0xd2);			/* xor  %edx,%edx */
		land_branches(&jumped, *p);		/* 1: */
	} else {
		put(p, 0x48, 0x81, 0xca);		/* or   $bits,%rdx */
		put32(p, JUMPED | (code == TAIL_AGAIN ? AGAIN : 0));
	}
}

static void put_mark(uint8_t **p, const struct tail_spec *spec)
{
	struct branches found = { .n = 0 }, done = { .n = 0 };

	put_find_bucket(p, spec);
	put_search(p, &found);
	put_branch(p, 0xeb, &done);			/* jmp  done */
	land_branches(&found, *p);
	put(p, 0x48, 0x09, 0xd0);			/* or   %rdx,%rax */
	put_marked(p, spec->code);
	put_exchange(p);
	land_branches(&done, *p);
	put_restore(p);
}

/* jmp over what follows, to be landed by land_far() */
static uint8_t *put_far(uint8_t **p)
{
	put(p, 0xe9);
	put32(p, 0);
	return *p;
}

static void land_far(uint8_t *behind, const uint8_t *target)
{
	memcpy(behind - 4, &(int32_t){ target - behind }, 4);
}

/* Report the return address to the tracer, unless that was the last one there. */
static void put_tell(uint8_t **p, const struct tail_spec *spec)
{
	struct branches told = { .n = 0 };

	put(p, 0x48, 0x8b, 0x84, 0x24);			/* mov  return address,%rax */
	put32(p, SAVED);
	put(p, 0x8d, 0x8c, 0x00);			/* lea  something of the id(%rax,%rax),%ecx */
	put32(p, spec->id * 37 % TAIL_ASKED * sizeof(struct tail_asked));
	put(p, 0x81, 0xe1);				/* and  $511 * 16,%ecx */
	put32(p, (TAIL_ASKED - 1) * sizeof(struct tail_asked));
	put(p, 0x48, 0xba);				/* movabs $asked,%rdx */
	put64(p, spec->asked);
	put(p, 0x48, 0x01, 0xd1);			/* add  %rdx,%rcx */
	put(p, 0x48, 0x39, 0x01);			/* cmp  %rax,(%rcx) */
	put_branch(p, 0x74, &told);			/* je   1f */
	put(p, 0x48, 0x89, 0x01);			/* mov  %rax,(%rcx) */
	put(p, 0xc7, 0x41, offsetof(struct tail_asked, id));	/* movl $id,id(%rcx) */
	put32(p, spec->id);
	land_branches(&told, *p);			/* 1: */
}

static void put_enter_once(uint8_t **p, const struct tail_spec *spec)
{
	struct branches found = { .n = 0 }, called = { .n = 0 }, done = { .n = 0 };
	uint8_t *over;

	put_find_bucket(p, spec);
	put_search(p, &found);
	put_branch(p, 0xeb, &done);			/* jmp  done */
	land_branches(&found, *p);
	put(p, 0x48, 0x09, 0xd0);			/* or   %rdx,%rax */
	put(p, 0x48, 0x89, 0xc2);			/* mov  %rax,%rdx */
	put(p, 0x48, 0x0f, 0xba, 0xf2, 14);		/* btr  $14,%rdx */
	put_branch(p, 0x73, &called);			/* jnc  called */
	put_exchange(p);
	put_branch(p, 0x75, &done);			/* jne  done: it is gone */
	put_restore(p);
	over = put_far(p);
	land_branches(&called, *p);
	put(p, 0x31, 0xd2);				/* called: xor %edx,%edx */
	put_exchange(p);
	land_branches(&done, *p);
	put_restore(p);
	land_far(over, *p + spec->body);
}

/* Goes on after the code with a call taken off its note, else after the body. */
static void put_take(uint8_t **p, const struct tail_spec *spec)
{
	struct branches found = { .n = 0 }, more = { .n = 0 };
	const uint8_t *none;
	uint8_t *over;

	put_find_bucket(p, spec);
	put_search(p, &found);
	none = *p;
	put_restore(p);
	over = put_far(p);
	land_branches(&found, *p);
	put(p, 0x48, 0x09, 0xd0);			/* or   %rdx,%rax */
	put(p, 0x48, 0x8d, 0x50, 0xff);			/* lea  -1(%rax),%rdx */
	put(p, 0xf7, 0xc2);				/* test $MOST,%edx */
	put32(p, MOST);
	put_branch(p, 0x75, &more);			/* jne  1f */
	put(p, 0x31, 0xd2);				/* xor  %edx,%edx */
	land_branches(&more, *p);
	put_exchange(p);				/* 1: */
	put(p, 0x75, none - (*p + 2));			/* jne  none */
	if (spec->code == TAIL_ASK_FAR)
		put_tell(p, spec);
	put_restore(p);
	land_far(over, *p + spec->body);
}

/* Branches to `known` if there is a probe at the return address. */
static void put_ask(uint8_t **p, const struct tail_spec *spec, struct branches *known)
{
	const uint8_t *loop;

	put(p, 0x48, 0x8b, 0x84, 0x24);			/* mov  return address,%rax */
	put32(p, SAVED);
	put(p, 0x48, 0xba);				/* movabs $func,%rdx */
	put64(p, spec->func);
	put(p, 0x48, 0x01, 0xd0);			/* add  %rdx,%rax */
	put(p, 0x48, 0xba);				/* movabs $HASH,%rdx */
	put64(p, HASH);
	put(p, 0x48, 0x0f, 0xaf, 0xc2);			/* imul %rdx,%rax */
	put(p, 0x48, 0x83, 0xc8, 1);			/* or   $1,%rax: never 0 */
	put(p, 0x48, 0x89, 0xc1);			/* mov  %rax,%rcx */
	put(p, 0x48, 0xc1, 0xe9, 54);			/* shr  $54,%rcx */
	put(p, 0x48, 0xc1, 0xe1, 6);			/* shl  $6,%rcx */
	put(p, 0x48, 0xba);				/* movabs $known,%rdx */
	put64(p, spec->known);
	put(p, 0x48, 0x01, 0xd1);			/* add  %rdx,%rcx */
	loop = *p;
	put(p, 0x48, 0x39, 0x01);			/* cmp  %rax,(%rcx) */
	put_branch(p, 0x74, known);			/* je   known */
	put_next(p, loop);
}

_Static_assert(TAIL_KNOWN_BUCKETS == 1 << 10, "as that shift says");

uint64_t x86_tail_known(uint64_t func, uint64_t ret, uint32_t *ret_bucket)
{
	uint64_t word = (func + ret) * HASH | 1;

	*ret_bucket = word >> 54;
	return word;
}

/* At a jump of the function itself to an unknown one. */
static void put_ask_own(uint8_t **p, const struct tail_spec *spec)
{
	struct branches known = { .n = 0 };
	uint8_t *to_body, *over;

	put_ask(p, spec, &known);
	put_tell(p, spec);
	put_restore(p);
	to_body = put_far(p);
	land_branches(&known, *p);
	put_note(p, spec);
	over = put_far(p);
	land_far(to_body, *p);
	land_far(over, *p + spec->body);
}

static void put_ask_far(uint8_t **p, const struct tail_spec *spec)
{
	struct branches known = { .n = 0 }, unknown = { .n = 0 };
	uint8_t *over;

	put_ask(p, spec, &known);
	put_branch(p, 0xeb, &unknown);
	land_branches(&known, *p);
	put_restore(p);
	over = put_far(p);
	land_branches(&unknown, *p);
	put_take(p, spec);
	land_far(over, *p + spec->body);
}

/*
 * Goes over all that follows if no note of this function was ever written with this stack pointer; returns what is to be landed. A body may stand at
 * hundreds of exits that are passed often: neither flags nor more registers than needed are touched.
 */
static uint8_t *put_unless_ever(uint8_t **p, const struct tail_spec *spec)
{
	struct branches none = { .n = 0 };
	uint8_t *on, *over;

	put(p, 0x48, 0x8d, 0x64, 0x24, 0x80);		/* lea  -128(%rsp),%rsp: the red zone */
	put(p, 0x50, 0x51);				/* push %rax; push %rcx */
	put(p, 0x48, 0x8d, 0x8c, 0x24);			/* lea  rsp with the return address + from,%rcx */
	put32(p, 128 + 2 * 8 - (spec->code == TAIL_BACK ? 8 : 0) + ever_from(spec));
	put(p, 0x0f, 0xb7, 0xc9);			/* movzwl %cx,%ecx */
	put(p, 0x48, 0xb8);				/* movabs $ever,%rax */
	put64(p, spec->ever);
	put(p, 0x0f, 0xb6, 0x0c, 0x08);			/* movzbl (%rax,%rcx),%ecx */
	put_branch(p, 0xe3, &none);			/* jrcxz none */
	put(p, 0x59, 0x58);				/* pop  %rcx; pop %rax */
	put(p, 0x48, 0x8d, 0xa4, 0x24);			/* lea  128(%rsp),%rsp */
	put32(p, 128);
	on = put_far(p);
	land_branches(&none, *p);
	put(p, 0x59, 0x58);				/* none: pop %rcx; pop %rax */
	put(p, 0x48, 0x8d, 0xa4, 0x24);			/* lea  128(%rsp),%rsp */
	put32(p, 128);
	over = put_far(p);
	land_far(on, *p);
	return over;
}

static bool writes_note(enum tail_code code)
{
	return code == TAIL_NOTE || code == TAIL_NOTE_AGAIN || code == TAIL_ASK;
}

/* Without a note, is the body run? */
static bool runs_without(enum tail_code code)
{
	return code < TAIL_TAKE;
}

int x86_emit_tail(uint8_t *out, const struct tail_spec *spec)
{
	uint8_t *p = out, *over = writes_note(spec->code) ? NULL : put_unless_ever(&p, spec);

	put_save(&p);
	switch (spec->code) {
	case TAIL_NOTE: case TAIL_NOTE_AGAIN:
		put_note(&p, spec);
		break;
	case TAIL_AGAIN: case TAIL_PASS: case TAIL_ENTER: case TAIL_DROP:
		put_mark(&p, spec);
		break;
	case TAIL_ENTER_ONCE:
		put_enter_once(&p, spec);
		break;
	case TAIL_TAKE: case TAIL_BACK:
		put_take(&p, spec);
		break;
	case TAIL_ASK:
		put_ask_own(&p, spec);
		break;
	case TAIL_ASK_FAR:
		put_ask_far(&p, spec);
	}
	if (over)
		land_far(over, p + (runs_without(spec->code) ? 0 : spec->body));
	return p - out;
}
