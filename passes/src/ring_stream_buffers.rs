//! ring-stream-buffers: intermediates of a loop over streams keep a slot a stream, not a slice an iteration.
//!
//! This file finds buffers that one loop slices, [`order`] proves that a slot is free when its stream comes
//! round again.

mod order;

use crate::build::Build;
use crate::codes;
use crate::options::{OptionSpec, OptionType};
use crate::pass::{Action, Example, PassCx, PassInfo, StatisticSpec};
use crate::storage::{Access, accesses, described, interface, walk_all};
use hostir::diag::{Diag, Diags};
use hostir::ir::Definitions;
use hostir::ir::Effect;
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{
    AttrKey, AttrValue, BinaryOp, DomainId, Expr, ExprId, Id, IdVec, IterDomain, IterType, OpId,
    Program, Symbol, TensorId,
};
use smallvec::SmallVec;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "ring-stream-buffers",
    summary: "Shorten intermediates of stream loops to one slot a stream",
    description: "\
`stream-parallel-type` allocates every result of a loop with its whole stream axis. An intermediate that only the
iteration that wrote a slice reads needs no more than `numberOfStreams` slices: the stream axis becomes
`fmin(i0, numberOfStreams)` long, and iteration i uses slot `i % numberOfStreams`. Iterations that share a slot
share a stream, so the next one starts to write when the last one has read.

A buffer is shortened if

- the program allocates it once, before the loop, without clearing it, and the caller never sees it;
- all that uses it are slices in one loop of the body, along one axis and with one index;
- each iteration writes the whole slice, on every path, before anything reads it;
- whatever uses the slice does so on stream `StreamIdx % numberOfStreams`, and what is sent or received from it is
  waited for there, in the iteration;
- no other rank can look into it (`backend=CUDA` messages, symmetric memory).

Others stay as they are, and `--remarks` says why; those that `buffers=` names must be shortened, or it is an error.",
    example: Some(Example { before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[OptionSpec {
        name: "buffers",
        ty: OptionType::Words,
        default: Some("{}"),
        help: "Shorten these tensors only, and say so if one cannot be",
    }],
    statistics: &[StatisticSpec { name: "buffers-shortened", help: "buffers with a slot a stream" }],
    action: Action::Rewrite(run),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i0}, iS3{i1}]) -> () :
  T2_g_float[iStreamIdx4{i0}, iS5{i1}] = ALLOCATE(buffer=T2, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
  FOR StreamIdx in iStreamIdx6{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T3_l_float[iS7{i1}]
       = HirAliasSelect( T0, axis = iS0{i0}, index = StreamIdx )
    T4_l_float[iS8{i1}]
       = HirAliasSelect( T2, axis = iStreamIdx4{i0}, index = StreamIdx )
    T4
       = Set( T3, cache_op=Streaming )
    T5_l_float[iS9{i1}]
       = HirAliasSelect( T1, axis = iS2{i0}, index = StreamIdx )
    T5
       = relu(T4);
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i0}, iS3{i1}]) -> () :
  T2_g_float[iStreamIdx4{( fmin(i0, numberOfStreams) )}, iS5{i1}] = ALLOCATE(buffer=T2, mem_type=global, size=( ( fmin(i0, numberOfStreams) ) * i1 ), zero_init=false, resets_to_zero=false)
  FOR StreamIdx in iStreamIdx6{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T3_l_float[iS7{i1}]
       = HirAliasSelect( T0, axis = iS0{i0}, index = StreamIdx )
    T4_l_float[iS8{i1}]
       = HirAliasSelect( T2, axis = iStreamIdx4{( fmin(i0, numberOfStreams) )}, index = ( StreamIdx % numberOfStreams ) )
    T4
       = Set( T3, cache_op=Streaming )
    T5_l_float[iS9{i1}]
       = HirAliasSelect( T1, axis = iS2{i0}, index = StreamIdx )
    T5
       = relu(T4);
} // %HostIrContainer
";

/// A tensor that a loop slices.
pub(super) struct Buffer {
    tensor: TensorId,
    /// Its allocation.
    allocate: OpId,
    /// The ops that slice it.
    selects: Vec<OpId>,
    /// The axis along which.
    axis: DomainId,
    /// The loop.
    looped: OpId,
}

/// Why a buffer stays as it is: the op that it is about, and the reason.
pub(super) type Reason = (OpId, String);

