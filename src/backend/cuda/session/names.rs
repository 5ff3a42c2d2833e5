//! How callers name inputs, outputs and ranks.

use crate::runtime::io_binding::Side;
use hostir::diag::codes;
use hostir::diag::{Diag, nearest};

/// An input or output: by name or by position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key<'a> {
    /// `T0`, or a name of the user's.
    Name(&'a str),
    /// Position among the tensor inputs or outputs, from 0.
    Position(usize),
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(name: &'a str) -> Self {
        Key::Name(name)
    }
}

impl From<usize> for Key<'_> {
    fn from(position: usize) -> Self {
        Key::Position(position)
    }
}

/// The position of what a key names among the ports of one side.
pub(super) fn find(side: Side, names: &[&str], key: Key<'_>) -> Result<usize, Diag> {
    let (found, asked) = match key {
        Key::Name(name) => (names.iter().position(|other| *other == name), format!("`{name}`")),
        Key::Position(at) => ((at < names.len()).then_some(at), format!("number {at}")),
    };
    found.ok_or_else(|| {
        let diag = Diag::global(codes::SESSION, format!("the program has no {side} {asked}"));
        let near = match key {
            Key::Name(name) => nearest(name, names.iter().copied()),
            Key::Position(_) => None,
        };
        diag.note(match (near, names) {
            (Some(near), _) => format!("there is `{near}`"),
            (None, []) => format!("it has no {side}s"),
            (None, names) => format!("its {side}s are {}", names.join(", ")),
        })
    })
}

/// The only rank of a process.
pub(super) fn only(ranks: &[u32]) -> Result<u32, Diag> {
    match ranks {
        [rank] => Ok(*rank),
        ranks => {
            let message = format!("this process has {} ranks, and none was named", ranks.len());
            Err(Diag::global(codes::SESSION, message)
                .note("`.on(rank)` says whose part of the tensor is meant"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_by_name_and_position() {
        let names = ["T0", "logits"];
        assert_eq!(find(Side::Input, &names, "logits".into()), Ok(1));
        assert_eq!(find(Side::Input, &names, 0.into()), Ok(0));
        let told = |key: Key<'_>| {
            let diag = find(Side::Output, &names, key).unwrap_err();
            (diag.code, diag.message, diag.notes.join("; "))
        };
        let near = told("logit".into());
        assert_eq!(near.0, "H0528");
        assert_eq!(near.1, "the program has no output `logit`");
        assert_eq!(near.2, "there is `logits`");
        let far = told(2.into());
        assert_eq!(far.1, "the program has no output number 2");
        assert_eq!(far.2, "its outputs are T0, logits");
        assert_eq!(find(Side::Input, &[], 0.into()).unwrap_err().notes, ["it has no inputs"]);
    }

    #[test]
    fn ranks_that_are_meant() {
        assert_eq!(only(&[3]), Ok(3));
        let diag = only(&[0, 1]).unwrap_err();
        assert_eq!(diag.message, "this process has 2 ranks, and none was named");
    }
}
