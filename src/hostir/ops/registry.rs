//! The ops that texts may name: those of the table, and those of a caller.
//!
//! A kind knows its row, so only what looks up names needs a registry: readers, writers (which avoid the names of ops)
//! and lists. A program keeps the registry that it was read with.

use super::{Infer, OpSpec};
use crate::ir::{OpKind, OpLayout, OwnForm, Program};

/// The ops that a text may name: ours, and those of a caller.
///
/// A caller's op is a `static`, whose identity names it as its row:
///
/// ```
/// use hostir::ir::{OpIdentity, OpKind};
/// use hostir::ops::{OpRegistry, OpSpec};
///
/// static NOTHING: OpSpec = OpSpec {
///     identity: OpIdentity { name: "nothing", spec: Some(&NOTHING), ..OpIdentity::TENSOR_OP },
///     summary: "Makes a tensor of nothing.",
///     ..OpSpec::TENSOR_OP
/// };
/// static MORE: &[OpKind] = &[NOTHING.kind()];
///
/// let registry = OpRegistry::with_ops(MORE);
/// assert_eq!(registry.find_op("nothing"), Some(NOTHING.kind()));
/// assert_eq!(NOTHING.kind().spec().summary, "Makes a tensor of nothing.");
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct OpRegistry {
    /// The ops of the caller.
    more: &'static [OpKind],
}

impl OpRegistry {
    /// The ops of the table alone.
    pub const OURS: OpRegistry = OpRegistry { more: &[] };

    /// The ops of the table, and these.
    ///
    /// # Panics
    /// If an op has the name of another one; a `static` registry does not compile then.
    pub const fn with_ops(more: &'static [OpKind]) -> Self {
        let mut at = 0;
        while at < more.len() {
            let name = more[at].name();
            assert!(!has_name(OpKind::ALL, OpKind::ALL.len(), name), "a caller's op has the name of one of the table");
            assert!(!has_name(more, at, name), "two ops of a caller have one name");
            at += 1;
        }
        Self { more }
    }

    /// The registry that a program was read with.
    pub fn of_program(program: &Program) -> Self {
        Self { more: program.caller_ops }
    }

    /// Notes in a program that it is read with this registry.
    pub(crate) fn note_in(self, program: &mut Program) {
        program.caller_ops = self.more;
    }

    /// All ops: those of the table in its order, then those of the caller.
    pub fn kinds(self) -> impl Iterator<Item = OpKind> {
        OpKind::ALL.iter().chain(self.more).copied()
    }

    /// The kind of a head word, in any style's spelling. Pointwise functions are not ops of their own: see
    /// [`crate::ir::functions`].
    pub fn find_op(self, word: &str) -> Option<OpKind> {
        self.kinds().find(|kind| kind.spec().has_head_word() && kind.spec().own_words().any(|own| own == word))
    }

    /// All head words, as candidates for a misspelt one.
    pub fn head_words(self) -> impl Iterator<Item = &'static str> {
        self.kinds().filter(|kind| kind.spec().has_head_word()).flat_map(|kind| kind.spec().own_words())
    }

    /// The head words of ops that permute axes.
    pub fn permuting_head_words(self) -> impl Iterator<Item = &'static str> {
        self.kinds().filter(|kind| kind.has_permutation()).flat_map(|kind| kind.spec().own_words())
    }

    /// The ops whose results' types may be left out of a text.
    pub fn inferring_ops(self) -> impl Iterator<Item = OpKind> {
        self.kinds().filter(|kind| !matches!(kind.spec().infer, Infer::Written))
    }
}

/// True if one of the first `count` ops has a name.
const fn has_name(kinds: &[OpKind], count: usize, name: &str) -> bool {
    let mut at = 0;
    while at < count {
        if is_equal(kinds[at].name().as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// `a == b`, which is not for constants.
const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl OpSpec {
    /// The kind of a caller's op, whose identity names this row.
    pub const fn kind(&'static self) -> OpKind {
        OpKind::new(&self.identity)
    }

    /// Returns true if a statement begins with the op's name. Loops and branches are keywords of the grammar; pointwise
    /// ops and definitions have no word of their own.
    fn has_head_word(&self) -> bool {
        let layout = self.identity.layout;
        let is_keyword =
            matches!(layout, OpLayout::Own(OwnForm::LoopOverDomain | OwnForm::LoopOverRange | OwnForm::Branch));
        !is_keyword && !matches!(layout, OpLayout::Pointwise | OpLayout::Define)
    }

    /// The op's name, and its names in other styles.
    fn own_words(&'static self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.identity.name).chain(self.spellings.iter().map(|(word, _)| *word))
    }
}
