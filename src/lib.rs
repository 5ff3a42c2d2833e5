//! Host IR: a language for what the host does on several devices, with a verifier, plans and backends.
//!
//! Arrows go one way: text -> AST (`hostir_grammar`) -> [`resolve`] -> [`ir`] -> [`verify`] -> passes
//! -> [`print`] or [`plan`] -> [`backend`].

pub mod analysis;
pub mod backend;
pub mod data;
pub mod diag;
pub mod ir;
pub mod ops;
pub mod plan;
pub mod print;
pub mod resolve;
pub mod verify;
