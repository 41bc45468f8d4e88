# SPDX-License-Identifier: MIT
# The front door. Every target does its own set-up; Meson and ninja do the building.

B ?= build
PREFIX ?= /usr/local
SECONDS ?= 600
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# What a folder was set up for: a tree that was copied, with its build folder, is another one, and another machine may lack packages.
HERE := $(CURDIR)
MACHINE := $(shell cat /etc/machine-id /proc/sys/kernel/hostname 2>/dev/null | tr '\n' ' ')
$(shell [ ! -e $(B)/build.ninja ] || grep -q '"source": "$(HERE)"' $(B)/meson-info/meson-info.json || rm -rf $(B))
$(shell for s in tools/.packages tools/.test-packages; do [ ! -s $$s ] || [ "$$(cat $$s)" = '$(MACHINE)' ] || rm -f $$s; done)

# To build jab alone takes no test library.
SETUP = meson setup $(B) --prefix=$(PREFIX) -Dtests=false

all: $(B)/build.ninja		## build jab into build/ (or B=)
	ninja -C $(B)

$(B)/build.ninja: | tools/.packages
	$(SETUP)

with-tests: tools/.test-packages $(B)/build.ninja
	meson configure $(B) -Dtests=true
	ninja -C $(B)

# Debian's packages: a short list to build, a longer one to test. The stamp is no promise: if a
# package is removed later, delete it.
tools/.packages:
	$(SUDO) tools/packages build
	@echo '$(MACHINE)' > $@

tools/.test-packages: tools/.packages
	$(SUDO) tools/packages test
	@echo '$(MACHINE)' > $@

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

# The folder may have been set up for another PREFIX. No packages are installed here: what is missing is said by Meson.
install:			## below PREFIX=/usr/local and DESTDIR
	@[ -e $(B)/build.ninja ] || { $(SETUP); }
	meson configure $(B) --prefix=$(PREFIX)
	ninja -C $(B)
	meson install -C $(B) --no-rebuild

uninstall: $(B)/build.ninja	## remove what install put there
	meson configure $(B) --prefix=$(PREFIX)
	tools/uninstall $(B) $(DESTDIR)

clean:				## remove what was built
	rm -rf build build-* tools/.packages tools/.test-packages tools/.bench-packages

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

.PHONY: help all with-tests demo check bench torture install uninstall clean
