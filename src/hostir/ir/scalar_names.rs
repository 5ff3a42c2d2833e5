//! Scalar names: their binders, and their uses without one.
//!
//! Bound everywhere: the extents of all tensors and loops, sizes of meshes and of the run, scalar inputs, results of scalar ops, and what the runtime
//! binds (`rank`, `deviceIdx.x`, `numberOfStreams`). A loop binds its index inside its body, and with it what `Index
//! definitions:` compute from the index. nvFuser prints only the name at some scalar positions and leaves its
//! definition out (`index = i84`): such a program reads, verifies and prints, but cannot run; [`free_names`] lists
//! them.

use super::IndexDefinitions;
use crate::ir::{AttrKey, AttrValue, BlockId, Expr, ExprId, Op, OpId, Program, Symbol, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Names that the runtime binds.
pub const RUNTIME: &[&str] = &["rank", "deviceIdx.x", "numberOfStreams"];

/// A use of a scalar that nothing binds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeName {
    /// The op that uses it.
    pub op: OpId,
    /// The name.
    pub name: Symbol,
}

/// A defect that [`scan_names`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameFinding {
    /// The op uses the index of a loop outside of that loop.
    OutsideLoop(OpId, Symbol),
    /// The op uses a definition that needs the index of a loop, outside of that loop.
    DefinitionOutside(OpId, Symbol, Symbol),
    /// The op uses a name that nothing binds.
    Unbound(OpId, Symbol),
    /// The loop's index hides that of an outer loop.
    Shadows(OpId, Symbol, OpId),
}

/// The scalars whose definitions nvFuser left out (`i84`), in program order: a run needs their expressions inline.
pub fn free_names(program: &Program) -> Vec<FreeName> {
    let mut free = Vec::new();
    scan_names(program, &mut |finding| {
        if let NameFinding::Unbound(op, name) = finding
            && is_generated(program.name(name))
        {
            free.push(FreeName { op, name });
        }
    });
    free
}

/// Returns true if a name has the form that nvFuser makes up: a prefix for its type and a number.
pub fn is_generated(name: &str) -> bool {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let prefix = &name[..name.len() - digits];
    digits > 0 && matches!(prefix, "i" | "b" | "d" | "f" | "c" | "a" | "s" | "ptr" | "var" | "f4x2_")
}

/// Returns true for a name that kernels bind: `blockIdx.x`, `nvfuser_zero`. A host program can print it, not evaluate it.
pub fn is_kernel_name(name: &str) -> bool {
    let axis = name.split_once('.').filter(|(_, axis)| matches!(*axis, "x" | "y" | "z"));
    name == "nvfuser_zero"
        || axis.is_some_and(|(word, _)| matches!(word, "blockIdx" | "threadIdx" | "gridDim" | "blockDim"))
}

/// The index of a loop op.
pub fn loop_index(program: &Program, op: &Op) -> Option<Symbol> {
    match op.attr(AttrKey::Index)? {
        AttrValue::Expr(expr) => program.exprs().as_name(*expr),
        AttrValue::Word(word) => Some(*word),
        _ => None,
    }
}

/// Names that are bound everywhere, in order of their symbols.
pub fn bound_names(program: &Program) -> Vec<Symbol> {
    let bound = NameBindings::new(program).bound;
    (0..bound.len()).filter(|&k| bound[k]).map(|k| Symbol(k as u32)).collect()
}

/// The names to which `define:` or `Index definitions:` give a value.
pub fn defined_names(program: &Program) -> impl Iterator<Item = Symbol> + '_ {
    let ops = program.index_definitions().map_or(&[][..], |block| &program.block(block).ops);
    let results = ops.iter().flat_map(|&id| &program.op(id).results);
    results.filter_map(|value| program.exprs().as_name(value.as_scalar()?))
}

/// Visits every use of a scalar name that is not bound at its place.
pub fn scan_names(program: &Program, found: &mut dyn FnMut(NameFinding)) {
    let bindings = NameBindings::new(program);
    let mut scan = NameScan { program, bindings, loops: Vec::new(), defining: false, found };
    scan.scan_block(program.body());
    if let Some(block) = program.index_definitions() {
        scan.defining = true;
        scan.scan_block(block);
        scan.defining = false;
    }
    for (_, unit) in program.units().iter() {
        scan.scan_block(unit.body);
    }
}

