//! `lanai.toml`: refused with a message, or accepted and converted to policy, queues and resources.

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
