//! The parts that a text may leave out besides types: memory, teams, words of element types and communications.

use crate::ir::functions::cast_result;
use crate::ir::{
    AttrKey, CommBackend, DType, MemoryType, Op, OpEffect, OpId, OpKind, OpLayout, OwnForm, Program, TensorId, Value,
};
pub use crate::ir::{
    COMMUNICATION_WORDS, DTYPE_WORDS, dtype_of_word, function_of_word, word_of_dtype, word_of_function,
};
use crate::ops::{ArgKind, ArgSpec};
use rustc_hash::FxHashSet;

/// The backend of a communication that names none.
pub const DEFAULT_BACKEND: &str = CommBackend::Nccl.word();
/// The `cache_op` of a copy that names none.
pub const DEFAULT_CACHE_OP: &str = "Streaming";

/// For each tensor: the memory of a type that names none. Inputs and outputs of the program or of the tensor's HostUnit,
/// results of ALLOCATE and tensors of communications that are no slices are global, all others local.
pub fn default_memories(program: &Program) -> Vec<MemoryType> {
    let mut memories = vec![MemoryType::Local; program.tensors().len()];
    let mut sliced = vec![false; program.tensors().len()];
    let mut global: Vec<OpId> = Vec::new();
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        match op.kind.effect() {
            OpEffect::Alias => op.output_tensors().for_each(|tensor| sliced[tensor.0 as usize] = true),
            OpEffect::Allocate | OpEffect::Communicate(_) => global.push(id),
            _ => {}
        }
    });
    let mut set_global = |tensor: TensorId| memories[tensor.0 as usize] = MemoryType::Global;
    let ends = program.inputs().iter().chain(program.outputs());
    let units = program.units().iter().flat_map(|(_, unit)| unit.inputs.iter().chain(&unit.outputs));
    ends.chain(units).filter_map(|value| value.as_tensor()).for_each(&mut set_global);
    global.into_iter().for_each(|id| for_each_global(program, program.op(id), &sliced, &mut set_global));
    memories
}

fn for_each_global(program: &Program, op: &Op, sliced: &[bool], set_global: &mut impl FnMut(TensorId)) {
    if op.kind.effect() == OpEffect::Allocate {
        op.output_tensors().for_each(&mut *set_global);
    }
    if op.kind.is_communication() {
        op.all_tensors().filter(|tensor| !sliced[tensor.0 as usize]).for_each(&mut *set_global);
        for value in &op.operands {
            if let Value::Op(inner) = value {
                for_each_global(program, program.op(*inner), sliced, set_global);
            }
        }
    }
}

/// The team of a communication that names none: the devices of the input's mesh, then those of the output's that are
/// not among them. `None` if one of the two has no mesh.
pub fn default_team(program: &Program, op: &Op) -> Option<Vec<i64>> {
    let input = op.input_tensors().next()?;
    let output = op.output_tensors().next()?;
    let mut team: Vec<i64> = program.tensor_mesh(input)?.devices.iter().map(|&device| i64::from(device)).collect();
    let mut known: FxHashSet<i64> = team.iter().copied().collect();
    let others = program.tensor_mesh(output)?.devices.iter().map(|&device| i64::from(device));
    team.extend(others.filter(|device| known.insert(*device)));
    Some(team)
}

/// Returns true if an op is a communication that `wait` can precede.
pub fn is_post(op: &Op) -> bool {
    op.kind.layout() == OpLayout::Keyed && op.kind.is_communication() && op.number().is_some()
}

/// The name of a mesh without one, by its number among the meshes of a file.
pub fn default_mesh_name(number: usize) -> String {
    if number == 0 { "d".to_owned() } else { format!("d{}", number + 1) }
}

/// The name of a program without one, by its number among the programs of a file.
pub fn default_program_name(number: usize) -> String {
    if number == 0 { "main".to_owned() } else { format!("main{}", number + 1) }
}

/// Returns true if a name is a default one, or a default one with as many `_` as are needed to differ from other names.
pub fn is_default_name(text: &str, default: &str, is_taken: impl Fn(&str) -> bool) -> bool {
    let Some(rest) = text.strip_prefix(default) else { return false };
    rest.bytes().all(|byte| byte == b'_') && (default.len()..text.len()).all(|end| is_taken(&text[..end]))
}

/// Returns true if an op copies as nvFuser's Set does, which always names a `cache_op`.
pub fn has_cache_op(op: &Op) -> bool {
    op.kind.spec().args.iter().any(|arg| arg.key == Some(AttrKey::CacheOp))
}

/// Returns true if an ALLOCATE with neither `keep` nor `fresh` keeps the memory that its tensor already has.
pub fn keeps_by_default(in_loop: bool) -> bool {
    !in_loop
}

/// Returns true if `hir 2` writes the results of such ops as slices, `A[i]`.
pub fn is_host_select(kind: OpKind) -> bool {
    kind == OpKind::HirAliasSelect
}

