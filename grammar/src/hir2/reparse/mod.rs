//! Reading a text again after an edit: the statements around the edit are read, and those after it move.
//!
//! At some statements of a program's body nothing that the parser knows depends on the text before: no comment waits
//! for its place, and no blank line precedes. These are the restarts. After an edit, reading begins at the last restart
//! before it and ends where the statement of a restart after it begins again. The nodes of statements are together in
//! each arena, in the order of the text, so those in between are replaced, and the later ones get other numbers and
//! places. The tree is that of the whole text, but for the order of its strings. A text with errors is read as a whole:
//! messages look at what is around them.

mod edit;
mod moved;
mod strings;

use super::ast::{BlockId, BlockSyntax, FileSyntax, ItemSyntax};
use super::bundle::bundle_parts;
use super::line_habits::library_lines;
use super::parser::Parser;
use super::stream::ErrorList;
use super::token::{LineTok, LineToken};
use crate::ast::CommentPlaceSyntax;
use crate::limits::MAX_TOKENS;
use edit::TextEdit;
use moved::NodeMove;
use std::ops::Range;
use strings::find_lost_strings;

/// The statements from one restart to the next, at least.
const SPACING: u32 = 8;

/// The most strings of earlier texts that a tree keeps.
const MOST_REMOVED: usize = 1 << 12;

/// The numbers of nodes in the arenas of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ArenaSizes {
    exprs: u32,
    expr_lists: u32,
    args: u32,
    index_items: u32,
    targets: u32,
    launches: u32,
    types: u32,
    axes: u32,
    stmts: u32,
    blocks: u32,
    comments: u32,
}

impl ArenaSizes {
    fn of_file(file: &FileSyntax) -> Self {
        Self {
            exprs: file.exprs.len() as u32,
            expr_lists: file.expr_lists.len() as u32,
            args: file.args.len() as u32,
            index_items: file.index_items.len() as u32,
            targets: file.targets.len() as u32,
            launches: file.launches.len() as u32,
            types: file.types.len() as u32,
            axes: file.axes.len() as u32,
            stmts: file.stmts.len() as u32,
            blocks: file.blocks.len() as u32,
            comments: file.comments.len() as u32,
        }
    }

    /// The sizes of one and the other together, or, of opposite ones, their difference.
    fn plus(self, other: Self) -> Self {
        Self {
            exprs: self.exprs.wrapping_add(other.exprs),
            expr_lists: self.expr_lists.wrapping_add(other.expr_lists),
            args: self.args.wrapping_add(other.args),
            index_items: self.index_items.wrapping_add(other.index_items),
            targets: self.targets.wrapping_add(other.targets),
            launches: self.launches.wrapping_add(other.launches),
            types: self.types.wrapping_add(other.types),
            axes: self.axes.wrapping_add(other.axes),
            stmts: self.stmts.wrapping_add(other.stmts),
            blocks: self.blocks.wrapping_add(other.blocks),
            comments: self.comments.wrapping_add(other.comments),
        }
    }

    fn opposite(self) -> Self {
        Self {
            exprs: self.exprs.wrapping_neg(),
            expr_lists: self.expr_lists.wrapping_neg(),
            args: self.args.wrapping_neg(),
            index_items: self.index_items.wrapping_neg(),
            targets: self.targets.wrapping_neg(),
            launches: self.launches.wrapping_neg(),
            types: self.types.wrapping_neg(),
            axes: self.axes.wrapping_neg(),
            stmts: self.stmts.wrapping_neg(),
            blocks: self.blocks.wrapping_neg(),
            comments: self.comments.wrapping_neg(),
        }
    }
}

/// A statement of a body at which reading can begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestartPoint {
    /// The start of its line.
    start: u32,
    /// The column of its first token.
    column: u32,
    /// The number of its program or kernel among the items.
    item: u32,
    /// The block that it is in.
    body: BlockId,
    /// Its number in the block.
    stmt: u32,
    /// The nodes before it.
    sizes: ArenaSizes,
}

