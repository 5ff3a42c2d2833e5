//! The types of results that a text may leave out.