/// The name of the cast between two element types that `f16(X)` stands for; `None` if it has none.
pub fn cast_function(from: DType, to: DType) -> Option<String> {
    if from.is_complex() && !to.is_complex() {
        let [narrow, plain] = [
            cast_word(to).map(|to| format!("__real_then_2{to}")),
            plain_cast_word(to).map(|to| format!("__real_then_to_{to}")),
        ];
        return [plain, narrow].into_iter().flatten().find(|name| cast_result(name) == Some(to));
    }
    let narrow = |dtype| {
        matches!(
            dtype,
            DType::Half
                | DType::BFloat16
                | DType::Float8E4M3
                | DType::Float8E5M2
                | DType::Float8E8M0
                | DType::Float4E2M1
        )
    };
    // nvFuser has one name for the casts of all integers to a narrow float.
    let source = if from.is_integer() { DType::Int } else { from };
    let named = match narrow(from) || narrow(to) {
        true => cast_word(source).zip(cast_word(to)).map(|(source, to)| format!("__{source}2{to}")),
        false => None,
    };
    let plain = plain_cast_word(to).map(|to| format!("__to_{to}"));
    named.into_iter().chain(plain).find(|name| cast_result(name) == Some(to))
}

/// `half` of `__float2half`.
fn cast_word(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Half => "half",
        DType::BFloat16 => "bfloat",
        DType::Float8E4M3 => "e4m3",
        DType::Float8E5M2 => "e5m2",
        DType::Float8E8M0 => "e8m0",
        DType::Float4E2M1 => "e2m1",
        DType::Int => "int",
        DType::UInt64 => "uint",
        other => plain_cast_word(other)?,
    })
}

/// `int32` of `__to_int32`.
fn plain_cast_word(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Double => "double",
        DType::Float => "float",
        DType::Int8 => "int8",
        DType::Int16 => "int16",
        DType::Int32 => "int32",
        DType::Int => "int64",
        DType::UInt8 => "uint8",
        DType::UInt16 => "uint16",
        DType::UInt32 => "uint32",
        DType::UInt64 => "uint64",
        DType::Index => "index",
        DType::Bool => "bool",
        DType::ComplexFloat => "complex_float",
        DType::ComplexDouble => "complex_double",
        _ => return None,
    })
}

/// The word of a keyed argument in `hir 2`.
pub fn keyword(declared: &ArgSpec) -> &'static str {
    match declared.display_name() {
        "initial value" => "init",
        "Group ID" => "group",
        word => word,
    }
}

/// Describes the values of a kind in words of `hir 2`.
pub fn describe_kind(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Axis => "the number of an axis",
        ArgKind::Bools => "a list such as `[true, false]`",
        ArgKind::CapitalBool => "`true` or `false`",
        ArgKind::Words(_) => "a list of words such as `[add, mul]`",
        ArgKind::Exprs | ArgKind::Array => "a list such as `[n, 4]`",
        ArgKind::Ranges => "a list of ranges such as `[[0, n, 1], [0, 4, 1]]`",
        ArgKind::Team => "devices such as `[0, 1, 2, 3]`",
        ArgKind::Ints => "a list of integers such as `[1, 0]`",
        other => other.describe(),
    }
}

/// Returns true if an argument of a call is written without its word: operands that have none, and those that a call
/// always has.
pub fn is_positional(kind: OpKind, declared: &ArgSpec) -> bool {
    declared.word.is_none() || is_callable(kind) && declared.is_named_operand() && !declared.is_optional_value()
}

/// The arguments of an op with their places in the table, in the order in which `hir 2` writes them: as the printed form,
/// but operands without a word come before attributes.
pub fn written_arguments(kind: OpKind) -> impl Iterator<Item = (usize, &'static ArgSpec)> {
    let args = kind.spec().args;
    let mut after = args.iter().skip_while(|declared| declared.key.is_none());
    let moved = after.any(|declared| declared.is_named_operand() && is_positional(kind, declared));
    let early = args.iter().enumerate().filter(move |(_, declared)| !moved || declared.key.is_none());
    early.chain(args.iter().enumerate().filter(move |(_, declared)| moved && declared.key.is_some()))
}

/// Returns true if ops of a kind are written as calls with results.
pub fn is_callable(kind: OpKind) -> bool {
    match kind.layout() {
        OpLayout::OneLine(_) | OpLayout::TwoLines(_) | OpLayout::ResultTuple | OpLayout::ResultList => true,
        OpLayout::Aligned | OpLayout::AlignedLoose | OpLayout::AlignedArguments | OpLayout::Factory => true,
        OpLayout::ArgumentLines(_) | OpLayout::ArgumentBlock => true,
        OpLayout::Own(OwnForm::LaunchKernel | OwnForm::Scatter | OwnForm::Welford) => true,
        OpLayout::Own(OwnForm::GroupedReduction | OwnForm::GroupedWelford) => true,
        OpLayout::Pointwise | OpLayout::Keyed | OpLayout::Statement => false,
        OpLayout::Words(_) | OpLayout::Define | OpLayout::Own(_) => false,
    }
}
