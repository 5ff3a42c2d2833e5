//! Host IR: a language for host programs that drive several devices, with a verifier, plans and backends.
//!
//! Data flows in one direction: text -> AST (`hostir_grammar`) -> [`resolve`] -> [`ir`] -> [`verify`] -> passes
//! -> [`mod@print`], or [`lower`] -> [`plan`] -> [`backend`].
//!
//! Reading, verifying and running a program on the CPU backend:
//!
//! ```
//! use hostir::backend::cpu;
//! use hostir::data::HostTensor;
//! use hostir::diag::render;
//! use hostir::ir::DType;
//! use hostir::lower::{SizeSettings, assemble_output, prepare_program, shard_input};
//!
//! // Rank r has row r of T0; afterwards both ranks have all of T1.
//! let text = "\
//! %HostIrContainer { (T0_g_float[ideviceIdx.x0{i0}, iS1{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{i0}, iS3{i1}] (DeviceMesh{0 1})) :
//!   T1 = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
//!   Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
//!   Wait Communication 1
//! } // %HostIrContainer
//! ";
//! let (programs, mut diags) = hostir::load(text);
//! let program = &programs[0];
//! hostir::verify::verify(program, &mut diags);
//! assert!(!diags.has_errors(), "{}", render::to_string("allgather.hir", text, &diags.items));
//!
//! let mut sizes = SizeSettings::default();
//! sizes.set.insert("i1".to_owned(), 4);
//! let prepared = prepare_program(program, &sizes).expect("the mesh gives i0, the settings give i1");
//!
//! let mut whole = HostTensor::zeros(DType::Float, &[2, 4]);
//! whole.set_f64(5, 1.5);
//! let inputs = (0..prepared.ranks).map(|rank| vec![shard_input(&prepared, 0, rank, &whole)]).collect();
//! let result = cpu::run_plans(&prepared, inputs).expect("the ranks do not wait for each other in a circle");
//!
//! // Both ranks must have the same T1.
//! let outputs = (0..).zip(result.outputs).filter_map(|(rank, mut outputs)| Some((rank, outputs.remove(0)?)));
//! let gathered = assemble_output(&prepared, 0, outputs.collect()).expect("replicas are equal");
//! assert_eq!(gathered.bytes(), whole.bytes());
//! ```

pub mod analysis;
pub mod axes;
pub mod backend;
pub mod data;
pub mod diag;
pub mod hir2;
pub mod ir;
pub mod lower;
pub mod machine;
pub mod ops;
pub mod plan;
pub mod plan_checks;
pub mod print;
pub mod repair;
pub mod resolve;
pub mod skew;
pub mod style;
pub mod symbols;
pub mod verdict;
pub mod verify;

use diag::Diags;
use diag::components::{self, codes_of};

pub use diag::syntax_error;

/// Reads a text. Returns one program for each container, and all diagnostics in text order.
///
/// Never fails: if there are errors, the programs hold everything that could be read.
///
/// ```
/// let (programs, diags) = hostir::load("%HostIrContainer { () -> () :\n  Wait Comunication 1\n} // %HostIrContainer\n");
/// assert_eq!(programs.len(), 1);
/// assert!(diags.has_errors());
/// ```
pub fn load(text: &str) -> (Vec<ir::Program>, Diags) {
    load_with_options(text, &ReadOptions::default())
}

/// The settings with which a text is read.
#[derive(Clone, Default, Debug)]
pub struct ReadOptions {
    /// The ops that it may name.
    pub ops: ops::OpRegistry,
    /// Values of the sizes that give its meshes (`mesh d = 0..p`).
    pub given: ir::GivenSizes,
}

impl ReadOptions {
    /// For a text that may name these ops.
    pub fn with_ops(ops: ops::OpRegistry) -> Self {
        Self { ops, given: ir::GivenSizes::default() }
    }
}

/// Reads a text with these settings, as [`load`] does.
pub fn load_with_options(text: &str, options: &ReadOptions) -> (Vec<ir::Program>, Diags) {
    let (file, mut diags) = ParsedFile::parse(text);
    let mut reader = file.reader_with_options(text, options);
    let programs = (0..file.program_count()).map(|at| reader.read_program(at, &mut diags)).collect();
    diags.sort_by_place();
    (programs, diags)
}

/// A parsed text in either notation, whose programs are not resolved yet.
#[derive(Clone, Debug)]
pub enum ParsedFile {
    /// The printed form.
    Printed(Box<hostir_grammar::SyntaxTree>),
    /// `hir 2`.
    Hir2(Box<hostir_grammar::hir2::ast::FileSyntax>),
}

impl ParsedFile {
    /// Parses a text in the notation of its first line; the errors are those of syntax.
    pub fn parse(text: &str) -> (Self, Diags) {
        let (file, errors) = if hostir_grammar::hir2::is_hir2(text) {
            let parsed = hostir_grammar::hir2::parse(text);
            (ParsedFile::Hir2(Box::new(parsed.file)), parsed.errors)
        } else {
            let parsed = hostir_grammar::parse(text);
            (ParsedFile::Printed(Box::new(parsed.ast)), parsed.errors)
        };
        tracing::debug!(
            target: components::PARSER,
            notation = if file.is_hir2() { "hir 2" } else { "printed" },
            bytes = text.len(),
            programs = file.program_count(),
            errors = errors.len(),
            "parsed",
        );
        (file, Diags { items: errors.into_iter().map(syntax_error).collect() })
    }

