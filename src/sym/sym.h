/* SPDX-License-Identifier: MIT */
/*
 * Modules and their functions. A module is one ELF file; everything known of it is in link addresses (those of its
 * own symbol table and program headers). Nothing here depends on a live process, but a `root` may be given below
 * which files are found (/proc/PID/root), so that a container's own libraries and debug files are read.
 *
 * The file is untrusted input: every offset and count in it may be wrong.
 */
#ifndef JAB_SYM_H
#define JAB_SYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "arch/arch.h"
#include "base/mem.h"
#include "sym/runtime/runtime.h"

enum func_source {
	FROM_SYMTAB, FROM_DYNSYM, FROM_DEBUG_FILE, FROM_MINI_DEBUG, FROM_EH_FRAME,
	FROM_GO_TABLE,		/* .gopclntab of a stripped Go program */
};

enum func_flags {
	FUNC_IFUNC = 1 << 0,	/* addr is the resolver, not the code that runs */
	FUNC_COLD = 1 << 1,	/* a cold part of another function: not an entry */
	FUNC_SIZE_GUESSED = 1 << 2, /* the symbol's size is 0; taken from the FDE or the next function */
};

/*
 * A function: code that begins at addr; it may have several names. Sorted by addr, one per addr. name is the raw
 * (mangled) name, chosen among the aliases: global before local, fewest leading underscores first; NULL if only
 * .eh_frame has the function (shown as func_0xADDR, see func_name()).
 */
