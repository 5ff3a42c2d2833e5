//! Numeric blocks, `[[#%x,NAME:==EXPRESSION]]`: their formats, expressions and text. Numbers have any size.

mod expression;
mod format;
mod parse;

pub(crate) use expression::{NoValue, NumericExpression};
pub(crate) use format::NumberFormat;
pub(crate) use parse::{BlockPlace, parse_block};
