//! The daemon that decides: one loop, one writer.
