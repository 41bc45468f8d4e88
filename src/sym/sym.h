/* SPDX-License-Identifier: MIT */
/*
 * Modules and their functions. A module is one ELF file; what is known of it is in link addresses
 * (as its own symbol table and program headers count). Nothing here knows a live process, but a
 * `root` may be given through which files are found (/proc/PID/root), so that a container's own
 * libraries and debug files are read.
 *
 * The file is foreign input: every offset and count in it may be a lie.
 */
#ifndef JAB_SYM_H
#define JAB_SYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/mem.h"

enum func_source {
	FROM_SYMTAB, FROM_DYNSYM, FROM_DEBUG_FILE, FROM_MINI_DEBUG, FROM_EH_FRAME,
	FROM_GO_TABLE,		/* .gopclntab of a stripped Go program */
};

enum func_flags {
	FUNC_IFUNC = 1 << 0,	/* addr is the resolver, not the code that runs */
	FUNC_COLD = 1 << 1,	/* a cold part of another function: not an entry */
	FUNC_SIZE_GUESSED = 1 << 2, /* the table said 0; taken from the FDE or the next function */
};

/*
 * One piece of code that begins at addr; several names may mean it. Sorted by addr, one per addr.
 * name is the raw (mangled) name that a person would choose among the aliases: global before local,
 * shortest leading underscores first; NULL where only .eh_frame knows the function (shown as
 * func_0xADDR, see func_name()).
 */
struct func {
	uint64_t addr, size;
	const char *name;
	uint32_t alias;		/* first of its names in module.names */
	uint16_t nalias;	/* how many; 0 where there is no name */
	uint8_t source, flags;
};

struct segment {
	uint64_t addr, memsz, filesz, offset;
	uint32_t prot;		/* PROT_READ... */
};

struct name_ref { const char *name; uint32_t func; };	/* sorted by func */

struct module {
	char *path;		/* as the user or the target names it */
	const uint8_t *image;	/* the file's bytes, mapped read-only (private) */
	size_t image_size;
	uint16_t machine;	/* EM_X86_64 */
	bool is_exec;		/* ET_EXEC: link addresses are live addresses */
	bool is_go;
	uint8_t build_id[32];
	size_t build_id_len;
	uint64_t entry;		/* e_entry */
	uint64_t lo, hi;	/* span of all PT_LOAD segments in link addresses */
	VEC(struct segment) segments;
	VEC(struct func) funcs;
	VEC(struct name_ref) names;
	void *priv;		/* sym's own: ELF handles, debug file, string storage */
};

/*
 * Open a file. root is "" or a prefix such as "/proc/77/root"; path is the name below it. Debug
 * files are found below the same root (/usr/lib/debug/.build-id/xx/yyyy.debug, .gnu_debuglink),
 * then below our own. Errors: not ELF, truncated, 32-bit, another CPU: each a clear sentence.
 */
int module_open(const char *root, const char *path, struct module **ret_module);

/* The same from an open descriptor (e.g. /proc/PID/map_files/...), path only names it. */
int module_open_fd(int fd, const char *root, const char *path, struct module **ret_module);

/* The same from memory (the vDSO); the bytes are copied. */
int module_open_memory(const void *bytes, size_t size, const char *name, struct module **ret_module);
void module_close(struct module *m);

/*
 * gocode.c: is it Go's own code, not C's beside it? Yes, if that can't be told; but g is not known then. And where is g,
 * from the thread pointer? 0: not known.
 */
bool module_is_go_code(struct module *m, uint64_t addr);
int32_t module_go_g(struct module *m);

/*
 * A Go function that needs stack begins by comparing the stack pointer with its limit. What comes behind that and the
 * branch to the run time; entry: it does not compare. And is this instruction, of a Go function, such a comparison?
 */
uint64_t module_behind_go_check(const struct module *m, uint64_t entry);
bool go_compares_stack(const uint8_t *code, size_t len);

/* The file bytes behind a link address: NULL if [addr, addr+len) is not in one file-backed segment. */
const uint8_t *module_bytes(const struct module *m, uint64_t addr, size_t len);

/* The function whose [addr, addr+size) holds addr; NULL if none. */
const struct func *module_func_at(const struct module *m, uint64_t addr);

/* A variable of the symbol tables; link address. */
bool module_object(const struct module *m, const char *name, uint64_t *ret_addr, uint64_t *ret_size);

/*
 * Thread-local storage. Where a program's own block begins, from the thread pointer; false: the file has none. A
 * slot into which the loader has written where byte `byte` of the file's own block is, from the thread pointer; false:
 * there is none. The byte of a block that a symbol names.
 */