/// Dense tables over names and expressions.
struct NameBindings {
    /// By symbol: bound everywhere.
    bound: Vec<bool>,
    /// By symbol: the index of some loop.
    index: Vec<bool>,
    /// By expression: true if it has a name that is not bound everywhere.
    open: Vec<bool>,
    /// The loop indices from which a definition is computed.
    needs: FxHashMap<Symbol, SmallVec<[Symbol; 2]>>,
}

impl NameBindings {
    fn new(program: &Program) -> Self {
        let names = program.names().len();
        let mut table = Self {
            bound: vec![false; names],
            index: vec![false; names],
            open: Vec::new(),
            needs: FxHashMap::default(),
        };
        table.bind_extents(program);
        for name in RUNTIME {
            if let Some(symbol) = program.names().find_symbol(name) {
                table.bound[symbol.0 as usize] = true;
            }
        }
        let meshes = program.given_names().sized.sizes.iter().map(|size| size.name);
        let proposed = program.run_hints().sizes.iter().map(|(name, _)| *name);
        for name in meshes.chain(proposed) {
            table.bound[name.0 as usize] = true;
        }
        table.bind_values(program, program.inputs());
        for (_, unit) in program.units().iter() {
            table.bind_values(program, &unit.inputs);
        }
        let mut indices = Vec::new();
        for (_, op) in program.ops().iter() {
            table.bind_values(program, &op.results);
            if !op.blocks.is_empty()
                && let Some(index) = loop_index(program, op)
                && !std::mem::replace(&mut table.index[index.0 as usize], true)
            {
                indices.push(index);
            }
        }
        table.bind_definitions(program, &indices);
        table.mark_open_exprs(program);
        table
    }

    /// Definitions that depend on the index of a loop are bound in the loop only.
    fn bind_definitions(&mut self, program: &Program, indices: &[Symbol]) {
        let users = IndexDefinitions::new(program).name_users(program);
        if users.is_empty() {
            return;
        }
        // Visits each index and all names computed from it: as many steps as there are needs.
        let mut unbound = Vec::new();
        for &index in indices.iter().filter(|index| !self.bound[index.0 as usize]) {
            let mut stack = vec![index];
            while let Some(name) = stack.pop() {
                for &user in users.get(&name).into_iter().flatten() {
                    let needs = self.needs.entry(user).or_default();
                    if needs.last() != Some(&index) {
                        needs.push(index);
                        stack.push(user);
                        unbound.push(user);
                    }
                }
            }
        }
        for name in unbound {
            self.bound[name.0 as usize] = false;
        }
    }

    /// Binds names in extents: expressions are created after their parts, so one pass backwards reaches all.
    fn bind_extents(&mut self, program: &Program) {
        let mut reached = vec![false; program.exprs().len()];
        for tensor in program.tensors().ids() {
            for domain in program.domains(tensor) {
                let all = [Some(domain.extent), domain.start, domain.stop, domain.expanded];
                all.into_iter().flatten().for_each(|expr| reached[expr.0 as usize] = true);
            }
            for extent in program.tensor(tensor).logical.iter().flat_map(|logical| logical.iter()) {
                reached[extent.0 as usize] = true;
            }
        }
        for (_, op) in program.ops().iter().filter(|(_, op)| !op.blocks.is_empty()) {
            if let Some(domain) = op.domain_attr(AttrKey::Domain) {
                reached[program.domain(domain).extent.0 as usize] = true;
            }
        }
        for k in (0..reached.len()).rev() {
            if !reached[k] {
                continue;
            }
            let expr = program.expr(ExprId(k as u32));
            if let Expr::Name(name) = expr {
                self.bound[name.0 as usize] = true;
            }
            sub_expressions(expr).iter().for_each(|part| reached[part.0 as usize] = true);
        }
    }

    fn bind_values(&mut self, program: &Program, values: &[Value]) {
        for name in values.iter().filter_map(|v| v.as_scalar()).filter_map(|e| program.exprs().as_name(e)) {
            self.bound[name.0 as usize] = true;
        }
    }

    fn mark_open_exprs(&mut self, program: &Program) {
        for k in 0..program.exprs().len() {
            let expr = program.expr(ExprId(k as u32));
            let open = match expr {
                Expr::Name(name) => !self.bound[name.0 as usize],
                _ => sub_expressions(expr).iter().any(|part| self.open.get(part.0 as usize) != Some(&false)),
            };
            self.open.push(open);
        }
    }
}

