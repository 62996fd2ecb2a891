//! Checks of the sources, the manual, the README and the installed files.

mod architecture;
mod generated;
mod installation;
mod language;
mod migration;
mod readme;
