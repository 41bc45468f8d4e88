# SPDX-License-Identifier: MIT
"""Large files to plan: what Debian has installed here, and small Go and Rust programs made on the spot."""

import glob
import os
import shutil
import subprocess

LIB = "/usr/lib/x86_64-linux-gnu/"

# From small to large, so that a run that is cut short has seen many. The first match of a pattern counts.
PATTERNS = [
    LIB + "ld-linux-x86-64.so.2",
    "/usr/sbin/nginx",
    "/usr/bin/bash",
    LIB + "libglib-2.0.so.0",
    "/usr/bin/redis-server",
    LIB + "libc.so.6",
    LIB + "libstdc++.so.6",
    "/usr/bin/perl",
    LIB + "libcrypto.so.3",
    "/usr/bin/python3.11",
    "/usr/bin/gdb",
    "/usr/lib/postgresql/*/bin/postgres",
    "/usr/lib/jvm/*/lib/server/libjvm.so",
    "/usr/lib/gcc/x86_64-linux-gnu/*/cc1",
    "/usr/bin/node",
    LIB + "libLLVM-1*.so.1",
]

GO = """package main

import ("fmt"; "net/http"; "os")

func main() {
	if len(os.Args) > 1 {
		fmt.Println(http.ListenAndServe(os.Args[1], nil))
	}
	fmt.Println("hello")
}
"""

RUST = """use std::collections::HashMap;
fn main() {
    let mut m: HashMap<String, Vec<String>> = HashMap::new();
    for a in std::env::args() { m.entry(a.clone()).or_default().push(a); }
    println!("{:?}", m);
}
"""


def make(builder, name, source, argv, **env):
    """A program by another compiler, where that is installed. None where not."""
    out = os.path.join(builder.out, name)
    if os.path.exists(out):
        return out
    tool = shutil.which(argv[0])
    if not tool:
        return None
    text = os.path.join(builder.out, source[0])
    with open(text, "w") as f:
        f.write(source[1])
    try:
        done = subprocess.run([tool] + argv[1:] + [out, text], env={**os.environ, **env}, capture_output=True,
                              timeout=120)
    except subprocess.TimeoutExpired:
        return None
    return out if done.returncode == 0 and os.path.exists(out) else None


def large_files(builder):
    made = [
        make(builder, "rusthello", ("hello.rs", RUST), ["rustc", "-O", "-o"]),
        make(builder, "gohello", ("hello.go", GO), ["go", "build", "-o"], GO111MODULE="off", GOTOOLCHAIN="local",
             GOPROXY="off", GOCACHE=os.path.join(builder.out, "gocache"), CGO_ENABLED="0"),
    ]
    shutil.rmtree(os.path.join(builder.out, "gocache"), ignore_errors=True)
    found = [sorted(glob.glob(p))[:1] for p in PATTERNS]
    return list(dict.fromkeys([f for f in made if f] + [f for hit in found for f in hit]))
