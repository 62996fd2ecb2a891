#!/bin/sh
# Checks the dependencies with cargo-deny by the settings in deny.toml: licenses, duplicates and sources, then
# known vulnerabilities. A part that needs a missing tool or the network is reported as skipped.
set -u
if ! cargo deny --version >/dev/null 2>&1; then
  echo "audit: skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"
  exit 0
fi
if ! cargo fetch --locked >/dev/null 2>&1; then
  echo "audit: skipped: the sources of the dependencies cannot be downloaded"
  exit 0
fi
cargo deny --offline check licenses bans sources || exit 1
if ! cargo deny fetch db >/dev/null 2>&1; then
  echo "audit: advisories skipped: the advisory database cannot be downloaded"
  exit 0
fi
cargo deny check advisories
