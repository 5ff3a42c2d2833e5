//! V52: names that the user gave mean one thing each.

use super::declarations::ReferencedTensors;
use crate::diag::{Diag, Diags, Span, codes};
use crate::ir::places::tensor_span;
use crate::ir::scalar_names::{loop_index, sub_expressions};
use crate::ir::{AttrValue, BlockId, Expr, ExprId, Op, OpId, Program, Symbol, TensorId, Value};
use rustc_hash::FxHashSet;

/// Checks the names of the program, and those of each of its units.
pub(super) fn check_given_names(program: &Program, referenced: &ReferencedTensors, diags: &mut Diags) {
    if !program.has_names() {
        return;
    }
    let owners = (0..program.names().len()).map(|_| None).collect();
    let mut table =
        NameTable { program, diags, owners, owned: Vec::new(), seen: vec![0; program.exprs().len()], scope: 0 };
    table.add_units();
    let bodies = std::iter::once(program.body()).chain(program.units().iter().map(|(_, unit)| unit.body));
    for (tensors, body) in tensors_by_scope(program, referenced).iter().zip(bodies) {
        table.clear_names();
        table.add_tensors(referenced, tensors);
        if body == program.body() {
            table.add_posts_and_streams();
        }
        table.check_scalars(tensors, body);
    }
}

/// The tensors of the host program, then those of each unit.
fn tensors_by_scope(program: &Program, referenced: &ReferencedTensors) -> Vec<Vec<TensorId>> {
    let mut scopes = vec![Vec::new(); program.units().len() + 1];
    for &id in &referenced.tensors {
        let scope = program.tensor(id).unit.map_or(0, |unit| unit.0 as usize + 1);
        scopes[scope].push(id);
    }
    scopes
}

/// The word for the owner of a name that expressions contain.
const SCALAR: &str = "scalar";

/// The first owner of a name.
struct NameOwner {
    word: &'static str,
    span: Span,
}

struct NameTable<'a> {
    program: &'a Program,
    diags: &'a mut Diags,
    /// By name.
    owners: Vec<Option<NameOwner>>,
    /// Names that have an owner.
    owned: Vec<Symbol>,
    /// For each expression, the last scope in which it was met.
    seen: Vec<u32>,
    /// The number of the scope, from 1.
    scope: u32,
}

