//! Tidy checks.