/// The restarts of a text.
#[derive(Clone, Default, Debug)]
pub(super) struct RestartTable {
    /// In the order of the text; none for a text with errors.
    points: Vec<RestartPoint>,
}

impl RestartTable {
    /// After the text was read as a whole: `is_plain` says that there are no errors, and no lines of other languages.
    pub(super) fn finish(&mut self, is_plain: bool) {
        if !is_plain {
            self.points = Vec::new();
        }
    }
}

/// The restarts of the same body after an edit, which end the reading of a part.
pub(super) struct RestEnds<'t> {
    points: &'t [RestartPoint],
    /// The bytes that the edit adds.
    growth: u32,
    /// The one at which the reading ended.
    met: Option<usize>,
}

impl Parser<'_> {
    /// At a statement of a body whose lines have one column: makes it a restart, unless one is near. Returns true if it
    /// is one of the text before an edit: the tree goes on as it was.
    pub(super) fn meet_restart(&mut self, block: &BlockSyntax, body: BlockId, token: LineToken) -> bool {
        if self.block_depth != 1 || token.after_blank || self.waiting_comment().is_some() {
            return false;
        }
        let (start, stmt) = (token.span.start.wrapping_sub(token.column), block.stmts.len() as u32);
        if let Some(ends) = &mut self.rest_ends {
            let old = start.wrapping_sub(ends.growth);
            let found = ends.points.binary_search_by_key(&old, |point| point.start).ok();
            ends.met = found.filter(|found| ends.points[*found].column == token.column);
            if ends.met.is_some() {
                return true;
            }
        }
        let last = self.file.restarts.points.last().filter(|last| last.body == body);
        if last.is_none_or(|last| last.stmt + SPACING <= stmt) {
            let (item, sizes) = (self.file.items.len() as u32, ArenaSizes::of_file(&self.file));
            let point = RestartPoint { start, column: token.column, item, body, stmt, sizes };
            self.file.restarts.points.push(point);
        }
        false
    }
}

/// Makes the tree of a text without errors that of the text after an edit. Returns false, and leaves the tree, if that
/// text has to be read as a whole.
///
/// ```
/// use hostir_grammar::hir2::{parse, reparse};
///
/// let before = "hir 2\nf(A: f32[n]) -> (C: f32[n]):\n  B = relu(A)\n  C = exp(B)\n";
/// let after = before.replace("exp", "tanh");
/// let mut file = parse(before).file;
/// assert!(reparse(&mut file, before, &after));
/// assert_eq!(file.exprs.len(), parse(&after).file.exprs.len());
/// assert!(!reparse(&mut file, &after, &after.replace("relu(", "relu")), "an error");
/// ```
pub fn reparse(file: &mut FileSyntax, before: &str, after: &str) -> bool {
    let edit = TextEdit::between(before, after);
    if edit.is_empty() {
        return true;
    }
    // Imported texts are parts of a bundle. There are no more tokens than bytes.
    if after.len() >= MAX_TOKENS
        || file.strings.removed_count() > MOST_REMOVED
        || !file.parts.is_empty()
        || !bundle_parts(after).is_empty()
    {
        return false;
    }
    let points = std::mem::take(&mut file.restarts.points);
    let first = points.partition_point(|point| ((point.start + point.column) as usize) < edit.start);
    let rest = points.partition_point(|point| point.start as usize <= edit.old_end);
    let Some(first) = first.checked_sub(1) else {
        file.restarts.points = points;
        return false;
    };
    let same_body = points[rest..].iter().take_while(|point| point.body == points[first].body).count();
    let strings = file.strings.len();
    let ends = RestEnds { points: &points[rest..rest + same_body], growth: edit.growth(), met: None };
    let part = read_part(file, after, &points[first], ends);
    let last = part.as_ref().map_or(points.len(), |part| part.met.map_or(points.len(), |met| rest + met));
    let place = PartPlace { first: points[first], last: points.get(last).copied(), growth: edit.growth() };
    let lost = part.as_ref().and_then(|part| find_lost_strings(file, part, &place, before, after));
    match part.zip(lost) {
        Some((part, lost)) => {
            lost.into_iter().for_each(|symbol| file.strings.remove_string(symbol));
            replace_part(file, part, &place, (&points[..=first], &points[last..]));
            true
        }
        None => {
            file.strings.truncate_strings(strings);
            file.restarts.points = points;
            false
        }
    }
}

