//! Extents without a value: gives them the caller's one value for all, or reports them.

use super::{KnownSize, SizeSolver, SizeSource};
use crate::diag::message;
use crate::diag::{Diag, Message, Quoted, RunOption, codes};
use crate::ir::scalar_names::sub_expressions;
use crate::ir::{Expr, ExprId, Program, Symbol};
use rustc_hash::FxHashSet;

impl SizeSolver<'_> {
    /// Gives one open extent this value; returns true if there was one. Others may follow from it. Names from which
    /// extents are computed (`( 2 * i2 )`) therefore come before those that may be such an extent, and the host
    /// program's before those of its units.
    pub(super) fn fix_one_open(&mut self, value: i64) -> bool {
        let inside = self.extent_names();
        let mut open: Vec<_> = self.sizes.names.clone();
        open.retain(|(.., node)| {
            let root = self.sizes.find_root(*node) as usize;
            self.sizes.known[root].is_none()
        });
        let first = open.iter().min_by_key(|(unit, name, _)| (unit.is_some(), !inside.contains(name)));
        let Some(&(_, _, node)) = first else { return false };
        let option = format!("--set '*={value}'");
        let why = message!("`{}`", Quoted::run_option(RunOption::Set, option));
        self.sizes.fix_node(node, KnownSize { value, span: None, why: why.into(), source: SizeSource::Caller });
        true
    }

    /// Gives an open extent the size that the text proposes for it, if there is one.
    pub(super) fn fix_one_hint(&mut self) -> bool {
        for (name, value) in self.program.run_hints().sizes.clone() {
            let node = self.sizes.name_node(None, name);
            let root = self.sizes.find_root(node) as usize;
            if self.sizes.known[root].is_none() {
                let known = self.hinted_size(name, value);
                self.sizes.fix_node(node, known);
                return true;
            }
        }
        false
    }

    fn hinted_size(&self, name: Symbol, value: i64) -> KnownSize {
        let why = message!("`sizes {}={}` of the text", self.program.name(name), value);
        KnownSize { value, span: None, why: why.into(), source: SizeSource::Text }
    }

    /// Checks proposed sizes: they yield to those of the caller, but neither to others of the text nor to each other.
    pub(super) fn check_hints(&mut self) {
        let hints = self.program.run_hints().sizes.clone();
        let nodes: Vec<u32> = hints.iter().map(|(name, _)| self.sizes.name_node(None, *name)).collect();
        let roots: Vec<u32> = nodes.iter().map(|&node| self.sizes.find_root(node)).collect();
        for (at, &(name, value)) in hints.iter().enumerate() {
            let (node, root) = (nodes[at], roots[at]);
            let known = self.sizes.known[root as usize].as_ref();
            let is_of_text = known.is_some_and(|known| known.source == SizeSource::Text);
            let mut others = hints.iter().zip(&roots).filter(|((other, _), of)| **of == root && *other != name);
            let differs = others.any(|((_, other), _)| *other != value);
            let yields = match differs {
                true => self.sizes.is_claimed_by_caller(node),
                false => !is_of_text || self.sizes.has_claim_of_caller(root),
            };
            if !yields {
                let hinted = self.hinted_size(name, value);
                self.sizes.fix_node(node, hinted);
            }
        }
    }

    /// Names from which the extents of axes are computed.
    fn extent_names(&self) -> FxHashSet<Symbol> {
        let mut found = FxHashSet::default();
        for tensor in self.program.tensors().ids() {
            for axis in self.axes.axes_of(tensor) {
                if !matches!(self.program.expr(axis.extent), Expr::Name(_)) {
                    add_names(self.program, axis.extent, &mut found);
                }
            }
        }
        found
    }

    /// One error for all open extents: where each occurs and the flags that set it.
    pub(super) fn report_open(&mut self, open: &[(String, u32)]) {
        let names: Vec<String> = open.iter().map(|(name, _)| format!("`{name}`")).collect();
        let header = self.program.source().header;
        let many = if names.len() == 1 { "this size is" } else { "these sizes are" };
        let mut diag = Diag::error(codes::SIZE_UNKNOWN, header, message!("{} not known: {}", many, names.join(", ")));
        let places = self.class_axes();
        for (name, root) in open {
            let places = places.get(root).map_or(&[][..], Vec::as_slice);
            let text = match places.is_empty() {
                // The name is no extent by itself, as in `iS0{( 2 * i2 )}`.
                true => match self.name_holders(name) {
                    holders if holders.is_empty() => "the extent of a loop".into(),
                    holders => message!("part of the extent of {}", self.axes_text(&holders)),
                },
                false => self.axes_text(places),
            };
            let input = places.iter().map(|(tensor, _)| *tensor).find(|&at| self.is_input(at));
            let shape = input.map(|tensor| {
                let option = format!(" or `{}`", self.shape_flag(tensor));
                Message::from(Quoted::run_option(RunOption::ShapeInstead, option))
            });
            diag = diag.with_note(message!(
                "`{}` is {}: set it with `{}`{}",
                name,
                text,
                Quoted::set_option(name, 8),
                shape.unwrap_or_default()
            ));
        }
        if open.len() > 1 {
            diag =
                diag.with_note(message!("`{}` sets each of them", Quoted::run_option(RunOption::Set, "--set '*=8'")));
        }
        self.diags.push(diag);
    }
}

fn add_names(program: &Program, expr: ExprId, found: &mut FxHashSet<Symbol>) {
    match program.expr(expr) {
        Expr::Name(name) => {
            found.insert(*name);
        }
        other => sub_expressions(other).iter().for_each(|&part| add_names(program, part, found)),
    }
}
