# SPDX-License-Identifier: MIT
"""embed.py OBJCOPY OBJDUMP BLOB OUT: the flat image of the linked blob, as a C array, and how much stack its entries take."""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "x86"))
import depth  # noqa: E402

objcopy, objdump, blob, out = sys.argv[1:]
flat = out + ".bin"
subprocess.check_call([objcopy, "-O", "binary", "-j", ".image", blob, flat])
with open(flat, "rb") as f:
    image = f.read()
os.unlink(flat)
if not image:
    sys.exit("embed: the image is empty")
with open(out, "w") as f:
    f.write('#include "blob/blob.h"\n#include "blob/leave.h"\nconst uint8_t blob_image[] = {\n')
    for at in range(0, len(image), 16):
        f.write("".join("%d," % byte for byte in image[at:at + 16]) + "\n")
    f.write("};\nconst size_t blob_size = sizeof(blob_image);\n")
    deep, works = depth.depths(objdump, blob)
    f.write(f"const uint32_t blob_work_depths[] = {{ {', '.join(map(str, works))} }};\n")
    # Who calls these has a fixed frame, and asks for a fixed number of bytes.
    f.write(f'_Static_assert({deep[0]} <= BLOB_RECORD_DEPTH, "blob_record takes too much stack");\n')
    f.write(f'_Static_assert({deep[4]} <= BLOB_LEAVE_DEPTH, "blob_leave takes too much stack");\n')
