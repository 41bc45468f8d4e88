/* SPDX-License-Identifier: MIT */
/*
 * What each form decodes to; every instruction stands at 0x1000.
 * Flags: P relative to the PC, F may fault, S uses the stack, R reads and W overwrites the flags.
 */
struct decode_row {
	const char *what;
	const char *hex;
	int len;
	enum insn_kind kind;
	const char *flags;
	uint64_t target;
};

static const struct decode_row decode_rows[] = {
	/* direct branches */
	{ "jmp rel8",			"eb 10",		2, INSN_JMP, "P", 0x1012 },
	{ "jmp rel8 backwards",		"eb fe",		2, INSN_JMP, "P", 0x1000 },
	{ "jmp rel32",			"e9 fb 0f 00 00",	5, INSN_JMP, "P", 0x2000 },
	{ "bnd jmp rel32",		"f2 e9 fa 0f 00 00",	6, INSN_JMP, "P", 0x2000 },
	{ "jcc rel8",			"74 10",		2, INSN_JCC, "PR", 0x1012 },
	{ "jcc over a lock prefix",	"74 01 f0 48 0f b1 0f",	2, INSN_JCC, "PR", 0x1003 },
	{ "jcc with a hint",		"3e 75 10",		3, INSN_JCC, "PR", 0x1013 },
	{ "jcc rel32",			"0f 8f fa 0f 00 00",	6, INSN_JCC, "PR", 0x2000 },
	{ "loop",			"e2 10",		2, INSN_LOOP, "P", 0x1012 },
	{ "loope reads ZF",		"e1 10",		2, INSN_LOOP, "PR", 0x1012 },
	{ "loopne reads ZF",		"e0 10",		2, INSN_LOOP, "PR", 0x1012 },
	{ "jrcxz",			"e3 10",		2, INSN_LOOP, "P", 0x1012 },
	{ "jecxz",			"67 e3 10",		3, INSN_LOOP, "P", 0x1013 },
	{ "loop with ecx",		"67 e2 10",		3, INSN_LOOP, "P", 0x1013 },
	{ "xbegin",			"c7 f8 fa 0f 00 00",	6, INSN_XBEGIN, "P", 0x2000 },
	{ "xabort goes on",		"c6 f8 01",		3, INSN_PLAIN, "", 0 },
	{ "xend",			"0f 01 d5",		3, INSN_PLAIN, "", 0 },
	{ "call rel32",			"e8 fb 0f 00 00",	5, INSN_CALL, "PS", 0x2000 },
	{ "call padded for TLS",	"66 66 48 e8 f8 0f 00 00", 8, INSN_CALL, "PS", 0x2000 },
	{ "call with address prefix",	"67 e8 fa 0f 00 00",	6, INSN_CALL, "PS", 0x2000 },

	/* indirect branches */
	{ "jmp *%rax",			"ff e0",		2, INSN_JMP_IND, "", 0 },
	{ "notrack jmp *%rax",		"3e ff e0",		3, INSN_JMP_IND, "", 0 },
	{ "jmp *%rsp",			"ff e4",		2, INSN_JMP_IND, "S", 0 },
	{ "jmp *(%rax)",		"ff 20",		2, INSN_JMP_IND, "F", 0 },
	{ "jmp *disp(%rip)",		"ff 25 fa 0f 00 00",	6, INSN_JMP_IND, "P", 0x2000 },
	{ "bnd jmp *disp(%rip)",	"f2 ff 25 f9 0f 00 00",	7, INSN_JMP_IND, "P", 0x2000 },
	{ "call *%rax",			"ff d0",		2, INSN_CALL_IND, "S", 0 },
	{ "notrack call *%rax",		"3e ff d0",		3, INSN_CALL_IND, "S", 0 },
	{ "call *8(%rax)",		"ff 50 08",		3, INSN_CALL_IND, "FS", 0 },
	{ "call *8(%rsp)",		"ff 54 24 08",		4, INSN_CALL_IND, "S", 0 },
	{ "call *disp(%rip)",		"ff 15 fa 0f 00 00",	6, INSN_CALL_IND, "PS", 0x2000 },

	/* returns and ends */
	{ "ret",			"c3",			1, INSN_RET, "S", 0 },
	{ "rep ret",			"f3 c3",		2, INSN_RET, "S", 0 },
	{ "bnd ret",			"f2 c3",		2, INSN_RET, "S", 0 },
	{ "ret imm16",			"c2 08 00",		3, INSN_RET, "S", 0 },
	{ "far ret",			"cb",			1, INSN_STOP, "S", 0 },
	{ "far jmp",			"ff 28",		2, INSN_STOP, "F", 0 },
	{ "far call",			"48 ff 18",		3, INSN_STOP, "FS", 0 },
	{ "iretq",			"48 cf",		2, INSN_STOP, "SW", 0 },
	{ "sysretq",			"48 0f 07",		3, INSN_STOP, "FW", 0 },
	{ "ud2",			"0f 0b",		2, INSN_STOP, "", 0 },
	{ "ud1",			"0f b9 c0",		3, INSN_STOP, "", 0 },
	{ "ud1 as sanitizers use it",	"67 0f b9 40 02",	5, INSN_STOP, "", 0 },
	{ "ud0",			"0f ff c0",		3, INSN_STOP, "", 0 },
	{ "hlt",			"f4",			1, INSN_STOP, "F", 0 },
	{ "int1",			"f1",			1, INSN_STOP, "", 0 },
	{ "int 0x29",			"cd 29",		2, INSN_STOP, "", 0 },
	{ "int3",			"cc",			1, INSN_INT3, "", 0 },
	{ "int 3 in two bytes",		"cd 03",		2, INSN_STOP, "", 0 },
	{ "syscall",			"0f 05",		2, INSN_SYSCALL, "W", 0 },
	{ "sysenter",			"0f 34",		2, INSN_SYSCALL, "S", 0 },
	{ "int 0x80",			"cd 80",		2, INSN_SYSCALL, "", 0 },

	/* marks and nops */
	{ "endbr64",			"f3 0f 1e fa",		4, INSN_ENDBR, "", 0 },
	{ "endbr32",			"f3 0f 1e fb",		4, INSN_ENDBR, "", 0 },
	{ "rdsspq is no nop",		"f3 48 0f 1e c8",	5, INSN_PLAIN, "", 0 },
	{ "nop",			"90",			1, INSN_NOP, "", 0 },
	{ "nop, 2 bytes",		"66 90",		2, INSN_NOP, "", 0 },
	{ "nop, 3 bytes",		"0f 1f 00",		3, INSN_NOP, "", 0 },
	{ "nop, 4 bytes",		"0f 1f 40 00",		4, INSN_NOP, "", 0 },
	{ "nop, 5 bytes",		"0f 1f 44 00 00",	5, INSN_NOP, "", 0 },
	{ "nop, 6 bytes",		"66 0f 1f 44 00 00",	6, INSN_NOP, "", 0 },
	{ "nop, 7 bytes",		"0f 1f 80 00 00 00 00",	7, INSN_NOP, "", 0 },
	{ "nop, 8 bytes",		"0f 1f 84 00 00 00 00 00", 8, INSN_NOP, "", 0 },
	{ "nop, 9 bytes",		"66 0f 1f 84 00 00 00 00 00", 9, INSN_NOP, "", 0 },
	{ "nop, 10 bytes",		"66 2e 0f 1f 84 00 00 00 00 00", 10, INSN_NOP, "", 0 },
	{ "nop, 11 bytes",		"66 66 2e 0f 1f 84 00 00 00 00 00", 11, INSN_NOP, "", 0 },
	{ "nop, 15 bytes",		"66 66 66 66 66 66 2e 0f 1f 84 00 00 00 00 00",
					15, INSN_NOP, "", 0 },
	{ "nop with rip",		"0f 1f 05 f9 0f 00 00",	7, INSN_NOP, "P", 0x2000 },
	{ "pause",			"f3 90",		2, INSN_PLAIN, "", 0 },
	{ "xchg %r8,%rax",		"49 90",		2, INSN_PLAIN, "", 0 },

	/* memory relative to rip, in every kind of encoding */
	{ "mov disp(%rip),%rax",	"48 8b 05 f9 0f 00 00",	7, INSN_PLAIN, "P", 0x2000 },
	{ "lea disp(%rip),%rax",	"48 8d 05 f9 0f 00 00",	7, INSN_PLAIN, "P", 0x2000 },
	{ "cmpb imm8,disp(%rip)",	"80 3d f9 0f 00 00 07",	7, INSN_PLAIN, "PW", 0x2000 },
	{ "movl imm32,disp(%rip)",	"c7 05 f6 0f 00 00 44 33 22 11", 10, INSN_PLAIN, "P", 0x2000 },
	{ "VEX2",			"c5 f8 10 05 f8 0f 00 00", 8, INSN_PLAIN, "P", 0x2000 },
	{ "VEX3 with imm8",		"c4 e3 79 0f 05 f6 0f 00 00 08", 10, INSN_PLAIN, "P", 0x2000 },
	{ "EVEX",			"62 f1 7c 48 10 05 f6 0f 00 00", 10, INSN_PLAIN, "P", 0x2000 },
	{ "XOP",			"8f e8 78 c0 05 f6 0f 00 00 01", 10, INSN_PLAIN, "P", 0x2000 },
	{ "relative to eip",		"67 48 8b 05 f8 0f 00 00", 8, INSN_PLAIN, "PF", 0x2000 },
	{ "eip wraps",			"67 8b 05 f8 df ff ff",	7, INSN_PLAIN, "PF", 0xffffefff },
	{ "absolute is not relative",	"8b 04 25 00 20 00 00",	7, INSN_PLAIN, "F", 0 },
	{ "mov to cr0 has no memory",	"0f 22 05",		3, INSN_PLAIN, "F", 0 },

	/* what may fault */
	{ "(%rax)",			"48 8b 00",		3, INSN_PLAIN, "F", 0 },
	{ "8(%rbp)",			"48 8b 45 08",		4, INSN_PLAIN, "", 0 },
	{ "8(%rbp,%rcx)",		"48 8b 44 0d 08",	5, INSN_PLAIN, "F", 0 },
	{ "8(%r13) is not rbp",		"49 8b 45 08",		4, INSN_PLAIN, "F", 0 },
	{ "(%rsp)",			"48 8b 04 24",		4, INSN_PLAIN, "S", 0 },
	{ "(%r12) is not rsp",		"49 8b 04 24",		4, INSN_PLAIN, "F", 0 },
	{ "(%rsp,%r12)",		"4a 8b 04 24",		4, INSN_PLAIN, "FS", 0 },
	{ "VEX (%rsp)",			"c5 f9 10 04 24",	5, INSN_PLAIN, "S", 0 },
	{ "VEX (%r12)",			"c4 c1 79 10 04 24",	6, INSN_PLAIN, "F", 0 },
	{ "EVEX (%rsp)",		"62 f1 7c 48 10 04 24",	7, INSN_PLAIN, "S", 0 },
	{ "EVEX (%r12)",		"62 d1 7c 48 10 04 24",	7, INSN_PLAIN, "F", 0 },
	{ "%fs:0x28",			"64 48 8b 04 25 28 00 00 00", 9, INSN_PLAIN, "", 0 },
	{ "%fs:(%rax)",			"64 48 8b 00",		4, INSN_PLAIN, "F", 0 },
	{ "%gs:0x28",			"65 48 8b 04 25 28 00 00 00", 9, INSN_PLAIN, "F", 0 },
	{ "lea (%rax) reads nothing",	"48 8d 00",		3, INSN_PLAIN, "", 0 },
	{ "prefetch",			"0f 18 08",		3, INSN_PLAIN, "", 0 },
	{ "rep movsb",			"f3 a4",		2, INSN_PLAIN, "F", 0 },
	{ "xlat",			"d7",			1, INSN_PLAIN, "F", 0 },
	{ "address in the bytes",	"48 a1 00 00 00 00 00 00 00 00", 10, INSN_PLAIN, "F", 0 },
	{ "maskmovdqu",			"66 0f f7 c1",		4, INSN_PLAIN, "F", 0 },
	{ "gather",			"c4 e2 69 92 04 08",	6, INSN_PLAIN, "F", 0 },
	{ "div %rcx",			"48 f7 f1",		3, INSN_PLAIN, "FW", 0 },
	{ "push (%rax)",		"ff 30",		2, INSN_PLAIN, "FS", 0 },

	/* stack and flags */
	{ "push %rbp",			"55",			1, INSN_PLAIN, "S", 0 },
	{ "mov %rsp,%rbp",		"48 89 e5",		3, INSN_PLAIN, "S", 0 },
	{ "sub $8,%rsp",		"48 83 ec 08",		4, INSN_PLAIN, "SW", 0 },
	{ "and $1,%rax is /4",		"48 83 e0 01",		4, INSN_PLAIN, "W", 0 },
	{ "movaps to xmm4",		"0f 28 e0",		3, INSN_PLAIN, "", 0 },
	{ "mov $1,%ah",			"b4 01",		2, INSN_PLAIN, "", 0 },
	{ "mov $1,%spl",		"40 b4 01",		3, INSN_PLAIN, "S", 0 },
	{ "mov $0,%esp",		"bc 00 00 00 00",	5, INSN_PLAIN, "S", 0 },
	{ "xchg %esp,%eax",		"94",			1, INSN_PLAIN, "S", 0 },
	{ "andn with rsp in vvvv",	"c4 e2 d8 f2 c0",	5, INSN_PLAIN, "SW", 0 },
	{ "leave",			"c9",			1, INSN_PLAIN, "S", 0 },
	{ "enter",			"c8 10 00 00",		4, INSN_PLAIN, "S", 0 },
	{ "pushf",			"9c",			1, INSN_PLAIN, "SR", 0 },
	{ "popf",			"9d",			1, INSN_PLAIN, "SW", 0 },
	{ "lahf",			"9f",			1, INSN_PLAIN, "R", 0 },
	{ "sahf leaves OF",		"9e",			1, INSN_PLAIN, "", 0 },
	{ "inc leaves CF",		"ff c0",		2, INSN_PLAIN, "", 0 },
	{ "test",			"85 c0",		2, INSN_PLAIN, "W", 0 },
	{ "adc",			"11 c0",		2, INSN_PLAIN, "RW", 0 },
	{ "shl %cl may do nothing",	"d3 e0",		2, INSN_PLAIN, "", 0 },
	{ "cmov",			"0f 44 c1",		3, INSN_PLAIN, "R", 0 },
	{ "lock cmpxchg",		"f0 48 0f b1 0f",	5, INSN_PLAIN, "FW", 0 },
};

/* Bytes that are no instruction. */
static const char *const undecodable_rows[] = {
	"06",			/* push %es went away with 64 bits */
	"9a 00 00 00 00 00 00",	/* call with a far address, too */
	"48",			/* the rest is missing */
	"e8 00 00 00",
	"0f",
	"f0 90",		/* lock nop */
	"66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90",	/* 16 bytes */
};