    /// Makes the tree of a text that of the text after an edit, and looks only at what the edit changes. Returns the errors
    /// of that text; `None`, and leaves the tree, if the text has to be parsed as a whole.
    pub fn reparse(&mut self, before: &str, after: &str) -> Option<Diags> {
        let ParsedFile::Hir2(file) = self else { return None };
        let errors = hostir_grammar::hir2::reparse(file, before, after)?;
        Some(Diags { items: errors.into_iter().map(syntax_error).collect() })
    }

    /// Number of programs.
    pub fn program_count(&self) -> usize {
        match self {
            ParsedFile::Printed(ast) => ast.containers.len(),
            ParsedFile::Hir2(file) => hir2::read::program_count(file),
        }
    }

    /// The names of the programs; `None` for one without a name.
    pub fn program_names(&self) -> Vec<Option<String>> {
        match self {
            ParsedFile::Printed(ast) => {
                let names = ast.containers.iter().map(|node| node.given_name);
                names.map(|name| name.map(|name| ast.symbol_text(name).to_owned())).collect()
            }
            ParsedFile::Hir2(file) => hir2::read::program_names(file).map(|name| Some(name.to_owned())).collect(),
        }
    }

    /// Whether the text is in `hir 2`.
    pub fn is_hir2(&self) -> bool {
        matches!(self, ParsedFile::Hir2(_))
    }

    /// A reader of the programs; `text` is the parsed text.
    pub fn reader<'a>(&'a self, text: &'a str) -> SourceReader<'a> {
        self.reader_with_options(text, &ReadOptions::default())
    }

    /// The same with these settings.
    pub fn reader_with_options<'a>(&'a self, text: &'a str, options: &ReadOptions) -> SourceReader<'a> {
        let ops = options.ops;
        SourceReader(match self {
            ParsedFile::Printed(ast) => {
                FormReader::Printed(Box::new(resolve::FileResolver::new(ast, text).with_ops(ops)))
            }
            ParsedFile::Hir2(file) => {
                let reader = hir2::read::FileReader::with_sizes(file, text, &options.given);
                FormReader::Hir2(Box::new(reader.with_ops(ops)))
            }
        })
    }

    /// Removes from the errors of [`ParsedFile::parse`] those of other programs than this one, from 0. Errors outside
    /// of all programs stay.
    pub fn keep_errors_of(&self, number: usize, diags: &mut Diags) {
        // The first offset of each program with its number; `None` for the parts that all programs share.
        let starts: Vec<(u32, Option<usize>)> = match self {
            ParsedFile::Printed(ast) => {
                ast.containers.iter().enumerate().map(|(at, node)| (node.header.start, Some(at))).collect()
            }
            ParsedFile::Hir2(file) => hir2::read::item_starts(file),
        };
        diags.items.retain(|diag| {
            let Some(place) = &diag.primary else { return true };
            let before = starts.partition_point(|(start, _)| *start <= place.span.start);
            let owner = before.checked_sub(1).and_then(|at| starts[at].1);
            owner.is_none_or(|owner| owner == number)
        });
    }
}

/// Reads the programs of a parsed file. The time for each depends on its own length, not on that of the file.
pub struct SourceReader<'a>(FormReader<'a>);

enum FormReader<'a> {
    Printed(Box<resolve::FileResolver<'a>>),
    Hir2(Box<hir2::read::FileReader<'a>>),
}

impl SourceReader<'_> {
    /// Sets the element type of tensors whose text has none, as in texts before December 2024.
    #[must_use]
    pub fn with_element_type(self, element_type: ir::DType) -> Self {
        match self.0 {
            FormReader::Printed(reader) => Self(FormReader::Printed(Box::new(reader.with_element_type(element_type)))),
            hir2 @ FormReader::Hir2(_) => Self(hir2),
        }
    }

    /// Keeps the declarations of names in the programs that are read from now on, for [`symbols::SymbolTable`].
    #[must_use]
    pub fn with_declarations(self) -> Self {
        match self.0 {
            FormReader::Hir2(reader) => Self(FormReader::Hir2(Box::new(reader.with_declarations()))),
            printed @ FormReader::Printed(_) => Self(printed),
        }
    }

    /// The declarations that were kept; none of a printed text, whose names are numbers.
    pub fn declarations(&self) -> &[hir2::read::DeclaredName] {
        match &self.0 {
            FormReader::Hir2(reader) => reader.declarations(),
            FormReader::Printed(_) => &[],
        }
    }

    /// Resolves one program, from 0. A number past the last gives an empty program.
    pub fn read_program(&mut self, number: usize, diags: &mut Diags) -> ir::Program {
        let earlier = diags.items.len();
        let program = self.resolve_program(number, diags);
        tracing::debug!(
            target: components::PARSER,
            number,
            name = program.given_names().program.map(|name| program.name(name)),
            ops = program.ops().len(),
            tensors = program.tensors().len(),
            meshes = program.meshes().len(),
            diagnostics = ?codes_of(&diags.items[earlier..]),
            "resolved",
        );
        program
    }

    fn resolve_program(&mut self, number: usize, diags: &mut Diags) -> ir::Program {
        match &mut self.0 {
            FormReader::Printed(reader) => {
                let mut program = reader.resolve_container(number, diags);
                if reader.has_untyped() {
                    ops::result_types::infer_element_types(&mut program);
                }
                program
            }
            FormReader::Hir2(reader) => reader.read_program(number, diags),
        }
    }
}
