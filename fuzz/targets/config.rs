//! `lanai.toml`: accepted or refused with a reason, and all that is made of what is accepted.

#![no_main]

use lanai::config::Config;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Config::parse(text) {
        Ok(config) => {
            config.effective_policy();
            config.queues();
            config.resources();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
