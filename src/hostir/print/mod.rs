//! The printer: writes IR as text, byte for byte as nvFuser prints it.
//!
//! The layout follows from the program alone: two blanks for each block, one function for each
//! [`Layout`](crate::ir::OpLayout), spelling by [`Style`]. It makes the text of a tensor or scalar once and then copies
//! it.

mod argument_lines;
mod forms;
mod grouped;
mod layouts;
mod names;
mod program;

use crate::ir::TextCache;
use crate::ir::{BlockId, CommentPlace, OpId, Program, RootAs, Style, TensorId};
use crate::style::{drop_index_shifts, leave_inferred_axes_out, printed_style};
use names::UnprintedNames;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The form of the language to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrintForm {
    /// nvFuser's: every tensor in full.
    #[default]
    Full,
    /// For messages: `T3` alone once its text is known.
    Short,
}

/// Options for printing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// The form.
    pub form: PrintForm,
    /// The cases in which the first line is `hir 1`.
    pub version: VersionLine,
}

/// The cases in which the first line of a printed text is `hir 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VersionLine {
    /// If the text had it, and if a program in `hir 2` has names.
    #[default]
    AsRead,
    /// Always: some program of the text has names.
    Always,
    /// Never: the program is not the first of the text.
    Never,
}

/// The text of a program, in full form.
///
/// ```
/// let text = "\
/// %HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
///   T1_g_float[iS1{i0}]
///      = relu(T0_g_float[iS0{i0}]);
/// } // %HostIrContainer
/// ";
/// let (programs, _) = hostir::load(text);
/// assert_eq!(hostir::print::print_to_string(&programs[0]), text);
/// ```
pub fn print_to_string(program: &Program) -> String {
    let mut out = String::new();
    print_into(program, PrintOptions::default(), &mut out);
    out
}

/// Appends the text of a program to `out`.
pub fn print_into(program: &Program, options: PrintOptions, out: &mut String) {
    print_program(program, options, out, None);
}

/// Hands over the text of a program in pieces of whole statements, which takes less memory for a large one.
pub fn print_pieces(program: &Program, options: PrintOptions, take: &mut dyn FnMut(&str)) {
    let mut rest = String::new();
    print_program(program, options, &mut rest, Some(take));
    take(&rest);
}

fn print_program(program: &Program, options: PrintOptions, out: &mut String, take: Option<&mut dyn FnMut(&str)>) {
    let shifts = drop_index_shifts(program);
    let program = shifts.as_ref().unwrap_or(program);
    let axes = leave_inferred_axes_out(program);
    let mut printer = ProgramPrinter::new(axes.as_ref().unwrap_or(program), out);
    if options.form == PrintForm::Short {
        printer.known = Some(FxHashMap::default());
    }
    printer.version = options.version;
    if let Some(take) = take {
        printer.take = Some(take);
    }
    printer.print_program();
}

/// The number of bytes from which a piece of text is handed over.
const PIECE: usize = 1 << 20;

/// The number of bytes of texts of tensors that are kept from one piece to the next.
const CACHED: usize = 16 << 20;

/// The text of each op on one line, without its blocks, every tensor by its number alone.
pub fn op_lines(program: &Program, ops: impl IntoIterator<Item = OpId>) -> Vec<String> {
    let mut out = String::new();
    let mut printer = ProgramPrinter::new(program, &mut out);
    printer.known = Some(FxHashMap::default());
    let line = |op| {
        // The first pass tells the printer the tensors.
        for _ in 0..2 {
            printer.out.clear();
            printer.print_statement(op);
        }
        printer.out.split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    ops.into_iter().map(line).collect()
}

/// The state of one run.
struct ProgramPrinter<'p> {
    program: &'p Program,
    style: Style,
    out: &'p mut String,
    /// Takes the text so far, if it is wanted in pieces.
    take: Option<&'p mut dyn FnMut(&str)>,
    texts: TextCache,
    /// Comments by place; empty for most programs.
    comments: FxHashMap<CommentPlace, SmallVec<[u32; 1]>>,
    /// The short form: the tensor that each number means at this place.
    known: Option<FxHashMap<u32, TensorId>>,
    /// Blanks in front of statements.
    indent: usize,
    /// The meaning of roots without `root_as=`; `None` until first needed.
    spelled_root: Option<RootAs>,
    version: VersionLine,
    /// Tensors and meshes whose names are still to be printed, at their first place.
    unnamed: UnprintedNames,
}

