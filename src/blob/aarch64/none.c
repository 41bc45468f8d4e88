/* SPDX-License-Identifier: MIT */
/* aarch64 has no blob yet: an image without code. What needs it is refused (arch_lacks()). */
#include "blob/blob.h"

const uint8_t blob_image[4 * BLOB_ENTRIES];
const size_t blob_size = sizeof(blob_image);
const uint32_t blob_work_depths[BLOB_STACKS + 1];
