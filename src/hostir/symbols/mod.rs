//! The names of a text with all their places: definitions, references and renames for editors.
//!
//! The meaning of a name comes from the readers: [`hir2`](crate::hir2::read) keeps the declarations it makes
//! ([`SourceReader::with_declarations`](crate::SourceReader::with_declarations)), and in the printed form a tensor,
//! a communication and a kernel are the numbers in their names. This module adds the places: names of a syntax tree
//! that mean one thing are one symbol. Since no name of a program shadows another, its place decides between equal names
//! only for indices of consecutive loops.

mod hir2;
mod printed;

use crate::ParsedFile;
use crate::hir2::read::DeclaredName;
use crate::ir::{Program, TensorId};
use hostir_grammar::Span;

/// The sort of thing that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// A tensor.
    Tensor,
    /// A scalar that the program defines.
    Scalar,
    /// The index of a loop.
    Index,
    /// An extent or a scalar of the caller.
    Size,
    /// A communication or a group, or an array of them.
    Handle,
    /// A stream.
    Stream,
    /// A mesh.
    Mesh,
    /// A kernel, own or imported.
    Kernel,
    /// A program.
    Program,
    /// Something whose declaration has an error.
    Unknown,
}

/// A thing with a name, and the places of the name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSymbol {
    /// The name: `G`, or `T3`.
    pub name: String,
    /// The sort of thing.
    pub kind: SymbolKind,
    /// All places of the name, in the order of the text; at least one.
    pub places: Vec<Span>,
    /// The place of the declaration, which is one of these; the first place of what no place declares.
    pub declaration: Span,
    /// The part of the text in which the name has this meaning; `None` for a name of the whole file.
    pub scope: Option<Span>,
    /// The number of the program in which it has an id; `None` for a name of the file.
    pub program: Option<usize>,
    /// The ids of a tensor in this program. A number of the printed form may have several.
    pub tensors: Vec<TensorId>,
    /// The number of a communication or group in this program.
    pub handle: Option<u32>,
}

/// The names of a text.
///
/// ```
/// use hostir::ParsedFile;
/// use hostir::symbols::{SymbolKind, SymbolTable};
///
/// let text = "hir 2\nf(A: f32[n]) -> (B: f32[n]):\n  B = relu(A)\n";
/// let (file, mut diags) = ParsedFile::parse(text);
/// let mut reader = file.reader(text).with_declarations();
/// let programs = vec![reader.read_program(0, &mut diags)];
/// let table = SymbolTable::new(&file, text, reader.declarations(), &programs);
/// let found = table.symbol_at(text.find("relu(A").unwrap() as u32 + 5).expect("a name is there");
/// assert_eq!((found.name.as_str(), found.kind), ("A", SymbolKind::Tensor));
/// assert_eq!(found.places.len(), 2);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SymbolTable {
    symbols: Vec<NamedSymbol>,
    /// The places of all names in the order of the text, each with the index of its symbol. They do not overlap.
    places: Vec<(Span, u32)>,
}

impl SymbolTable {
    /// The names of a parsed text. `declared` are the declarations of a reader that has read all of its programs,
    /// `programs` these programs. Imported texts are left out.
    pub fn new(file: &ParsedFile, text: &str, declared: &[DeclaredName], programs: &[Program]) -> Self {
        let symbols = match file {
            ParsedFile::Hir2(file) => hir2::find_symbols(file, text, declared),
            ParsedFile::Printed(tree) => printed::find_symbols(tree, text, programs),
        };
        Self::from_symbols(symbols)
    }

    fn from_symbols(mut symbols: Vec<NamedSymbol>) -> Self {
        symbols.retain(|symbol| !symbol.places.is_empty());
        symbols.sort_by_key(|symbol| symbol.places[0]);
        let numbered = symbols.iter().zip(0..);
        let mut places: Vec<(Span, u32)> =
            numbered.flat_map(|(symbol, number)| symbol.places.iter().map(move |place| (*place, number))).collect();
        places.sort_unstable();
        Self { symbols, places }
    }

    /// All symbols, in the order of their first places.
    pub fn symbols(&self) -> &[NamedSymbol] {
        &self.symbols
    }

    /// The symbol whose name is at an offset, or ends there, with that place.
    pub fn place_at(&self, offset: u32) -> Option<(Span, &NamedSymbol)> {
        let after = self.places.partition_point(|(place, _)| place.start <= offset);
        // The name that ends at the offset, if none begins there.
        let (place, number) = self.places[..after].last()?;
        (offset <= place.end).then(|| (*place, &self.symbols[*number as usize]))
    }

    /// The symbol whose name is at an offset, or ends there.
    pub fn symbol_at(&self, offset: u32) -> Option<&NamedSymbol> {
        self.place_at(offset).map(|(_, symbol)| symbol)
    }

    /// The places of all names in the order of the text, each with its symbol.
    pub fn places(&self) -> impl Iterator<Item = (Span, &NamedSymbol)> {
        self.places.iter().map(|(place, number)| (*place, &self.symbols[*number as usize]))
    }

    /// The symbols that a name may mean at an offset, the file's included.
    pub fn visible_at(&self, offset: u32) -> impl Iterator<Item = &NamedSymbol> {
        self.symbols
            .iter()
            .filter(move |symbol| symbol.scope.is_none_or(|scope| scope.start <= offset && offset <= scope.end))
    }
}
