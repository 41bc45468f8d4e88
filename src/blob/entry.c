/* SPDX-License-Identifier: MIT */
/* The start of the image: the offsets of its entries, in the order of enum blob_entry. */
__asm__(".section .entry, \"a\"\n"
	"blob_start:\n"
	".long blob_record - blob_start\n"
	".long blob_read - blob_start\n"
	".long blob_park - blob_start\n"
	".long blob_program - blob_start\n"
	".long blob_leave - blob_start\n"
	".long blob_unmap - blob_start\n"
	".previous\n");