fn run(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let named = named(edit.program(), cx)?;
    let uses = Uses::new(edit.program());
    let mut diags = Diags::default();
    let mut buffers = Vec::new();
    let mut refuse = |cx: &mut PassCx<'_>, program: &Program, tensor, reason: Reason| {
        let diag = || stays(program, tensor, &reason);
        match named.is_empty() {
            true => cx.remark(diag),
            false => diags.push(diag()),
        }
    };
    let program = edit.program();
    let mut seen: Vec<TensorId> = uses.sliced.clone();
    seen.extend(named.iter().filter(|tensor| !uses.sliced.contains(tensor)));
    for &tensor in seen.iter().filter(|t| named.is_empty() || named.contains(t)) {
        match uses.buffer(program, tensor) {
            Ok(Some(buffer)) => buffers.push(buffer),
            Ok(None) => {}
            Err(reason) => refuse(cx, program, tensor, reason),
        }
    }
    let mut shortened = Vec::new();
    for (buffer, reason) in order::check(program, &uses, buffers) {
        match reason {
            None => shortened.push(buffer),
            Some(reason) => refuse(cx, program, buffer.tensor, reason),
        }
    }
    if diags.has_errors() {
        return Err(diags);
    }
    cx.count("buffers-shortened", shortened.len() as u64);
    shortened.iter().for_each(|buffer| shorten(edit, buffer));
    Ok(())
}

/// The tensors that the option names.
fn named(program: &Program, cx: &mut PassCx<'_>) -> Result<Vec<TensorId>, Diags> {
    let mut found = Vec::new();
    let mut failed = false;
    for text in cx.options().words("buffers") {
        let is_it = |id: &TensorId| {
            let tensor = program.tensor(*id);
            let number = format!("T{}", tensor.number);
            tensor.unit.is_none() && (*text == number || *text == program.tensor_name(*id))
        };
        match program.tensors().ids().find(is_it) {
            Some(tensor) => found.push(tensor),
            None => {
                let message = format!("the program has no tensor `{text}`");
                let note = "`buffers=` lists tensors that the program allocates";
                failed = true;
                cx.wrong_option(&["buffers"], Diag::global(codes::RING_BUFFER, message).note(note));
            }
        }
    }
    if failed { Err(Diags::default()) } else { Ok(found) }
}

fn stays(program: &Program, tensor: TensorId, (op, why): &Reason) -> Diag {
    let name = program.tensor_name(tensor);
    let message = format!("{name} keeps a slice for every iteration: {why}");
    Diag::error(codes::RING_STAYS, program.op_span(*op), message).note(
        "a slot a stream is enough for what each iteration writes and reads on its own stream only",
    )
}

/// How the program uses each tensor.
pub(super) struct Uses {
    found: IdVec<TensorId, Found>,
    /// Tensors that loops slice, in program order.
    sliced: Vec<TensorId>,
    /// Whether the caller sees it.
    seen: IdVec<TensorId, bool>,
}

#[derive(Clone, Default)]
struct Found {
    allocates: SmallVec<[OpId; 1]>,
    /// Selects with the loop of the body that holds them.
    selects: Vec<(OpId, Option<OpId>)>,
    /// Any other use.
    other: Option<OpId>,
    /// The loop of the body that holds all uses: `Some(None)` outside of loops or in several.
    home: Option<Option<OpId>>,
}

impl Uses {
    fn new(program: &Program) -> Self {
        let count = program.tensors().len();
        let mut uses = Self {
            found: IdVec::filled(Found::default(), count),
            sliced: Vec::new(),
            seen: IdVec::filled(false, count),
        };
        interface(program).chain(described(program)).for_each(|tensor| uses.seen[tensor] = true);
        let mut outside = vec![true; program.ops().len()];
        for &top in &program.block(program.body()).ops {
            let looped = loop_index(program, program.op(top)).map(|_| top);
            let looped = looped.filter(|_| !program.op(top).blocks.is_empty());
            uses.op(program, top, None);
            outside[top.index()] = false;
            for &block in &program.op(top).blocks {
                program.walk(block, &mut |op| {
                    outside[op.index()] = false;
                    uses.op(program, op, looped);
                });
            }
        }
        walk_all(program, &mut |op| {
            if outside[op.index()] {
                uses.op(program, op, None);
            }
        });
        uses
    }

    fn op(&mut self, program: &Program, id: OpId, looped: Option<OpId>) {
        let op = program.op(id);
        let select = op.attr(AttrKey::Index).is_some() && op.kind.effect() == Effect::Alias;
        let base = op.input_tensors().next().filter(|_| select);
        accesses(program, id, &mut |tensor, access| {
            let found = &mut self.found[tensor];
            match found.home {
                None => found.home = Some(looped),
                Some(home) if home != looped => found.home = Some(None),
                Some(_) => {}
            }
            let effect = op.kind.effect();
            if base == Some(tensor) && access == Access::Name {
                if looped.is_some() && found.selects.is_empty() {
                    self.sliced.push(tensor);
                }
                found.selects.push((id, looped));
            } else if effect == Effect::Allocate && access == Access::Bind && looped.is_none() {
                found.allocates.push(id);
            } else if access != Access::Free || looped.is_some() {
                found.other.get_or_insert(id);
            }
        });
    }

    /// Whether everything that uses a tensor is in one loop of the body.
    fn is_within(&self, tensor: TensorId, looped: OpId) -> bool {
        self.found[tensor].home == Some(Some(looped)) && !self.seen[tensor]
    }

