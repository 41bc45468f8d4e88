/* SPDX-License-Identifier: MIT */
/*
 * .eh_frame: the one table that even a stripped program keeps. Of each FDE its code range, its exception table, and
 * whether its first row is that of a function's entry (only the return address is on the stack, if calls push it). A piece
 * that starts with another row was split off from another function.
 */
#include "arch/arch.h"
#include "sym/priv.h"
#include "sym/names/sort.h"

/* Linkers keep one CIE per kind, not per FDE; a few slots cache all that are in use. */
#define CIE_SLOTS 64

struct frames {
	struct bytes b;
	bool size_known;
	struct frame_cie cies[CIE_SLOTS];
};

/* Runs call frame instructions up to the first that advances to a later address. */
static void first_row(struct reader *r, struct frame_row *row)
{
	while (r->p < r->end && !r->bad) {
		uint8_t op = read_u8(r);

		if (op >> 6 == 1)
			return;		/* advance_loc */
		if (op >> 6 == 2)
			read_uleb(r);	/* offset */
		if (op >> 6)
			continue;
		switch (op) {
		case 0x00: case 0x0a: case 0x0b: case 0x2d:
			break;
		case 0x06: case 0x07: case 0x08: case 0x2e:
			read_uleb(r);
			break;
		case 0x05: case 0x09: case 0x11: case 0x14: case 0x15: case 0x2f:
			read_uleb(r);
			read_uleb(r);
			break;
		case 0x0c:		/* def_cfa */
			row->reg = read_uleb(r);
			row->offset = read_uleb(r);
			row->known = true;
			break;
		case 0x0d:		/* def_cfa_register */
			row->reg = read_uleb(r);
			break;
		case 0x0e:		/* def_cfa_offset */
			row->offset = read_uleb(r);
			break;
		case 0x0f:		/* def_cfa_expression */
			read_skip(r, read_uleb(r));
			row->known = false;
			break;
		case 0x10: case 0x16:
			read_uleb(r);
			read_skip(r, read_uleb(r));
			break;
		case 0x01: case 0x02: case 0x03: case 0x04:
			return;		/* set_loc, advance_loc1, 2, 4 */
		default:
			row->known = false;
			return;
		}
	}
}

/* The bytes of one entry after its length; false at the end of the table. */
static bool next_entry(const struct frames *f, uint64_t *at, struct reader *ret)
{
	uint64_t len, head = 4;

	for (;;) {
		if (f->b.n - *at < 4)
			return false;
		len = get32(f->b.p + *at);
		if (len)
			break;
		if (!f->size_known)
			return false;	/* the terminator */
		*at += 4;
	}
	if (len == 0xffffffff) {
		if (f->b.n - *at < 12)
			return false;
		len = get64(f->b.p + *at + 4);
		head = 12;
	}
	if (len > f->b.n - *at - head)
		return false;
	*ret = reader_of((struct bytes){ f->b.p + *at + head, len, f->b.addr + *at + head });
	*at += head + len;
	return true;
}

static void parse_augmentation(struct reader *r, const char *aug, struct frame_cie *c)
{
	uint64_t len = read_uleb(r);
	const uint8_t *end;

	if (r->bad || len > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return;
	}
	end = r->p + len;
	for (; *aug; aug++) {
		switch (*aug) {
		case 'R':
			c->fde_enc = read_u8(r);
			break;
		case 'L':
			c->lsda_enc = read_u8(r);
			c->has_lsda = true;
			break;
		case 'P': {
			uint8_t enc = read_u8(r);

			read_encoded(r, enc & 0x0f, 0);
			break;
		}
		case 'S':
			c->signal = true;
			break;
		case 'B':
			break;
		default:
			c->has_lsda = false;
			aug += strlen(aug) - 1;
		}
	}
	if (r->p > end)
		r->bad = true;
	else
		r->p = end;
}

static void parse_cie(const struct frames *f, uint64_t at, struct frame_cie *c)
{
	const char *aug;
	struct reader r;
	uint8_t version;

	*c = (struct frame_cie){ .at = at + 1 };
	if (!next_entry(f, &at, &r) || read_u32(&r) != 0)
		return;
	version = read_u8(&r);
	aug = (const char *)r.p;
	if (r.bad || !memchr(r.p, 0, r.end - r.p))
		return;
	read_skip(&r, strlen(aug) + 1);
	c->code_align = read_uleb(&r);
	c->data_align = read_sleb(&r);
	c->ra = version == 1 ? read_u8(&r) : read_uleb(&r);
	c->augmented = aug[0] == 'z';
	if (c->augmented)
		parse_augmentation(&r, aug + 1, c);
	else if (aug[0])
		r.bad = true;		/* obsolete augmentation "eh" */
	c->ok = !r.bad && (version == 1 || version == 3);
	c->program = r;
	first_row(&r, &c->row);
}

