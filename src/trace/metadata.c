/* SPDX-License-Identifier: MIT */
/*
 * The metadata file. It must be complete at every moment, or the packets can't be read: a write that SIGKILL
 * interrupts may stop at a page boundary, so a block is written in one go where it does not cross one, after
 * newlines if need be. The first block, and one larger than a page, are written to a hidden copy that then replaces
 * the file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "sym/types/types.h"
#include "trace/writer.h"

#define HIDDEN ".metadata"

static int write_at(int fd, const char *text, size_t len, uint64_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, text, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		text += n;
		at += n;
		len -= n;
	}
	return 0;
}

static int copy_old(struct ctf *ctf, int fd)
{
	char part[16384];
	uint64_t at = 0;

	while (at < ctf->meta_size) {
		ssize_t n = pread(ctf->meta, part, MIN(sizeof(part), ctf->meta_size - at), at);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		r = write_at(fd, part, n, at);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

/* Writes the whole file again, with this text at its end. */
static int meta_replace(struct ctf *ctf, const char *text, size_t len)
{
	int fd = openat(ctf->dir, HIDDEN, CTF_NEW_FILE, 0600), r;

	if (fd < 0)
		return -errno;
	r = ctf->meta >= 0 ? copy_old(ctf, fd) : 0;
	if (r == 0)
		r = write_at(fd, text, len, ctf->meta_size);
	if (r == 0 && renameat(ctf->dir, HIDDEN, ctf->dir, "metadata") < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(ctf->dir, HIDDEN, 0);
		close(fd);
		return r;
	}
	if (ctf->meta >= 0)
		close(ctf->meta);
	ctf->meta = fd;
	ctf->meta_size += len;
	return 0;
}

static int append_within_page(struct ctf *ctf, const char *text, size_t len)
{
	static const char newlines[] = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n";
	uint64_t at = ctf->meta_size, room = CTF_PAGE - at % CTF_PAGE;
	int r = 0;

	for (; r == 0 && room < len && at % CTF_PAGE; at += MIN(16, CTF_PAGE - at % CTF_PAGE))
		r = write_at(ctf->meta, newlines, MIN(16, CTF_PAGE - at % CTF_PAGE), at);
	if (r == 0)
		r = write_at(ctf->meta, text, len, at);
	if (r < 0) {
		if (ftruncate(ctf->meta, ctf->meta_size) < 0)
			return -errno;
		return r;
	}
	ctf->meta_size = at + len;
	return 0;
}

static void meta_remember(struct ctf *ctf, const char *text, size_t len)
{
	ctf->meta_text = xrealloc(ctf->meta_text, ctf->meta_size + len);
	memcpy(ctf->meta_text + ctf->meta_size, text, len);
	ctf->meta_size += len;
	ctf->meta_said = false;
}

static int meta_append(struct ctf *ctf, const char *text, size_t len)
{
	int r;

	if (ctf->dir < 0) {
		meta_remember(ctf, text, len);
		return 0;
	}
	r = ctf->meta < 0 || len > CTF_PAGE ? meta_replace(ctf, text, len) : append_within_page(ctf, text, len);

	return r < 0 ? fail(r, "can't write %s/metadata: %s", ctf->path, strerror(-r)) : 0;
}

static void print_env(FILE *f, const struct ctf *ctf)
{
	char host[256] = "", *quoted;

	gethostname(host, sizeof(host) - 1);
	fprintf(f, "env {\n\ttracer_name = \"jab\";\n\ttracer_version = \"%s\";\n\ttrace_format = %d;\n",
		JAB_VERSION, JAB_TRACE_FORMAT);
	quoted = tsdl_quote(host);
	fprintf(f, "\thostname = %s;\n", quoted);
	free(quoted);
	quoted = tsdl_quote(ctf->options.command ? ctf->options.command : "");
	fprintf(f, "\tcommand = %s;\n\trealtime_offset_ns = %lld;\n};\n", quoted,
		(long long)ctf->options.clock.realtime_ns);
	free(quoted);
}

