//! The nesting depth of expressions, in their printed form.
//!
//! All later code (printing, hashing, evaluation) recurses, so depth has a limit. It is counted in brackets of the
//! printed form, where every operator has parentheses of its own: a text that was read can be read again after it was
//! printed.

use crate::token::{Tok, Token};

/// The maximum number of brackets that may be open at once: [`MAX_DEPTH`] plus those that a statement puts around its
/// expressions.
pub const MAX_BRACKETS: usize = 500;
/// The largest depth of an expression.
pub const MAX_DEPTH: u32 = 480;
/// Brackets that a call, an index or a field is printed with.
const POSTFIX: u32 = 2;

/// The note of errors about depth.
pub(crate) fn depth_note() -> String {
    format!(
        "the limits are {MAX_BRACKETS} nested brackets and {MAX_DEPTH} chained operators; a call, an index and a field count as two"
    )
}

/// Follows the tokens of a statement.
#[derive(Default)]
pub(crate) struct NestingTracker {
    /// Depth of the expression so far, in the innermost open bracket.
    now: u32,
    /// Depth of the deepest expression before the last comma there.
    peak: u32,
    /// For each open bracket the two numbers around it, and the brackets it adds.
    open: Vec<(u32, u32, u32)>,
}

impl NestingTracker {
    /// Starts again.
    pub(crate) fn clear(&mut self) {
        self.now = 0;
        self.peak = 0;
        self.open.clear();
    }

    /// Follows a token after `before`; returns true if the statement is still within the limit.
    pub(crate) fn follow_token(&mut self, tok: Tok, before: Tok) -> bool {
        match tok {
            Tok::Infix(_) | Tok::Both(_) | Tok::Prefix(_) => self.now += 1,
            Tok::Field(_) => self.now += POSTFIX,
            Tok::Comma => {
                self.peak = self.peak.max(self.now);
                self.now = 0;
            }
            Tok::LParen | Tok::LBrace | Tok::LBracket => {
                let group = tok == Tok::LParen && !ends_operand(before);
                let indexed = if tok == Tok::LBracket { POSTFIX } else { 0 };
                self.open.push((self.now + indexed, self.peak, if group { 0 } else { POSTFIX }));
                self.now = 0;
                self.peak = 0;
            }
            Tok::RParen | Tok::RBrace | Tok::RBracket => {
                let Some((now, peak, around)) = self.open.pop() else { return true };
                self.now = now.max(self.now.max(self.peak) + around);
                self.peak = peak;
            }
            _ => {}
        }
        self.now <= MAX_DEPTH && self.open.len() <= MAX_BRACKETS
    }
}

/// True if a parenthesis after this token is that of a call.
fn ends_operand(tok: Tok) -> bool {
    matches!(tok, Tok::Word(_) | Tok::Int(_) | Tok::Tensor(_) | Tok::Field(_) | Tok::Cast(_))
}

/// Checks the nesting of tokens that no [`NestingTracker`] has followed.
pub(crate) fn is_too_deep(tokens: &[Token]) -> bool {
    let mut nesting = NestingTracker::default();
    let mut before = Tok::End;
    tokens.iter().any(|token| !nesting.follow_token(token.tok, std::mem::replace(&mut before, token.tok)))
}
