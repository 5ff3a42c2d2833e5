//! The numbers of tensors, domains and communications that a text does not give.

use crate::ir::order::first_free_number;
use crate::ir::{Program, TensorId, UnitId};
use hostir_grammar::hir2::ast::FileSyntax;
use rustc_hash::FxHashMap;

/// The numbers that are free in the program that is read, and the tensors of those that are taken.
pub(super) struct Numbering {
    next_tensor: u32,
    next_domain: u32,
    next_handle: u32,
    /// The newest tensor of each number in each scope, as far as verbatim texts asked for them.
    tensors: FxHashMap<(Option<UnitId>, u32), TensorId>,
    /// The number of tensors that are in the table.
    noted: usize,
}

impl Numbering {
    /// Numbers from the first ones of a file on.
    pub(super) fn new(first: FirstNumbers) -> Self {
        Self {
            next_tensor: first.tensor,
            next_domain: 0,
            next_handle: first.handle,
            tensors: FxHashMap::default(),
            noted: 0,
        }
    }

    /// Takes the number of a new tensor.
    pub(super) fn new_tensor(&mut self) -> u32 {
        self.next_tensor += 1;
        self.next_tensor - 1
    }

    /// Takes so many domain numbers; returns the first.
    pub(super) fn new_domains(&mut self, count: usize) -> u32 {
        let first = self.next_domain;
        self.next_domain += count as u32;
        first
    }

    /// Takes the number of a new communication or group.
    pub(super) fn new_handle(&mut self) -> u32 {
        self.next_handle += 1;
        self.next_handle - 1
    }

    /// The newest tensor of a number in a scope of the program.
    pub(super) fn tensor_of_number(
        &mut self,
        program: &Program,
        unit: Option<UnitId>,
        number: u32,
    ) -> Option<TensorId> {
        for at in self.noted..program.tensors.len() {
            let id = TensorId(at as u32);
            let tensor = program.tensor(id);
            self.tensors.insert((tensor.unit, tensor.number), id);
        }
        self.noted = program.tensors.len();
        self.tensors.get(&(unit, number)).copied()
    }
}

/// The first of the numbers that no name of a file stands for.
#[derive(Clone, Copy)]
pub(super) struct FirstNumbers {
    tensor: u32,
    handle: u32,
}

impl FirstNumbers {
    pub(super) fn of_names(file: &FileSyntax) -> Self {
        let (mut tensors, mut handles) = (Vec::new(), Vec::new());
        for text in file.strings.symbols().map(|symbol| file.symbol_text(symbol)) {
            match text.as_bytes().first() {
                Some(b'T') => tensors.extend(leading_number(&text[1..])),
                Some(b'h') => handles.extend(leading_number(&text[1..])),
                _ => {}
            }
            // Verbatim texts may name tensors and communications anywhere.
            if text.bytes().any(|byte| matches!(byte, b' ' | b'(')) {
                let start = tensors.len();
                tensors
                    .extend(text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u32>().ok()));
                handles.extend_from_slice(&tensors[start..]);
            }
        }
        Self { tensor: first_free_number(tensors.into_iter()), handle: first_free_number(handles.into_iter()) }
    }
}

/// The number that a text begins with.
fn leading_number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
