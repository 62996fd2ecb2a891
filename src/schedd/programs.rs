//! The programs of the site that schedd runs: hooks, allocation script, pollers of dynamic
//! resources, mail and notification programs. Also the notices for users' own programs, which
//! nodeds run.

pub mod allocation_script;
pub mod hooks;
pub mod mailer;
pub mod notice_digest;
pub mod notifier;
pub mod process_tree;
pub mod rate_limit;
pub mod resource_poller;
pub mod user_notices;
