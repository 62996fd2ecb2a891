# make demo    runs jobs in a temporary installation and removes it
# make test    runs all tests, without network and with Rust only
PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
BUILT   ?= target/release

# The programs, and the commands, which are links to lanai and have the names of the completions.
BINARIES = lanai schedd noded
COMMANDS = $(filter-out $(BINARIES),$(notdir $(wildcard completions/bash/*)))
BIN      = $(DESTDIR)$(PREFIX)/bin
SHARE    = $(DESTDIR)$(PREFIX)/share
UNITS    = $(DESTDIR)$(PREFIX)/lib/systemd/system
PAGES    = $(wildcard man/*.[1-8])

.PHONY: all demo test test-clients check audit bench torture fuzz transcripts replay-check quality man completions install uninstall clean

# The daemons are linked dynamically, because they look up accounts through NSS. lanai is linked statically,
# so that it starts a third faster, and at a fixed address, which saves relocation at each start.
all:
	$(CARGO) build --release --locked --bin schedd --bin noded
	$(CARGO) rustc --quiet --release --locked --bin lanai -- -C target-feature=+crt-static -C relocation-model=static 2>/dev/null \
	  || { echo "all: no static C library: linking lanai dynamically"; \
	    $(CARGO) build --release --locked --bin lanai; }

# Builds without optimization, because that takes less than half the time.
demo:
	$(CARGO) build --locked
	@sh etc/demo.sh target/debug

test:
	$(CARGO) test --locked

# Tests the programs in PROGRAMS with real clients of PBS's commands, run by the drivers in CLIENTS. Skipped
# without drivers or python3. The first run needs the network. CLIENT_STRICT=1 also counts failures of
# checks that exceed PBS.
CLIENTS  ?= ../shared/clients
PROGRAMS ?= target/debug
test-clients:
	$(if $(filter target/debug,$(PROGRAMS)),$(CARGO) build --quiet --locked)
	@sh etc/test-clients.sh $(PROGRAMS) $(CLIENTS)

check:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps
	$(CARGO) test --locked

# Checks licenses, duplicates, sources and advisories of the dependencies. Skipped without cargo-deny.
audit:
	@sh etc/audit.sh

bench: all
	rm -rf target/measured && mkdir -p target/measured
	cp $(addprefix target/release/,$(BINARIES)) target/measured
	cd target/measured && for name in $(COMMANDS); do ln -s lanai $$name || exit 1; done
	LANAI_BENCH_PROGRAMS=$(CURDIR)/target/measured $(CARGO) bench --locked --bench cycle --bench system

torture:
	$(CARGO) test --locked --test all -- --ignored torture --nocapture --test-threads 1

# Runs each fuzz target for FUZZ_SECONDS. Inputs that cause a failure are kept in fuzz/artifacts. The tested
# code is safe Rust, so no sanitizer is needed.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/targets/*.rs)))
fuzz:
	@$(CARGO) +nightly fuzz --version > /dev/null 2>&1 || { echo "fuzz: requires cargo-fuzz and a nightly Rust:" \
	  "rustup toolchain install nightly && cargo install cargo-fuzz" >&2; exit 1; }
	$(CARGO) +nightly fuzz build --sanitizer none
	for name in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$name && dict=fuzz/seeds/$$name.dict && test -e $$dict || dict=; \
	  $(CARGO) +nightly fuzz run --sanitizer none $$name fuzz/corpus/$$name fuzz/seeds/$$name -- $${dict:+-dict=$$dict} \
	    -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; done

# Replays all traces in TRACES, and compares each job's start with TRACES/reference. Skipped without traces.
# `make test` includes the traces in tests/policy/traces.
TRACES ?= ../shared/traces
replay-check:
	LANAI_TRACES=$(TRACES) $(CARGO) test --locked --release --test all -- --ignored replay_check --nocapture

# Repeats recorded sessions of a real PBS (../shared/spec/pbs-transcripts) with Lanai's programs, as does
# `make test`. Writes the differences to files in target/transcripts. Skipped without recordings.
transcripts:
	LANAI_TRANSCRIPTS=$(CURDIR)/target/transcripts $(CARGO) test --locked --test all -- transcripts --nocapture

# Compares the default policy with EASY on the traces in TRACES: the table of lanai-scheduling(7). Skipped
# without traces.
quality:
	LANAI_TRACES=$(TRACES) $(CARGO) test --locked --release --test all -- --ignored quality --nocapture

man:
	BLESS=1 $(CARGO) test --locked --test all generated::manual_pages

completions:
	BLESS=1 $(CARGO) test --locked --test all generated::completions

# Installs the programs built by `make all`. Nothing is compiled as root.
install:
	@test -n "$(COMMANDS)" && test -x $(BUILT)/lanai || { echo "install: run 'make all' first" >&2; exit 1; }
	install -d $(BIN) $(UNITS) $(SHARE)/doc/lanai/scenarios $(SHARE)/lanai
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
	install -m 644 etc/lanai.schema.json $(SHARE)/lanai
	install -m 644 etc/scenarios/*.toml $(SHARE)/doc/lanai/scenarios

# Removes the installed files, but not the configuration and the spool.
uninstall:
	rm -f $(addprefix $(BIN)/,$(BINARIES) $(COMMANDS))
	for page in $(PAGES); do rm -f $(SHARE)/man/man$${page##*.}/$${page##*/}; done
	for file in completions/bash/*; do rm -f $(SHARE)/bash-completion/completions/$${file##*/}; done
	for file in completions/zsh/*; do rm -f $(SHARE)/zsh/site-functions/$${file##*/}; done
	for file in completions/fish/*; do rm -f $(SHARE)/fish/vendor_completions.d/$${file##*/}; done
	rm -f $(UNITS)/schedd.service $(UNITS)/schedd.socket $(UNITS)/noded.service
	rm -rf $(SHARE)/doc/lanai $(SHARE)/lanai

clean:
	$(CARGO) clean
