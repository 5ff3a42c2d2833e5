//! Names of tensors that passes derive from tensors with names: `G.1`, `G.2`.

use hostir::ir::edit::Edit;
use hostir::ir::{Program, Symbol, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Derives names that the program does not have.
#[derive(Default)]
pub(crate) struct DerivedNames {
    /// Names in use; collected with the first derived name.
    taken: Option<FxHashSet<Symbol>>,
    /// By the part in front of the number: the last number.
    last: FxHashMap<String, u32>,
}

impl DerivedNames {
    /// A name for a tensor that is derived from another one; `None` if that one has no name.
    pub(crate) fn derive_name(&mut self, edit: &mut Edit<'_>, like: TensorId) -> Option<Symbol> {
        let program = edit.program();
        let base = name_stem(program.name(program.tensor(like).name?)).to_owned();
        let taken = self.taken.get_or_insert_with(|| names_in_use(program));
        let last = self.last.entry(base.clone()).or_insert(0);
        loop {
            *last += 1;
            let name = edit.intern_name(&format!("{base}.{last}"));
            if taken.insert(name) {
                return Some(name);
            }
        }
    }

    /// Takes a derived name back.
    pub(crate) fn release_name(&mut self, program: &Program, name: Symbol) {
        let Some(taken) = &mut self.taken else { return };
        taken.remove(&name);
        let text = program.name(name);
        if let Some((_, number)) = text.rsplit_once('.')
            && let (Ok(number), Some(last)) = (number.parse::<u32>(), self.last.get_mut(name_stem(text)))
            && *last == number
        {
            *last -= 1;
        }
    }
}

/// `G` of `G.3`.
fn name_stem(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// Names of tensors, handles and streams.
fn names_in_use(program: &Program) -> FxHashSet<Symbol> {
    let given = program.given_names();
    let tensors = program.tensors().iter().filter_map(|(_, tensor)| tensor.name);
    tensors.chain(given.handles.values().copied()).chain(given.streams.values().copied()).collect()
}