/// The place of the statements that are read again in the tree before an edit.
struct PartPlace {
    first: RestartPoint,
    /// The statement after them; `None` if they are the last of the text.
    last: Option<RestartPoint>,
    /// The bytes that the edit adds.
    growth: u32,
}

impl PartPlace {
    /// The nodes of the tree before the edit that go away.
    fn nodes(&self, file: &FileSyntax) -> (ArenaSizes, ArenaSizes) {
        (self.first.sizes, self.last.map_or_else(|| ArenaSizes::of_file(file), |last| last.sizes))
    }

    /// The bytes of the statements before and after the edit.
    fn texts(&self, before: &str, after: &str) -> (Range<usize>, Range<usize>) {
        let start = self.first.start as usize;
        let end = self.last.map(|last| (last.start as usize, last.start.wrapping_add(self.growth) as usize));
        let (old, new) = end.unwrap_or((before.len(), after.len()));
        (start..old, start..new)
    }
}

/// Statements that were read again.
struct ReadPart {
    /// Their nodes. The first block stands for the body that they are in.
    file: FileSyntax,
    /// The statements of the body.
    body: BlockSyntax,
    /// The number of the restart at which they end; `None` if they are the last of the text.
    met: Option<usize>,
    /// The end of their last token.
    end: u32,
}

/// Reads statements from a restart on; `None` if there are errors, or the body ends before it should. Strings of the
/// tree get new ones.
fn read_part(file: &mut FileSyntax, text: &str, first: &RestartPoint, ends: RestEnds<'_>) -> Option<ReadPart> {
    let minor = file.head.minor;
    let part = FileSyntax {
        strings: std::mem::take(&mut file.strings),
        head: std::mem::take(&mut file.head),
        ..FileSyntax::default()
    };
    let mut parser = Parser::over_part(text, first.start as usize, part, ErrorList::default());
    let id = parser.add_block(BlockSyntax::default());
    (parser.rest_ends, parser.block_depth) = (Some(ends), 1);
    let body = parser.read_statements(0, id);
    let met = parser.rest_ends.take().and_then(|ends| ends.met);
    let is_last = first.item as usize + 1 == file.items.len() && parser.peek().tok == LineTok::End;
    if met.is_none() && is_last {
        parser.take_all_comments(CommentPlaceSyntax::EndOfFile);
    }
    let (end, is_right) = (parser.last_span().end, parser.errors.items.is_empty());
    let mut part = parser.file;
    let is_plain = is_right && part.head.minor == minor && library_lines(text, &part).is_empty();
    file.strings = std::mem::take(&mut part.strings);
    file.head = std::mem::take(&mut part.head);
    (is_plain && (met.is_some() || is_last)).then_some(ReadPart { file: part, body, met, end })
}

