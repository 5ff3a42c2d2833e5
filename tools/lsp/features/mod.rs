//! The answers to requests: each is a function of what is known about the document.

pub mod actions;
pub mod completion;
pub mod formatting;
pub mod hints;
pub mod hover;
pub mod lenses;
pub mod navigation;
pub mod outline;
pub mod streams;
pub mod tokens;
pub mod types;
pub mod words;
