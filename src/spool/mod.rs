//! The only SQL: the durable twin of what schedd knows.