impl<'p> ProgramPrinter<'p> {
    fn new(program: &'p Program, out: &'p mut String) -> Self {
        let mut comments: FxHashMap<CommentPlace, SmallVec<[u32; 1]>> = FxHashMap::default();
        // The empty ones are blank lines, which only `hir 2` has.
        let filled = program.source.comments.iter().enumerate().filter(|(_, comment)| !comment.text.is_empty());
        for (index, comment) in filled {
            let place = if comment.place.is_of_file() { CommentPlace::File } else { comment.place };
            comments.entry(place).or_default().push(index as u32);
        }
        let style = printed_style(program);
        let texts = TextCache::new(program, style);
        Self {
            program,
            style,
            out,
            take: None,
            texts,
            comments,
            known: None,
            indent: 0,
            spelled_root: None,
            version: VersionLine::AsRead,
            unnamed: UnprintedNames::default(),
        }
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// `count` blanks.
    fn print_blanks(&mut self, mut count: usize) {
        const BLANKS: &str = "                                ";
        while count > BLANKS.len() {
            self.out.push_str(BLANKS);
            count -= BLANKS.len();
        }
        self.out.push_str(&BLANKS[..count]);
    }

    /// Breaks the line, and indents by `extra` blanks more than the statement.
    fn break_line(&mut self, extra: usize) {
        self.out.push('\n');
        self.print_blanks(self.indent + extra);
    }

    /// The statements of a block, each on lines of its own.
    fn print_block(&mut self, block: BlockId) {
        let program = self.program;
        let ops = &program.block(block).ops;
        for (at, &op) in ops.iter().enumerate() {
            self.print_comment_lines(CommentPlace::Above(op));
            self.print_blanks(self.indent);
            self.print_statement(op);
            self.print_statement_name(self.program.op(op));
            self.print_trailing_comments(CommentPlace::Trailing(op));
            match program.style.joined_posts {
                true => self.print_joined_end(op, ops.get(at + 1).copied()),
                false => self.out.push('\n'),
            }
            self.print_blocks(op);
            self.hand_over_piece();
        }
        self.print_comment_lines(CommentPlace::EndOf(block));
    }

    /// Hands over the text so far, if it is long enough.
    fn hand_over_piece(&mut self) {
        if self.out.len() >= PIECE
            && let Some(take) = &mut self.take
        {
            take(self.out);
            self.out.clear();
            self.texts.limit_bytes(CACHED);
        }
    }

    /// The blocks of an op, deeper.
    fn print_blocks(&mut self, op: OpId) {
        let program = self.program;
        for (index, &block) in program.op(op).blocks.iter().enumerate() {
            if index == 1 {
                if program.block(block).ops.is_empty() {
                    continue;
                }
                self.print_blanks(self.indent);
                self.push("ELSE:");
                self.print_trailing_comments(CommentPlace::StartOf(block));
                self.push("\n");
            }
            self.indent += 2;
            self.print_block(block);
            self.indent -= 2;
        }
    }

    /// Comments on lines of their own.
    fn print_comment_lines(&mut self, place: CommentPlace) {
        for index in self.comments_at(place) {
            self.print_blanks(self.indent);
            self.print_comment(index);
            self.out.push('\n');
        }
    }

    /// Comments at the end of a line.
    fn print_trailing_comments(&mut self, place: CommentPlace) {
        for index in self.comments_at(place) {
            self.out.push(' ');
            self.print_comment(index);
        }
    }

    fn comments_at(&self, place: CommentPlace) -> SmallVec<[u32; 1]> {
        if self.comments.is_empty() {
            return SmallVec::new();
        }
        self.comments.get(&place).cloned().unwrap_or_default()
    }

    fn print_comment(&mut self, index: u32) {
        let program = self.program;
        if let Some(comment) = program.source.comments.get(index as usize) {
            self.out.push_str(&comment.text);
        }
    }
}