    /// A tensor as a buffer; `None` for what is no buffer of a loop at all, or has its slots already.
    fn buffer(&self, program: &Program, tensor: TensorId) -> Result<Option<Buffer>, Reason> {
        let found = &self.found[tensor];
        let Some(&(first, looped)) = found.selects.first() else { return self.no_buffer(tensor) };
        let &[allocate] = found.allocates.as_slice() else {
            return match found.allocates.get(1) {
                Some(&second) => Err((second, "it is allocated more than once".to_owned())),
                None => Ok(None),
            };
        };
        if self.seen[tensor] {
            return Err((allocate, "the caller sees it".to_owned()));
        }
        if let Some(op) = found.other {
            return Err((op, "it is used as a whole here".to_owned()));
        }
        let ranges = program.tensor(tensor).domains_start..program.tensor(tensor).domains_end;
        let of =
            |op: OpId| (program.op(op).domain(AttrKey::Axis), program.op(op).expr(AttrKey::Index));
        let (Some(axis), Some(index)) = of(first) else { return Ok(None) };
        let Some(looped) = looped.filter(|_| ranges.contains(&axis.0)) else {
            return Err((first, "it is sliced outside of a loop".to_owned()));
        };
        let sliced = program.domain(axis);
        if sliced.iter != IterType::Iteration || sliced.parallel.is_device() {
            let why = "this axis has no slices in memory, so all iterations use the same";
            return Err((first, why.to_owned()));
        }
        for &(op, other) in &found.selects {
            if other != Some(looped) {
                return Err((op, "two loops slice it".to_owned()));
            }
            if of(op) != (Some(axis), Some(index)) {
                return Err((op, "this slice is another one than the first".to_owned()));
            }
        }
        let allocation = program.op(allocate);
        let cleared = allocation.attr(AttrKey::ZeroInit) == Some(&AttrValue::Bool(true));
        if cleared || allocation.attr(AttrKey::Alias).is_some() {
            let why = "it is cleared, or shares memory, when it is allocated";
            return Err((allocate, why.to_owned()));
        }
        if program.tensor(tensor).memory == hostir::ir::MemoryType::Symmetric {
            return Err((allocate, "other ranks look into symmetric memory".to_owned()));
        }
        let Some(name) = loop_index(program, program.op(looped)) else { return Ok(None) };
        let definitions = Definitions::new(program);
        let index = definitions.expand(program, index);
        let streams = program.names().find("numberOfStreams");
        if streams.is_some_and(|streams| is_slot(program, index, name, streams)) {
            return Ok(None);
        }
        if !definitions.depends(program, index, name) {
            return Err((first, "all iterations use the same slice".to_owned()));
        }
        let selects = found.selects.iter().map(|(op, _)| *op).collect();
        Ok(Some(Buffer { tensor, allocate, selects, axis, looped }))
    }

    /// Only asked for tensors that the option names.
    fn no_buffer(&self, tensor: TensorId) -> Result<Option<Buffer>, Reason> {
        let op = self.found[tensor].allocates.first().copied().or(self.found[tensor].other);
        Err((op.unwrap_or(OpId(0)), "no loop slices it".to_owned()))
    }
}

/// Whether a scalar is `( i % numberOfStreams )`.
fn is_slot(program: &Program, expr: ExprId, index: Symbol, streams: Symbol) -> bool {
    let Expr::Binary(BinaryOp::Mod, a, b) = *program.expr(expr) else { return false };
    let exprs = program.exprs();
    exprs.as_name(a) == Some(index) && exprs.as_name(b) == Some(streams)
}

fn shorten(edit: &mut Edit<'_>, buffer: &Buffer) {
    let mut build = Build::new(edit);
    let Some(index) = build.program().op(buffer.looped).expr(AttrKey::Index) else { return };
    let streams = build.name("numberOfStreams");
    let slot = build.binary(BinaryOp::Mod, index, streams);
    let domain = *build.program().domain(buffer.axis);
    let min = build.edit.name("min");
    let extent = build.edit.expr(Expr::Call(min, [domain.extent, streams].into_iter().collect()));
    build.edit.set_domain(buffer.axis, IterDomain { extent, ..domain });
    for &select in &buffer.selects {
        set_expr(&mut build, select, AttrKey::Index, slot);
    }
    if build.program().op(buffer.allocate).attr(AttrKey::Size).is_some() {
        let size = build.size(buffer.tensor);
        set_expr(&mut build, buffer.allocate, AttrKey::Size, size);
    }
}

fn set_expr(build: &mut Build<'_, '_>, id: OpId, key: AttrKey, expr: ExprId) {
    let mut op = build.program().op(id).clone();
    for (_, value) in op.attrs.iter_mut().filter(|(k, _)| *k == key) {
        *value = AttrValue::Expr(expr);
    }
    build.edit.set_op(id, op);
}