struct func {
	uint64_t addr, size;
	const char *name;
	uint32_t alias;		/* first of its names in module.names */
	uint16_t nalias;	/* number of its names; 0: it has none */
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
	const struct arch *arch;
	bool is_exec;		/* ET_EXEC: link addresses are live addresses */
	const struct runtime *runtime;
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
 * Opens a file. root is "" or a prefix such as "/proc/77/root"; path is the name below it. Debug files are found
 * below the same root (/usr/lib/debug/.build-id/xx/yyyy.debug, .gnu_debuglink), then below the tracer's own. Not
 * ELF, truncated, 32-bit, another CPU: an error with a message each.
 */
int module_open(const char *root, const char *path, struct module **ret_module);

/* Like module_open(), from an open descriptor (e.g. /proc/PID/map_files/...); path is only its name. */
int module_open_fd(int fd, const char *root, const char *path, struct module **ret_module);

/* Like module_open(), from memory (the vDSO); the bytes are copied. */
int module_open_memory(const void *bytes, size_t size, const char *name, struct module **ret_module);
void module_close(struct module *m);

/*
 * gocode.c. module_is_go_code(): whether addr is in code that the Go compiler made, not in C code linked with it;
 * true if that can't be decided, but g is not known then. module_go_g(): offset of g from the thread pointer; 0:
 * not known.
 */
bool module_is_go_code(struct module *m, uint64_t addr);
int32_t module_go_g(struct module *m);

/*
 * A Go function that needs stack begins by comparing the stack pointer with its limit. module_behind_go_check():
 * the address after that comparison and the branch to the run time; `entry` if the function does not compare.
 */
uint64_t module_behind_go_check(const struct module *m, uint64_t entry);

/* The file's bytes at a link address: NULL if [addr, addr+len) is not in one file-backed segment. */
const uint8_t *module_bytes(const struct module *m, uint64_t addr, size_t len);

/* The function whose range contains addr; NULL if there is none. */
const struct func *module_func_at(const struct module *m, uint64_t addr);

/* Finds a variable in the symbol tables; its link address and size. */
bool module_object(const struct module *m, const char *name, uint64_t *ret_addr, uint64_t *ret_size);

/*
 * Thread-local storage. module_tls(): offset of the main program's block from the thread pointer; false: the file
 * has none. module_tls_slot(): a slot into which the loader has written the offset, from the thread pointer, of
 * byte *ret_byte of the file's block; false: there is none. module_tls_symbol(): the byte of the block that a
 * symbol names.
 */
bool module_tls(const struct module *m, int64_t *ret_program_off);
bool module_tls_slot(struct module *m, uint64_t *ret_slot, int64_t *ret_byte);
bool module_tls_symbol(const struct module *m, const char *name, uint64_t *ret_byte);

bool module_dynamic(const struct module *m, uint64_t *ret_addr);	/* PT_DYNAMIC, link address */

/* The name of a function as it is shown: demangled, or func_0x1234. The text lives with the module. */
const char *func_name(struct module *m, const struct func *f);

/* Demangles a C++ (Itanium) or Rust name; NULL if it is neither. The caller frees the result. */
char *demangle(const char *name);

/*
 * A probe as the user wrote it:
 *   probe := [NAME "="] [kind ":"] [object ":"] place
 *   place := func | glob | /regex/ | func+off | 0xADDR | func%return | @file:line
 * Kinds: uprobe|u (default), uretprobe|ur (= %return), insn (every instruction of the functions that match), call
 * (entry and exits as one), usdt|U (static tracepoints: the place is a name or glob, and may have PROVIDER: in front,
 * and the object in front of that or, if it is a path, instead of that). Numbers: 0NNN, NNN, 0xNNN. C++ names contain
 * "::", which is not a separator: "ns::f(int)" is a place. Any other kind: -ENOTSUP with a message.
 */
enum spec_kind { SPEC_ENTRY, SPEC_RETURN, SPEC_INSNS, SPEC_CALL, SPEC_USDT };
enum place_kind { PLACE_NAME, PLACE_GLOB, PLACE_REGEX, PLACE_ADDR, PLACE_LINE };

struct probe_spec {
	char *text;		/* as written */
	char *name;		/* NAME or NULL */
	char *object;		/* path, name, "exe", "*"; NULL: not given (exe first, then all) */
	char *provider;		/* SPEC_USDT: glob; NULL: any */
	char *place;		/* name, glob or regex */
	char *rest;		/* the text after the place: fields, condition; NULL: none */
	uint64_t addr;		/* PLACE_LINE: line number. PLACE_ADDR: live address if a process is probed and no object is
				   given, else link address */
	uint64_t offset;	/* func+off */
	bool has_offset;
	uint8_t kind, place_kind;
	void *regex;		/* compiled, PLACE_REGEX */
};

int spec_parse(const char *text, struct probe_spec **ret_spec);
void spec_free(struct probe_spec *spec);

/* Escapes a function's name so that spec_parse() reads it back as this place. The caller frees the result. */
char *spec_quote(const char *name);
char *spec_quote_object(const char *name);	/* for the name of a file */

/* The file that the loader has for "libc" or "libssl.so.3", else the program of that name in PATH. Caller frees; NULL: there is none. */
char *find_object_path(const char *name);

/* Whether the object part names this file. is_exe: it is the main program. "libc" matches libc.so.6. */
bool spec_matches_object(const struct probe_spec *spec, const char *path, bool is_exe);

/*
 * Finds the functions of m that the place names, as indexes into m->funcs, sorted, each once. Raw and demangled
 * names (with and without the parameter list) match, and so do all aliases. Cold parts and PLT stubs never match a
 * glob. Returns how many were added (0 is no error).
 */
typedef VEC(uint32_t) func_list;
int spec_match(const struct probe_spec *spec, struct module *m, func_list *list);

/* Finds names similar to one that was not found, for the error message: writes up to `most` names, comma separated. */
void suggest_names(struct module *const *modules, size_t n, const char *wanted, int most, char *out, size_t room);

/*
 * Addresses at which code can be entered other than from the instruction before or by a direct branch: exception
 * landing pads (LSDA), words and relocations that point into text (8-byte tables), symbols. Calls add() for each;
 * addresses outside of executable segments are left out.
 */
void module_landing_pads(struct module *m, uint64_t lo, uint64_t hi, void (*add)(void *arg, uint64_t addr), void *arg);
bool module_is_guarded(struct module *m, uint64_t addr);	/* an exception thrown because of a fault at addr would be
								   caught */
void module_text_pointers(struct module *m, void (*add)(void *arg, uint64_t addr), void *arg);

/*
 * Slots that hold the implementation chosen by an ifunc's resolver, once the loader has run: reading the slot in
 * the live process finds the code of a FUNC_IFUNC. Link addresses; all IRELATIVE relocations, and those of this
 * module's slots against its own ifunc symbols.
 */
struct irel { uint64_t resolver, slot; };
size_t module_irelative(struct module *m, const struct irel **ret_irels);

/* Does only the loader write the word there? Others may be variables of the program, which change. */
bool module_is_loaders_slot(struct module *m, uint64_t addr);

/* FDE ranges, sorted by start; first_cfa_is_entry: the first row has the CFA of a function's entry. */
struct fde_range { uint64_t lo, hi; bool first_cfa_is_entry; uint64_t lsda; };
size_t module_fdes(struct module *m, const struct fde_range **ret_fdes);

/* The traced program's own restartable sequences (section __rseq_cs): start, length, abort. */
struct rseq_range { uint64_t start, len, abort; };
size_t module_rseqs(struct module *m, const struct rseq_range **ret_ranges);

#endif
