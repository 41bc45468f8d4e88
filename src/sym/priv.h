/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder only. */
#ifndef JAB_SYM_PRIV_H
#define JAB_SYM_PRIV_H

#include "base/file.h"
#include "sym/elf/image.h"
#include "sym/sym.h"

/*
 * A symbol that may be a function, before all sources are merged. The needed properties of its name are noted while
 * the table is read in order: later, names are visited in random order, with a cache miss each.
 */
struct raw_symbol {
	uint64_t addr, size;
	const char *name;
	uint16_t len;
	uint8_t source, type, local;
	uint8_t underscores;	/* leading underscores, not counting the one of _Z and _R */
	bool cold;
};
typedef VEC(struct raw_symbol) raw_list;

/* In a damaged table every symbol may point into one endless string. */
#define MOST_NAME 32768

/* The bytes of a file, mapped or copied (content.c). p is NULL if there are none. */
struct content { uint8_t *p; size_t size; bool mapped; };

/* Another ELF file with names for a module: a debug file or unpacked mini debug info. */
struct extra {
	struct image image;
	struct content content;	/* of a file */
	void *heap;
	char *path;		/* below its root; NULL if it is in memory */
	uint8_t source;
};

struct types;
struct usdts;
struct range { uint64_t lo, hi; };

struct sym_priv {
	struct image image;
	struct content content;
	void *heap;
	char *root;			/* files are searched below it; NULL: they are not searched */
	struct types *types;		/* NULL until it is first needed */
	bool types_refused;		/* debug info was refused, and the user was warned */
	struct extra extra;		/* image.p is NULL if there is none */
	VEC(struct range) text;		/* file-backed parts of executable segments */
	VEC(struct range) plt;
	VEC(char *) chunks;		/* strings made here; they live with the module */
	char *chunk_at;
	size_t chunk_left;
	VEC(struct fde_range) fdes;
	uint32_t *outer;	/* per function: the nearest one before it that ends later, or ~0 */
	const char **readable;	/* per name: demangled; "": not mangled; NULL: not demangled yet */
	const char **shown;	/* per function: the result of func_name() */
	bool have_irels, have_rseqs, have_strays;
	bool catches_faults;	/* lsda.c; valid if have_strays */
	VEC(struct irel) irels;
	VEC(uint64_t) slots;	/* that the loader writes, sorted */
	bool have_slots;
	VEC(struct rseq_range) rseqs;
	VEC(uint64_t) strays;		/* landing pads outside their own FDE, sorted */
	bool have_go_table, have_go;
	struct bytes go_table;
	struct range go_code;		/* empty: there is none, or it is not known */
	int32_t go_g;
	bool have_unwind;
	struct unwind_data *unwind;	/* NULL: nothing is known of any code */
	struct range unwind_code;
	uint64_t unwind_read;		/* bytes of code that were read to make it */
	struct usdts *usdts;		/* NULL until they are first wanted */
};

static inline struct sym_priv *priv(const struct module *m)
{
	return m->priv;
}

/* Whether addr is in executable, file-backed bytes. There is usually one range, so this is one comparison. */
static inline bool in_text(const struct module *m, uint64_t addr)
{
	const struct sym_priv *p = m->priv;
	size_t i;

	for (i = 0; i < p->text.n; i++)
		if (addr - p->text.v[i].lo < p->text.v[i].hi - p->text.v[i].lo)
			return true;
	return false;
}

char *module_string(struct module *m, const char *s, size_t len);

/*
 * content.c. root: the directory that the path is relative to, as for open_below(). content_check() reports after
 * reading whether a mapped file was truncated meanwhile; content_duplicate() makes a writable copy.
 */
int content_read(int fd, const char *root, const char *path, struct content *ret_content);
int content_check(const struct content *c, const char *path);
int content_duplicate(const uint8_t *p, size_t size, const char *path, struct content *ret_content);
void content_free(struct content *c);
uint64_t content_most(void);	/* bytes that may be copied or unpacked of one file */

