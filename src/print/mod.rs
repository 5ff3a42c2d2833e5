//! From IR to text, byte for byte as nvFuser prints it.
//!
//! All layout follows from the program: two blanks a block, one function for each
//! [`Layout`](crate::ir::Layout), spelling by [`Style`](crate::ir::Style). The text of a tensor or
//! scalar is made once and copied from then on.

mod forms;
mod layouts;
mod program;

use crate::ir::TextCache;
use crate::ir::{BlockId, CommentPlace, OpId, Program, RootAs, TensorId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Which form of the language to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// nvFuser's: every tensor in full.
    #[default]
    Full,
    /// For people: `T3` alone once its text is known.
    Short,
}

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// The form.
    pub form: Form,
}

/// The text of a program.
pub fn print(program: &Program) -> String {
    let mut out = String::new();
    print_into(program, PrintOptions::default(), &mut out);
    out
}

/// Appends the text of a program to `out`.
pub fn print_into(program: &Program, options: PrintOptions, out: &mut String) {
    let mut printer = Printer::new(program, out);
    if options.form == Form::Short {
        printer.known = Some(FxHashMap::default());
    }
    printer.program();
}

/// Appends the text of one op and its blocks, without indentation or a final line break.
pub fn print_op(program: &Program, op: OpId, out: &mut String) {
    let mut printer = Printer::new(program, out);
    printer.op(op);
    printer.blocks(op);
    if printer.out.ends_with('\n') {
        printer.out.pop();
    }
}

/// The text of each op on one line, without its blocks, every tensor by its number alone.
pub fn op_lines(program: &Program, ops: impl IntoIterator<Item = OpId>) -> Vec<String> {
    let mut out = String::new();
    let mut printer = Printer::new(program, &mut out);
    printer.known = Some(FxHashMap::default());
    let line = |op| {
        // The first time tells the printer what the tensors are.
        for _ in 0..2 {
            printer.out.clear();
            printer.op(op);
        }
        printer.out.split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    ops.into_iter().map(line).collect()
}

/// The state of one run.
struct Printer<'p> {
    program: &'p Program,
    out: &'p mut String,
    texts: TextCache,
    /// Comments by place; empty for most programs.
    comments: FxHashMap<CommentPlace, SmallVec<[u32; 1]>>,
    /// The short form: the tensor that each number means at this place.
    known: Option<FxHashMap<u32, TensorId>>,
    /// Blanks in front of statements.
    indent: usize,
    /// How roots without `root_as=` are read, once that was asked for.
    spelled_root: Option<RootAs>,
}

impl<'p> Printer<'p> {
    fn new(program: &'p Program, out: &'p mut String) -> Self {
        let mut comments: FxHashMap<CommentPlace, SmallVec<[u32; 1]>> = FxHashMap::default();
        for (index, comment) in program.source.comments.iter().enumerate() {
            comments.entry(comment.place).or_default().push(index as u32);
        }
        let texts = TextCache::new(program);
        Self { program, out, texts, comments, known: None, indent: 0, spelled_root: None }
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// `count` blanks.
    fn blanks(&mut self, mut count: usize) {
        const BLANKS: &str = "                                ";
        while count > BLANKS.len() {
            self.out.push_str(BLANKS);
            count -= BLANKS.len();
        }
        self.out.push_str(&BLANKS[..count]);
    }

    /// A line break and `extra` blanks more than the statement has.
    fn line(&mut self, extra: usize) {
        self.out.push('\n');
        self.blanks(self.indent + extra);
    }

    /// The statements of a block, each on lines of its own.
    fn block(&mut self, block: BlockId) {
        let program = self.program;
        for &op in &program.block(block).ops {
            self.comment_lines(CommentPlace::Above(op));
            self.blanks(self.indent);
            self.op(op);
            self.trailing_comments(CommentPlace::Trailing(op));
            self.out.push('\n');
            self.blocks(op);
        }
        self.comment_lines(CommentPlace::EndOf(block));
    }

    /// The blocks of an op, deeper.
    fn blocks(&mut self, op: OpId) {
        let program = self.program;
        for (index, &block) in program.op(op).blocks.iter().enumerate() {
            if index == 1 {
                if program.block(block).ops.is_empty() {
                    continue;
                }
                self.blanks(self.indent);
                self.push("ELSE:");
                self.trailing_comments(CommentPlace::StartOf(block));
                self.push("\n");
            }
            self.indent += 2;
            self.block(block);
            self.indent -= 2;
        }
    }

    /// Comments on lines of their own.
    fn comment_lines(&mut self, place: CommentPlace) {
        for index in self.comments_at(place) {
            self.blanks(self.indent);
            self.comment(index);
            self.out.push('\n');
        }
    }

    /// Comments at the end of a line.
    fn trailing_comments(&mut self, place: CommentPlace) {
        for index in self.comments_at(place) {
            self.out.push(' ');
            self.comment(index);
        }
    }

    fn comments_at(&self, place: CommentPlace) -> SmallVec<[u32; 1]> {
        if self.comments.is_empty() {
            return SmallVec::new();
        }
        self.comments.get(&place).cloned().unwrap_or_default()
    }

    fn comment(&mut self, index: u32) {
        let program = self.program;
        if let Some(comment) = program.source.comments.get(index as usize) {
            self.out.push_str(&comment.text);
        }
    }
}