/// Puts statements that were read again into the tree; `points` are the restarts before and after them.
fn replace_part(
    file: &mut FileSyntax,
    mut part: ReadPart,
    place: &PartPlace,
    (kept, later): (&[RestartPoint], &[RestartPoint]),
) {
    let (from, to) = place.nodes(file);
    let first = &place.first;
    // The block that stands for the body is none of the tree.
    part.file.blocks.remove(0);
    let one_block = ArenaSizes { blocks: 1, ..ArenaSizes::default() };
    let own = NodeMove { ids: from.plus(one_block.opposite()), bytes: 0 };
    own.move_nodes(&mut part.file, ArenaSizes::default());
    part.body.stmts.iter_mut().for_each(|stmt| own.move_stmt_id(stmt));
    let outer = own.moved_block(BlockId(0));
    for comment in &mut part.file.comments {
        if comment.place == CommentPlaceSyntax::EndOf(outer) {
            comment.place = CommentPlaceSyntax::EndOf(first.body);
        }
    }
    let grown = from.plus(ArenaSizes::of_file(&part.file)).plus(to.opposite());
    let rest = NodeMove { ids: grown, bytes: place.growth };
    rest.move_nodes(file, to);
    rest.move_items(&mut file.items[first.item as usize + 1..]);
    replace_body(file, &mut part, place, &rest);
    let mut points = kept.to_vec();
    let new = part.file.restarts.points.iter().filter(|point| point.start > first.start);
    points.extend(new.map(|point| RestartPoint {
        item: first.item,
        body: first.body,
        stmt: first.stmt + point.stmt,
        sizes: point.sizes.plus(own.ids),
        ..*point
    }));
    let grown = (first.stmt + part.body.stmts.len() as u32).wrapping_sub(place.last.map_or(0, |last| last.stmt));
    points.extend(later.iter().map(|point| {
        let is_inside = point.body == first.body;
        RestartPoint {
            start: point.start.wrapping_add(place.growth),
            body: if is_inside { point.body } else { rest.moved_block(point.body) },
            stmt: if is_inside { point.stmt.wrapping_add(grown) } else { point.stmt },
            sizes: point.sizes.plus(rest.ids),
            ..*point
        }
    }));
    file.restarts.points = points;
    splice_arenas(file, part.file, (from, to));
}

/// Replaces the statements in the list of their body, whose end moves.
fn replace_body(file: &mut FileSyntax, part: &mut ReadPart, place: &PartPlace, rest: &NodeMove) {
    let (first, last) = (&place.first, place.last);
    let body = &mut file.blocks[first.body.index()];
    let to = last.map_or(body.stmts.len(), |last| last.stmt as usize);
    body.stmts[to..].iter_mut().for_each(|stmt| rest.move_stmt_id(stmt));
    body.stmts.splice(first.stmt as usize..to, part.body.stmts.iter().copied());
    let moved_end = |end: u32| if last.is_some() { end.wrapping_add(place.growth) } else { part.end };
    body.span.end = moved_end(body.span.end);
    if let ItemSyntax::Program(item) | ItemSyntax::Kernel(item) = &mut file.items[first.item as usize] {
        item.span.end = moved_end(item.span.end);
    }
}

/// Replaces a range of nodes in each arena.
fn splice_arenas(file: &mut FileSyntax, part: FileSyntax, (from, to): (ArenaSizes, ArenaSizes)) {
    fn splice<T>(arena: &mut Vec<T>, part: Vec<T>, from: u32, to: u32) {
        arena.splice(from as usize..to as usize, part);
    }
    splice(&mut file.exprs, part.exprs, from.exprs, to.exprs);
    splice(&mut file.expr_lists, part.expr_lists, from.expr_lists, to.expr_lists);
    splice(&mut file.args, part.args, from.args, to.args);
    splice(&mut file.index_items, part.index_items, from.index_items, to.index_items);
    splice(&mut file.targets, part.targets, from.targets, to.targets);
    splice(&mut file.launches, part.launches, from.launches, to.launches);
    splice(&mut file.types, part.types, from.types, to.types);
    splice(&mut file.axes, part.axes, from.axes, to.axes);
    splice(&mut file.stmts, part.stmts, from.stmts, to.stmts);
    splice(&mut file.blocks, part.blocks, from.blocks, to.blocks);
    splice(&mut file.comments, part.comments, from.comments, to.comments);
}