static const struct frame_cie *get_cie(struct frames *f, uint64_t at)
{
	struct frame_cie *c = &f->cies[(at / 8) % CIE_SLOTS];

	if (c->at != at + 1)
		parse_cie(f, at, c);
	return c->ok ? c : NULL;
}

static bool parse_fde(const struct frame_cie *c, struct reader *r, struct frame_fde *ret)
{
	const uint8_t *end;
	uint64_t len;

	ret->cie = c;
	ret->lsda = 0;
	ret->lo = read_encoded(r, c->fde_enc, 0);
	len = read_encoded(r, c->fde_enc & 0x0f, 0);
	ret->hi = ret->lo + len;
	if (c->augmented) {
		len = read_uleb(r);
		if (r->bad || len > (uint64_t)(r->end - r->p))
			return false;
		end = r->p + len;
		if (c->has_lsda && len)
			ret->lsda = read_encoded(r, c->lsda_enc, 0);
		r->bad = false;		/* the range is valid even if the LSDA is not */
		r->p = end;
	}
	ret->program = *r;
	return !r->bad && ret->hi > ret->lo;
}

/* Without section headers .eh_frame_hdr has the start of the table, but not its end. */
static struct bytes frames_by_header(const struct image *e)
{
	uint64_t addr = 0;
	struct reader r;
	struct bytes h;
	size_t i;

	for (i = 0; i < e->nph; i++)
		if (e->ph[i].p_type == PT_GNU_EH_FRAME)
			addr = e->ph[i].p_vaddr;
	h = image_vaddr(e, addr);
	if (!addr || h.n < 8 || h.p[0] != 1)
		return (struct bytes){ 0 };
	r = reader_of(h);
	read_skip(&r, 4);
	return image_vaddr(e, read_encoded(&r, h.p[1], addr));
}

static void sort_fdes(struct sym_priv *p)
{
	struct fde_range *sorted;
	struct sort_key *keys;
	size_t i;

	for (i = 1; i < p->fdes.n && p->fdes.v[i - 1].lo <= p->fdes.v[i].lo; i++)
		;
	if (i >= p->fdes.n)
		return;
	keys = xcalloc(p->fdes.n, sizeof(*keys));
	sorted = xcalloc(p->fdes.n, sizeof(*sorted));
	for (i = 0; i < p->fdes.n; i++)
		keys[i] = (struct sort_key){ p->fdes.v[i].lo, i };
	sort_keys(keys, p->fdes.n);
	for (i = 0; i < p->fdes.n; i++)
		sorted[i] = p->fdes.v[keys[i].index];
	free(keys);
	free(p->fdes.v);
	p->fdes.v = sorted;
	p->fdes.cap = p->fdes.n;
}

void frames_each(struct module *m, void (*each)(void *arg, const struct frame_fde *fde), void *arg)
{
	struct sym_priv *p = priv(m);
	struct frames f = { .size_known = true };
	const Elf64_Shdr *sh = image_section(&p->image, ".eh_frame");
	const struct frame_cie *c;
	uint64_t at = 0, begin;
	struct reader r;

	f.b = image_section_bytes(&p->image, sh);
	if (!f.b.p) {
		f.b = frames_by_header(&p->image);
		f.size_known = false;
	}
	while (f.b.p && next_entry(&f, &at, &r)) {
		struct frame_fde fde;
		uint32_t id;

		begin = r.p - f.b.p;
		id = read_u32(&r);
		if (r.bad || id == 0 || id > begin)
			continue;
		c = get_cie(&f, begin - id);
		if (c && parse_fde(c, &r, &fde) && in_text(m, fde.lo))
			each(arg, &fde);
	}
}

static void add_range(void *arg, const struct frame_fde *fde)
{
	struct frame_row row = fde->cie->row;
	struct reader r = fde->program;
	const struct module *m = arg;

	first_row(&r, &row);
	*vec_add(&priv(m)->fdes) = (struct fde_range){
		.lo = fde->lo, .hi = fde->hi, .lsda = fde->lsda,
		.first_cfa_is_entry = !fde->cie->signal && row.known && reg_of_dwarf(m->arch->regs, row.reg) == m->arch->regs->sp &&
				      row.offset == m->arch->c_call->pushes,
	};
}

void fdes_read(struct module *m)
{
	frames_each(m, add_range, m);
	sort_fdes(priv(m));
}

size_t module_fdes(struct module *m, const struct fde_range **ret_fdes)
{
	*ret_fdes = priv(m)->fdes.v;
	return priv(m)->fdes.n;
}
