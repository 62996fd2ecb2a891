# make demo    first light: submit real work, see it run, leave nothing behind
# make test    all tests; no network, no other language
PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
BUILT   ?= target/release

# The program files, and the commands that are links to lanai.
BINARIES = lanai schedd noded
COMMANDS = $(filter-out $(BINARIES),$(notdir $(wildcard completions/bash/*)))
BIN      = $(DESTDIR)$(PREFIX)/bin
SHARE    = $(DESTDIR)$(PREFIX)/share
UNITS    = $(DESTDIR)$(PREFIX)/lib/systemd/system
PAGES    = $(wildcard man/*.[1-8])

.PHONY: all demo test test-clients check bench torture fuzz transcripts replay-check quality man completions install uninstall clean

# The daemons are linked dynamically: they look up accounts through NSS. lanai looks up none, and starts
# in two thirds of the time when it is linked statically. At a fixed address nothing is relocated at each start.
all:
	$(CARGO) build --release --locked --bin schedd --bin noded
	$(CARGO) rustc --quiet --release --locked --bin lanai -- -C target-feature=+crt-static -C relocation-model=static 2>/dev/null \
	  || { echo "all: there is no static C library here: lanai is linked dynamically"; \
	    $(CARGO) build --release --locked --bin lanai; }

demo: all
	@sh etc/demo.sh target/release

test:
	$(CARGO) test --locked

# Runs real clients of PBS's commands against the programs in PROGRAMS, by the drivers in CLIENTS. Skipped
# where there are none, or no python3; needs the network once. CLIENT_STRICT=1 counts what goes beyond PBS.
CLIENTS  ?= ../shared/clients
PROGRAMS ?= target/debug
test-clients:
	$(if $(filter target/debug,$(PROGRAMS)),$(CARGO) build --quiet --locked)
	@sh etc/test-clients.sh $(PROGRAMS) $(CLIENTS)

check:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) test --locked

bench: all
	rm -rf target/measured && mkdir -p target/measured
	cp $(addprefix target/release/,$(BINARIES)) target/measured
	cd target/measured && for name in $(COMMANDS); do ln -s lanai $$name || exit 1; done
	LANAI_BENCH_PROGRAMS=$(CURDIR)/target/measured $(CARGO) bench --locked --bench cycle --bench system

torture:
	$(CARGO) test --locked --test all -- --ignored torture --nocapture --test-threads 1

# Gives each target of fuzz/ so many seconds of texts that nobody has thought of. A text that breaks it stays in
# fuzz/artifacts. What they run has no unsafe code: there is nothing for a sanitizer to find.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/targets/*.rs)))
fuzz:
	@$(CARGO) +nightly fuzz --version > /dev/null 2>&1 || { echo "fuzz: this needs cargo-fuzz and a nightly Rust:" \
	  "rustup toolchain install nightly && cargo install cargo-fuzz" >&2; exit 1; }
	$(CARGO) +nightly fuzz build --sanitizer none
	for name in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$name && dict=fuzz/seeds/$$name.dict && test -e $$dict || dict=; \
	  $(CARGO) +nightly fuzz run --sanitizer none $$name fuzz/corpus/$$name fuzz/seeds/$$name -- $${dict:+-dict=$$dict} \
	    -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; done

# Runs all traces in TRACES again and compares each job's start with TRACES/reference. Skipped where
# there are none; those kept in tests/policy/traces are part of `make test`.
TRACES ?= ../shared/traces
replay-check:
	LANAI_TRACES=$(TRACES) $(CARGO) test --locked --release --test all -- --ignored replay_check --nocapture

# Plays what a real PBS was told and said (../shared/spec/pbs-transcripts) against our programs; part of
# `make test`. Here with the differences, a file each, in target/transcripts. Skipped where there are none.
transcripts:
	LANAI_TRANSCRIPTS=$(CURDIR)/target/transcripts $(CARGO) test --locked --test all -- transcripts --nocapture

# What the default policy reaches on the traces in TRACES, beside EASY on the same: the table of
# lanai-scheduling(7). Skipped where there are none.
quality:
	LANAI_TRACES=$(TRACES) $(CARGO) test --locked --release --test all -- --ignored quality --nocapture

man:
	BLESS=1 $(CARGO) test --locked --test all generated::manual_pages

completions:
	BLESS=1 $(CARGO) test --locked --test all generated::completions

# Installs what `make all` has built, so that installing as root compiles nothing as root.
install:
	@test -n "$(COMMANDS)" && test -x $(BUILT)/lanai || { echo "install: run 'make all' first" >&2; exit 1; }
	install -d $(BIN) $(UNITS) $(SHARE)/doc/lanai/scenarios
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	install -m 755 $(addprefix $(BUILT)/,$(BINARIES)) $(BIN)
	for name in $(COMMANDS); do ln -sf lanai $(BIN)/$$name || exit 1; done
	for page in $(PAGES); do install -D -m 644 $$page $(SHARE)/man/man$${page##*.}/$${page##*/} || exit 1; done
	install -m 644 completions/bash/* $(SHARE)/bash-completion/completions
	install -m 644 completions/zsh/* $(SHARE)/zsh/site-functions
	install -m 644 completions/fish/* $(SHARE)/fish/vendor_completions.d
	for unit in schedd.service noded.service schedd.socket; do \
	  sed 's|@PREFIX@|$(PREFIX)|' etc/$$unit > $(UNITS)/$$unit && chmod 644 $(UNITS)/$$unit || exit 1; done
	install -m 644 etc/lanai.toml.example README.md CHANGELOG.md LICENSE $(SHARE)/doc/lanai
	install -m 644 etc/scenarios/*.toml $(SHARE)/doc/lanai/scenarios

# Removes what `make install` put there; configuration and spool stay.
uninstall:
	rm -f $(addprefix $(BIN)/,$(BINARIES) $(COMMANDS))
	for page in $(PAGES); do rm -f $(SHARE)/man/man$${page##*.}/$${page##*/}; done
	for file in completions/bash/*; do rm -f $(SHARE)/bash-completion/completions/$${file##*/}; done
	for file in completions/zsh/*; do rm -f $(SHARE)/zsh/site-functions/$${file##*/}; done
	for file in completions/fish/*; do rm -f $(SHARE)/fish/vendor_completions.d/$${file##*/}; done
	rm -f $(UNITS)/schedd.service $(UNITS)/schedd.socket $(UNITS)/noded.service
	rm -rf $(SHARE)/doc/lanai

clean:
	$(CARGO) clean
