//! Command lines that end before anything runs.
