//! Installations shared by several users: each user is confined to their own jobs and files.

mod closed_accounts;
mod hostile;
mod multi_user;
mod reservation_rights;
mod reused_accounts;
