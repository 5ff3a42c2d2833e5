//! What a text may leave out besides types.
