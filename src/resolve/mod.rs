//! resolve.