static void print_clock(FILE *f, const struct tsc_clock *c)
{
	fprintf(f, "clock {\n\tname = \"monotonic\";\n\tdescription = \"TSC ticks; the offset makes them CLOCK_REALTIME\";\n"
		"\tfreq = %llu;\n\toffset_s = %lld;\n\toffset = %llu;\n};\n", (unsigned long long)c->hz,
		(long long)c->offset_s, (unsigned long long)c->offset);
}

static void print_trace(FILE *f, const uint8_t *u)
{
	fprintf(f, "trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n"
		"\tuuid = \"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\";\n",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	fputs("\tpacket.header := struct {\n\t\thead_t magic;\n\t\tbyte_t uuid[16];\n\t\thead_t stream_id;\n"
	      "\t\tu64_t stream_instance_id;\n\t};\n};\n", f);
}

/* len is not declared in the event's header: it is in the padding before the aligned time. */
static void print_stream(FILE *f)
{
	fputs("typealias integer { size = 64; align = 64; map = clock.monotonic.value; } := tick_t;\n"
	      "stream {\n\tid = 0;\n\tpacket.context := struct {\n\t\ttick_t timestamp_begin;\n"
	      "\t\ttick_t timestamp_end;\n\t\tu64_t content_size;\n\t\tu64_t packet_size;\n"
	      "\t\tu64_t events_discarded;\n\t\tu64_t packet_seq_num;\n\t\tu64_t cpu_id;\n\t};\n"
	      "\tevent.header := struct {\n\t\thead_t id;\n\t\ttick_t time;\n\t};\n"
	      "\tevent.context := struct {\n\t\thead_t pid;\n\t\thead_t tid;\n\t};\n};\n", f);
}

int meta_create(struct ctf *ctf)
{
	char *text = NULL, *types = tsdl_aliases();
	size_t size;
	FILE *f = xmemstream(&text, &size);
	int r;

	fprintf(f, "/* CTF 1.8 */\n%s", types);
	print_trace(f, ctf->uuid);
	print_env(f, ctf);
	print_clock(f, &ctf->options.clock);
	print_stream(f);
	fclose(f);
	r = meta_append(ctf, text, size);
	free(text);
	free(types);
	return r;
}

static void print_enum(FILE *f, const struct ctf_field *field)
{
	fprintf(f, "\t\tenum : %s { ", tsdl_type(field));
	for (uint32_t i = 0; i < field->nvalues; i++) {
		char *quoted = tsdl_quote(field->values[i].name);

		fprintf(f, field->kind == CTF_SIGNED ? "%s%s = %lld" : "%s%s = %llu", i ? ", " : "", quoted,
			(long long)field->values[i].value);
		free(quoted);
	}
	fprintf(f, " } _%s;\n", field->name);
}

/* Packed arrays can't be aligned by themselves: they are in an aligned struct. */
static void print_field(FILE *f, const struct ctf_class *c, size_t i)
{
	const struct ctf_field *field = &c->fields[i];
	const char *type = tsdl_type(field), *name = field->name;

	if (field_varies(field))
		fprintf(f, "\t\tcount_t __%s_length;\n\t\t%s _%s[__%s_length];\n", name, type, name, name);
	else if (field->kind == CTF_BYTES)
		fprintf(f, "\t\tstruct { %s _bytes[%u]; } align(64) _%s;\n", type, field->size, name);
	else if (field->count)
		fprintf(f, "\t\tstruct { " TSDL_PACKED "%s _values[%u]; } align(64) _%s;\n", type, field->count, name);
	else if (field->nvalues)
		print_enum(f, field);
	else
		fprintf(f, "\t\t%s _%s;\n", type, name);
}

int meta_add_class(struct ctf *ctf, const struct ctf_class *c)
{
	char *text = NULL, *quoted = tsdl_quote(c->name);
	size_t size;
	FILE *f = xmemstream(&text, &size);
	int r;

	fprintf(f, "event {\n\tname = %s;\n\tid = %u;\n\tstream_id = 0;\n\tfields := struct {\n", quoted, c->id);
	for (size_t i = 0; i < c->n; i++)
		print_field(f, c, i);
	fputs("\t};\n};\n", f);
	fclose(f);
	r = meta_append(ctf, text, size);
	free(text);
	free(quoted);
	return r;
}