/* guard.c: file mappings in which a read beyond the end of the file returns zeros. false: no room for another mapping */
bool guard_add(const void *p, size_t size);
bool guard_hit(const void *p);
void guard_remove(const void *p);

/* debugfile.c */
#define DEBUG_DIR "/usr/lib/debug"
void extra_find(struct module *m, const char *root);
void extra_close(struct extra *x);
bool image_has_dwarf(const struct image *e);
bool extra_find_dwarf(struct module *m, struct extra *ret_extra);	/* a debug file with more than names */
char *build_id_path(const uint8_t *id, size_t len);	/* of its debug file; caller frees */

/* usdt/notes.c */
void usdts_close(struct usdts *u);

/* types.c */
void types_close(struct types *t);

/* symbols.c, gotab.c */
void symbols_collect(struct module *m, raw_list *list);
void raw_add(raw_list *list, struct raw_symbol s, size_t len);
void go_collect(struct module *m, raw_list *list);
struct bytes go_table(const struct module *m);		/* .gopclntab; p is NULL if there is none */
uint64_t go_text_start(const struct module *m, struct bytes table);
struct bytes go_part(struct bytes table, size_t header_at);

/* start.c: finds main by the program's first instructions */
void main_collect(struct module *m, raw_list *list);

/* funcs.c */
void funcs_build(struct module *m);

/* ehframe.c */
void fdes_read(struct module *m);

/* reloc.c: every dynamic relocation of the file, RELR unpacked into elf_abi.relative */
struct reloc { uint64_t offset, addend; uint32_t type, symbol; };
void relocs_each(const struct module *m, void (*each)(void *arg, const struct reloc *r), void *arg);

/* dwarf.c: a reader that never reads outside of its bytes; after an error everything reads as 0 */
struct reader { const uint8_t *start, *p, *end; uint64_t addr; bool bad; };
struct reader reader_of(struct bytes b);
uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);
uint64_t read_uleb(struct reader *r);
int64_t read_sleb(struct reader *r);
void read_skip(struct reader *r, uint64_t n);
/* A pointer in the encoding DW_EH_PE_*; data is the base of datarel. 0 means none, and stays 0. */
uint64_t read_encoded(struct reader *r, uint8_t encoding, uint64_t data);

/*
 * ehframe.c: the entries of .eh_frame, in the file's order. program: the call frame instructions; cie is valid only
 * during the call.
 */
struct frame_row { uint64_t reg, offset; bool known; };
struct frame_cie {
	uint64_t at;		/* offset in the section plus 1: 0 means that this slot is empty */
	bool ok, augmented, signal, has_lsda;
	uint8_t fde_enc, lsda_enc;
	uint64_t code_align, ra;
	int64_t data_align;
	struct reader program;
	struct frame_row row;	/* the first row */
};
struct frame_fde {
	uint64_t lo, hi, lsda;
	struct reader program;
	const struct frame_cie *cie;
};
void frames_each(struct module *m, void (*each)(void *arg, const struct frame_fde *fde), void *arg);

/* demangle.c */
const char *name_readable(struct module *m, uint32_t name);	/* NULL if it is not mangled */
struct name_parts { size_t start, params; };	/* start: after the return type; params: where "(int)" begins */
struct name_parts name_split(const char *readable);
/* The length of an operator name ("operator<") at s[i], whose < > ( ) are not brackets; 0 if there is none. */
size_t operator_len(const char *s, size_t i);
/* How s[i] changes the depth of brackets: 1, -1, 0. The > of "->" does not. */
int bracket_step(const char *s, size_t i);

/* spec.c: removes backslashes. The caller frees the result. */
char *unescape(const char *s, size_t len);
bool spec_is_literal(const struct probe_spec *spec);	/* contains characters of a pattern, but is tried as a name first */

/* match.c */
bool glob_match(const char *glob, const char *s, size_t len);

#endif
