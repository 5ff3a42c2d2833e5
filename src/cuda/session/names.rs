//! Keys with which callers name inputs, outputs and ranks.

use crate::runtime::io_binding::IoSide;
use hostir::diag::message;
use hostir::diag::{Diag, codes, nearest_candidate};

/// The name or the position of an input or output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoKey<'a> {
    /// `T0`, or a name that the user gave.
    Name(&'a str),
    /// Position among the tensor inputs or outputs, from 0.
    Position(usize),
}

impl<'a> From<&'a str> for IoKey<'a> {
    fn from(name: &'a str) -> Self {
        IoKey::Name(name)
    }
}

impl From<usize> for IoKey<'_> {
    fn from(position: usize) -> Self {
        IoKey::Position(position)
    }
}

/// Resolves a key to a position among the inputs or outputs.
pub(super) fn find_position(side: IoSide, names: &[&str], key: IoKey<'_>) -> Result<usize, Diag> {
    let (found, asked) = match key {
        IoKey::Name(name) => (names.iter().position(|other| *other == name), format!("`{name}`")),
        IoKey::Position(at) => ((at < names.len()).then_some(at), format!("number {at}")),
    };
    found.ok_or_else(|| {
        let diag = Diag::global_error(codes::SESSION, message!("the program has no {} {}", side.to_string(), asked));
        let near = match key {
            IoKey::Name(name) => nearest_candidate(name, names.iter().copied()),
            IoKey::Position(_) => None,
        };
        diag.with_note(match (near, names) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, []) => format!("it has no {side}s"),
            (None, names) => format!("its {side}s are {}", names.join(", ")),
        })
    })
}

/// Returns the only rank of a process; fails if there are several.
pub(super) fn sole_rank(ranks: &[u32]) -> Result<u32, Diag> {
    match ranks {
        [rank] => Ok(*rank),
        ranks => {
            let message = message!("this process has {} ranks, and none was selected", ranks.len());
            Err(Diag::global_error(codes::SESSION, message).with_note("select the rank of the shard with `.on(rank)`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_by_name_and_position() {
        let names = ["T0", "logits"];
        assert_eq!(find_position(IoSide::Input, &names, "logits".into()), Ok(1));
        assert_eq!(find_position(IoSide::Input, &names, 0.into()), Ok(0));
        let reported = |key: IoKey<'_>| {
            let diag = find_position(IoSide::Output, &names, key).unwrap_err();
            (diag.code, diag.message, diag.notes.join("; "))
        };
        let near = reported("logit".into());
        assert_eq!(near.0, "H0528");
        assert_eq!(near.1, "the program has no output `logit`");
        assert_eq!(near.2, "did you mean `logits`?");
        let far = reported(2.into());
        assert_eq!(far.1, "the program has no output number 2");
        assert_eq!(far.2, "its outputs are T0, logits");
        assert_eq!(find_position(IoSide::Input, &[], 0.into()).unwrap_err().notes, ["it has no inputs"]);
    }

    #[test]
    fn ranks_that_are_meant() {
        assert_eq!(sole_rank(&[3]), Ok(3));
        let diag = sole_rank(&[0, 1]).unwrap_err();
        assert_eq!(diag.message, "this process has 2 ranks, and none was selected");
    }
}
