//! Rules that the sources, the manual and the README keep.

mod architecture;
mod generated;
mod installation;
mod migration;
mod readme;
