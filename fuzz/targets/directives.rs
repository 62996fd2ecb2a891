//! The `#PBS` directives of a job script.

#![no_main]

#[path = "../../tests/support/grammars.rs"]
#[allow(dead_code, reason = "each target uses its own part")]
mod grammars;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    grammars::script_header(data);
});
