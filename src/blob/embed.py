# SPDX-License-Identifier: MIT
"""embed.py OBJCOPY BLOB OUT: the flat image of the linked blob, as a C array."""

import os
import subprocess
import sys

objcopy, blob, out = sys.argv[1:]
flat = out + ".bin"
subprocess.check_call([objcopy, "-O", "binary", "-j", ".image", blob, flat])
with open(flat, "rb") as f:
    image = f.read()
os.unlink(flat)
if not image:
    sys.exit("embed: the image is empty")
with open(out, "w") as f:
    f.write('#include "blob/blob.h"\nconst uint8_t blob_image[] = {\n')
    for at in range(0, len(image), 16):
        f.write("".join("%d," % byte for byte in image[at:at + 16]) + "\n")
    f.write("};\nconst size_t blob_size = sizeof(blob_image);\n")