impl NameTable<'_> {
    /// Another scope begins.
    fn clear_names(&mut self) {
        self.owned.drain(..).for_each(|name| self.owners[name.0 as usize] = None);
        self.scope += 1;
    }

    fn add_name(&mut self, name: Symbol, owner: NameOwner) {
        let Some(first) = &self.owners[name.0 as usize] else {
            self.owners[name.0 as usize] = Some(owner);
            self.owned.push(name);
            return;
        };
        let text = self.program.name(name);
        let message = match first.word == owner.word {
            true => format!("two {}s are called `{text}`", owner.word),
            false => format!("a {} and a {} are called `{text}`", first.word, owner.word),
        };
        // The place of a scalar is that of the statement or the tensor whose extent it is.
        let diag = match owner.word {
            SCALAR => Diag::error(codes::NAME_TWICE, first.span, message).with_label(owner.span, "a scalar here"),
            _ => Diag::error(codes::NAME_TWICE, owner.span, message).with_label(first.span, "the first one is here"),
        };
        self.diags.push(diag.with_note("give each of them a name of its own"));
    }

    /// Adds the names of units, meshes and the program itself, which are valid in a whole file.
    fn add_units(&mut self) {
        let program = self.program;
        let header = program.source().header;
        if let Some(name) = program.given_names().program {
            self.add_name(name, NameOwner { word: "program", span: header });
        }
        let mut meshes: Vec<_> = program.given_names().meshes.iter().map(|(mesh, name)| (*mesh, *name)).collect();
        meshes.sort_unstable();
        for (_, name) in meshes {
            self.add_name(name, NameOwner { word: "mesh", span: header });
        }
        for (_, unit) in program.units().iter() {
            let io_tensor = unit.inputs.iter().chain(&unit.outputs).find_map(|value| value.as_tensor());
            let span = io_tensor.map_or(header, |tensor| tensor_span(program, tensor));
            if let Some(name) = unit.name {
                self.add_name(name, NameOwner { word: "unit", span });
            }
        }
    }

    fn add_tensors(&mut self, referenced: &ReferencedTensors, tensors: &[TensorId]) {
        let program = self.program;
        for &id in tensors.iter().filter(|id| referenced.first[**id] == **id) {
            if let Some(name) = program.tensor(id).name {
                self.add_name(name, NameOwner { word: "tensor", span: tensor_span(program, id) });
            }
        }
    }

    fn add_posts_and_streams(&mut self) {
        let program = self.program;
        let given = program.given_names();
        // A name that several statements share counts once.
        let (mut posts, mut streams) = (FxHashSet::default(), FxHashSet::default());
        program.walk(program.body(), &mut |id| {
            let op = program.op(id);
            let span = program.op_span(id);
            let number = op.number().filter(|number| posts.insert(*number));
            if let Some(name) = number.and_then(|number| given.handles.get(&number)) {
                self.add_name(*name, NameOwner { word: "communication", span });
            }
            for result in &op.results {
                let Value::Stream(stream) = result else { continue };
                let Expr::Hex(address) = program.expr(*stream) else { continue };
                if let Some(name) = given.streams.get(address).filter(|_| streams.insert(*address)) {
                    self.add_name(*name, NameOwner { word: "stream", span });
                }
            }
        });
    }

    /// Scalars have their names from expressions.
    fn check_scalars(&mut self, tensors: &[TensorId], body: BlockId) {
        let program = self.program;
        let seen = std::mem::take(&mut self.seen);
        let mut scan = ScalarScan { program, seen, scope: self.scope, names: Vec::new() };
        for &id in tensors {
            let span = tensor_span(program, id);
            for domain in program.domains(id) {
                let bounds = [Some(domain.extent), domain.start, domain.stop, domain.expanded];
                bounds.into_iter().flatten().for_each(|expr| scan.scan_expr(expr, span));
            }
        }
        program.walk(body, &mut |id| scan.scan_op(id, program.op(id)));
        self.seen = scan.seen;
        for (name, span) in scan.names {
            if self.owners[name.0 as usize].as_ref().is_some_and(|owner| owner.word != SCALAR) {
                self.add_name(name, NameOwner { word: SCALAR, span });
            }
        }
    }
}

/// Collects the names in expressions, each once.
struct ScalarScan<'a> {
    program: &'a Program,
    seen: Vec<u32>,
    scope: u32,
    names: Vec<(Symbol, Span)>,
}

impl ScalarScan<'_> {
    fn scan_op(&mut self, id: OpId, op: &Op) {
        let span = self.program.op_span(id);
        if !op.blocks.is_empty()
            && let Some(index) = loop_index(self.program, op)
        {
            self.names.push((index, span));
        }
        for value in op.results.iter().chain(&op.operands) {
            if let Value::Scalar(expr) | Value::Stream(expr) = value {
                self.scan_expr(*expr, span);
            }
        }
        for (_, value) in &op.attrs {
            match value {
                AttrValue::Expr(expr) => self.scan_expr(*expr, span),
                AttrValue::Exprs(exprs) => exprs.iter().for_each(|expr| self.scan_expr(*expr, span)),
                AttrValue::Ranges(ranges) => ranges.iter().flatten().for_each(|expr| self.scan_expr(*expr, span)),
                _ => {}
            }
        }
    }

    fn scan_expr(&mut self, expr: ExprId, span: Span) {
        if std::mem::replace(&mut self.seen[expr.0 as usize], self.scope) == self.scope {
            return;
        }
        match self.program.expr(expr) {
            Expr::Name(name) => self.names.push((*name, span)),
            other => sub_expressions(other).iter().for_each(|part| self.scan_expr(*part, span)),
        }
    }
}
