# SPDX-License-Identifier: MIT
# The front door. Every target does its own set-up; Meson and ninja do the building.

B ?= build
PREFIX ?= /usr/local
SECONDS ?= 600
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

all: $(B)/build.ninja		## build jab into build/ (or B=)
	ninja -C $(B)

# To build jab alone takes no test library.
$(B)/build.ninja: | tools/.packages
	meson setup $(B) --prefix=$(PREFIX) -Dtests=false

with-tests: tools/.test-packages $(B)/build.ninja
	meson configure $(B) -Dtests=true
	ninja -C $(B)

# Debian's packages: a short list to build, a longer one to test. The stamp is no promise: if a
# package is removed later, delete it.
tools/.packages:
	$(SUDO) tools/packages build
	@touch $@

tools/.test-packages: tools/.packages
	$(SUDO) tools/packages test
	@touch $@

tools/.bench-packages: tools/.test-packages
	$(SUDO) tools/packages bench
	@touch $@

demo: all			## show what it does, on a sample program, in some seconds
	tools/demo

check: tools/.test-packages	## build everything and run all tests, a quarter of an hour
	tools/check $(B)

bench: with-tests tools/.bench-packages	## what a hit costs, beside kernel uprobes
	bench/run $(B)

torture: with-tests		## random trouble for SECONDS=600
	tests/torture/run $(SECONDS)

# The folder may have been set up for another PREFIX.
install: all			## below PREFIX=/usr/local and DESTDIR
	meson configure $(B) --prefix=$(PREFIX)
	ninja -C $(B)
	meson install -C $(B) --no-rebuild

clean:				## remove what was built
	rm -rf build build-* tools/.packages tools/.test-packages tools/.bench-packages

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

.PHONY: help all with-tests demo check bench torture install clean