/// The parts of an expression, in order.
pub fn sub_expressions(expr: &Expr) -> SmallVec<[ExprId; 3]> {
    match expr {
        Expr::Unary(_, a) | Expr::Set(a) | Expr::Field(a, _) => SmallVec::from_slice(&[*a]),
        Expr::Binary(_, a, b) | Expr::Index(a, b) => SmallVec::from_slice(&[*a, *b]),
        Expr::Call(_, parts) | Expr::Braces(parts) => parts.clone(),
        Expr::Struct(fields) => fields.iter().map(|(_, part)| *part).collect(),
        Expr::Int(_)
        | Expr::Hex(_)
        | Expr::Bool(_)
        | Expr::Typed(..)
        | Expr::Float(_)
        | Expr::Name(_)
        | Expr::MetaData(_)
        | Expr::RaggedExtents(_)
        | Expr::MeshCoordinate(..) => SmallVec::new(),
    }
}

struct NameScan<'a> {
    program: &'a Program,
    bindings: NameBindings,
    loops: Vec<(Symbol, OpId)>,
    /// True while the walk is in the definitions, whose names are checked at their uses.
    defining: bool,
    found: &'a mut dyn FnMut(NameFinding),
}

impl NameScan<'_> {
    fn scan_block(&mut self, block: BlockId) {
        let program = self.program;
        for &id in &program.block(block).ops {
            let op = program.op(id);
            let index = if op.blocks.is_empty() { None } else { loop_index(program, op) };
            self.scan_op(id, op, index.is_some());
            if let Some(index) = index {
                if let Some(&(_, outer)) = self.loops.iter().find(|(name, _)| *name == index) {
                    (self.found)(NameFinding::Shadows(id, index, outer));
                }
                self.loops.push((index, id));
            }
            for &inner in &op.blocks {
                self.scan_block(inner);
            }
            if index.is_some() {
                self.loops.pop();
            }
        }
    }

    /// The scalars that an op reads.
    fn scan_op(&mut self, id: OpId, op: &Op, is_loop: bool) {
        for value in &op.operands {
            match value {
                Value::Scalar(expr) | Value::Stream(expr) => self.scan_expr(id, *expr),
                Value::Op(inner) => self.scan_op(*inner, self.program.op(*inner), false),
                Value::Tensor(_) | Value::Handle(_) | Value::Unit(_) => {}
            }
        }
        for (key, value) in &op.attrs {
            match value {
                AttrValue::Expr(_) if is_loop && *key == AttrKey::Index => {}
                AttrValue::Expr(expr) => self.scan_expr(id, *expr),
                AttrValue::Exprs(exprs) => exprs.iter().for_each(|expr| self.scan_expr(id, *expr)),
                AttrValue::Ranges(ranges) => ranges.iter().flatten().for_each(|expr| self.scan_expr(id, *expr)),
                _ => {}
            }
        }
    }

    fn scan_expr(&mut self, op: OpId, expr: ExprId) {
        if !self.bindings.open[expr.0 as usize] {
            return;
        }
        let mut stack: SmallVec<[ExprId; 8]> = SmallVec::from_slice(&[expr]);
        while let Some(expr) = stack.pop() {
            if let Expr::Name(name) = self.program.expr(expr) {
                self.scan_name(op, *name);
            }
            let mut inner = sub_expressions(self.program.expr(expr));
            inner.reverse();
            stack.extend(inner.into_iter().filter(|part| self.bindings.open[part.0 as usize]));
        }
    }

    fn scan_name(&mut self, op: OpId, name: Symbol) {
        if self.bindings.bound[name.0 as usize] || self.is_loop_index(name) {
            return;
        }
        let needs = self.bindings.needs.get(&name);
        if self.defining && (needs.is_some() || self.bindings.index[name.0 as usize]) {
            return;
        }
        if let Some(needs) = needs {
            let missing = needs.iter().find(|index| !self.is_loop_index(**index)).copied();
            if let Some(index) = missing {
                (self.found)(NameFinding::DefinitionOutside(op, name, index));
            }
            return;
        }
        if self.bindings.index[name.0 as usize] {
            (self.found)(NameFinding::OutsideLoop(op, name));
        } else {
            (self.found)(NameFinding::Unbound(op, name));
        }
    }

    fn is_loop_index(&self, name: Symbol) -> bool {
        self.loops.iter().any(|(index, _)| *index == name)
    }
}
