//! The daemon that runs jobs: it executes, never decides.
