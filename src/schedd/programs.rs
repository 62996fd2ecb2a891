//! The programs of the site and of users that schedd starts: hooks, allocation script, pollers of
//! dynamic resources, mailer and notifiers.

pub mod allocation_script;
pub mod hooks;
pub mod mailer;
pub mod notice_digest;
pub mod notifier;
pub mod process_tree;
pub mod rate_limit;
pub mod resource_poller;
pub mod user_notices;