bool module_tls(const struct module *m, int64_t *ret_program_off);
bool module_tls_slot(struct module *m, uint64_t *ret_slot, int64_t *ret_byte);
bool module_tls_symbol(const struct module *m, const char *name, uint64_t *ret_byte);

bool module_dynamic(const struct module *m, uint64_t *ret_addr);	/* PT_DYNAMIC, link address */

/* How a function is shown to a person: demangled, or func_0x1234. The text lives with the module. */
const char *func_name(struct module *m, const struct func *f);

/* C++ (Itanium) or Rust name made readable; NULL if it is neither. Caller frees. */
char *demangle(const char *name);

/*
 * A probe as the user wrote it:
 *   probe := [NAME "="] [kind ":"] [object ":"] place
 *   place := func | glob | /regex/ | func+off | 0xADDR | func%return | @file:line
 * kinds of this stage: uprobe|u (default), uretprobe|ur (= %return), insn (every instruction of
 * the functions that match), call (entry and exits as one). Numbers: 0NNN, NNN, 0xNNN. C++ names contain "::", which is no
 * separator: "ns::f(int)" is a place. Any other kind: -ENOTSUP with a sentence.
 */
enum spec_kind { SPEC_ENTRY, SPEC_RETURN, SPEC_INSNS, SPEC_CALL };
enum place_kind { PLACE_NAME, PLACE_GLOB, PLACE_REGEX, PLACE_ADDR, PLACE_LINE };

struct probe_spec {
	char *text;		/* as written */
	char *name;		/* NAME or NULL */
	char *object;		/* path, name, "exe", "*"; NULL: not given (exe first, then all) */
	char *place;		/* name, glob or regex */
	char *rest;		/* what follows the place: fields, condition; NULL: nothing */
	uint64_t addr;		/* PLACE_LINE: its number. PLACE_ADDR: link address if object is given and a file is asked, else live */
	uint64_t offset;	/* func+off */
	bool has_offset;
	uint8_t kind, place_kind;
	void *regex;		/* compiled, PLACE_REGEX */
};

int spec_parse(const char *text, struct probe_spec **ret_spec);
void spec_free(struct probe_spec *spec);

/* A function's name such that spec_parse() reads it back as this place, escaped if need be. Caller frees. */
char *spec_quote(const char *name);
char *spec_quote_object(const char *name);	/* the same for the name of a file */

/* Does the object part mean this file? is_exe: it is the main program. "libc" matches libc.so.6. */
bool spec_matches_object(const struct probe_spec *spec, const char *path, bool is_exe);

/*
 * The functions of m that the place means, as indexes into m->funcs, sorted, each once. Raw and
 * demangled names (with and without the parameter list) both match, all aliases do. Cold parts and
 * PLT stubs never match a glob. Returns how many were added (0 is no error).
 */
typedef VEC(uint32_t) func_list;
int spec_match(const struct probe_spec *spec, struct module *m, func_list *list);

/* Names near to one that was not found, for the error message: writes up to `most` names, comma separated. */
void suggest_names(struct module *const *modules, size_t n, const char *wanted, int most, char *out, size_t room);

/*
 * Where code can be entered other than by falling into it or by a direct branch: exception landing
 * pads (LSDA), words and relocations that point into text (8-byte tables), symbols. Calls add() for
 * each; addresses outside executable segments are left out.
 */
void module_landing_pads(struct module *m, uint64_t lo, uint64_t hi, void (*add)(void *arg, uint64_t addr), void *arg);
bool module_is_guarded(struct module *m, uint64_t addr);	/* a fault made an exception there would be caught */
void module_text_pointers(struct module *m, void (*add)(void *arg, uint64_t addr), void *arg);

/*
 * Slots that hold the implementation an ifunc's resolver chose, once the loader has run: read the
 * slot in the live process to find the code behind a FUNC_IFUNC. Link addresses; all IRELATIVE
 * relocations, and those of this module's slots against its own ifunc symbols.
 */
struct irel { uint64_t resolver, slot; };
size_t module_irelative(struct module *m, const struct irel **ret_irels);

/* FDE ranges, sorted by start; first_cfa_is_entry: the first row has CFA = rsp+8. */
struct fde_range { uint64_t lo, hi; bool first_cfa_is_entry; uint64_t lsda; };
size_t module_fdes(struct module *m, const struct fde_range **ret_fdes);

/* Restartable sequences the program brings itself (section __rseq_cs): start, length, abort. */
struct rseq_range { uint64_t start, len, abort; };
size_t module_rseqs(struct module *m, const struct rseq_range **ret_ranges);

#endif
