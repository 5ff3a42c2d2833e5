//! Launches of kernels of the user: a `LaunchKernel` whose text says what it launches and what that accesses.
//!
//! nvFuser prints the inputs and outputs of a launch and no kernel. The attributes of this file add the kernel and the
//! shape of the launch, which makes it run. Its operands are what the kernel is declared to read, then the scalars and
//! addresses that it gets besides; its results are what it is declared to write. Nothing checks a declaration but a run
//! that compares memory, so a proof trusts them, and its verdict lists them.

use crate::diag::{Diag, Diags, Message, Span, codes, count_text, message};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AttrValue, DType, Expr, ExprId, HostUnit, Op, OpId, OpKind, Program, Symbol, TensorId, Value,
    functions::cast_result, quoted_expr, quoted_type,
};
use crate::plan::{BufferView, LaunchArgument, LaunchInst, PlanBuilder, ScalarValue, UserKernel};

/// The name of the kernel in its file.
pub const ENTRY: AttrKey = AttrKey::Own(0);
/// The extents of the grid, one to three.
pub const GRID: AttrKey = AttrKey::Own(1);
/// The extents of a block, one to three.
pub const BLOCK: AttrKey = AttrKey::Own(2);
/// The bytes of shared memory; 0 if absent.
pub const SHARED: AttrKey = AttrKey::Own(3);
/// The values of the kernel's parameters, by numbers of inputs and, after these, of outputs; all in order if absent.
pub const ARGUMENTS: AttrKey = AttrKey::Own(4);
/// The endings of files with kernels: source, code for one architecture, code for any, and several of these.
pub const KERNEL_FILES: &[&str] = &[".cu", ".cubin", ".ptx", ".fatbin"];
/// The most extents of a grid or a block.
const MOST_EXTENTS: usize = 3;

/// The parts of a launch.
pub struct LaunchParts {
    /// The file.
    pub file: Symbol,
    /// The kernel in it.
    pub entry: Symbol,
    /// The extents of the grid.
    pub grid: Vec<ExprId>,
    /// The extents of a block.
    pub block: Vec<ExprId>,
    /// Bytes of shared memory.
    pub shared: Option<ExprId>,
    /// The values of the parameters.
    pub arguments: Vec<Value>,
    /// The tensors that the kernel reads.
    pub reads: Vec<TensorId>,
    /// The tensors that the kernel writes.
    pub writes: Vec<TensorId>,
    /// The number of the HostUnit that stands in for the kernel where it cannot run.
    pub reference: Option<u32>,
    /// nvFuser's number of the kernel.
    pub group: Option<ExprId>,
}

/// The op of a launch: its inputs are the arguments that are not written, then what is read besides.
pub fn launch_op(parts: LaunchParts) -> Op {
    let mut inputs: Vec<Value> = Vec::new();
    let mut places: Vec<Result<usize, usize>> = Vec::new();
    for &argument in &parts.arguments {
        let read = argument.as_tensor().is_some_and(|tensor| parts.reads.contains(&tensor));
        let output = parts.writes.iter().position(|&written| argument == Value::Tensor(written));
        places.push(match output.filter(|_| !read) {
            Some(output) => Err(output),
            None => {
                inputs.push(argument);
                Ok(inputs.len() - 1)
            }
        });
    }
    let reads = places_of_reads(&mut inputs, &parts.reads);
    let count = inputs.len();
    let numbers: Box<[i64]> =
        places.into_iter().map(|place| place.unwrap_or_else(|output| count + output) as i64).collect();
    let tensors = inputs.iter().zip(0i64..).filter(|(input, _)| input.as_tensor().is_some());
    let reads_all = tensors.map(|(_, at)| at).eq(reads.iter().copied());
    let is_plain = (0..(count + parts.writes.len()) as i64).eq(numbers.iter().copied());
    let mut op = Op::new(OpKind::LaunchKernel);
    op.attrs.extend(parts.group.map(|group| (AttrKey::GroupId, AttrValue::Expr(group))));
    op.attrs.push((AttrKey::Kernel, AttrValue::Word(parts.file)));
    op.attrs.push((ENTRY, AttrValue::Word(parts.entry)));
    op.attrs.push((GRID, AttrValue::Exprs(parts.grid.into())));
    op.attrs.push((BLOCK, AttrValue::Exprs(parts.block.into())));
    op.attrs.extend(parts.shared.map(|shared| (SHARED, AttrValue::Expr(shared))));
    op.attrs.extend((!is_plain).then_some((ARGUMENTS, AttrValue::Ints(numbers))));
    op.attrs.extend((!reads_all).then_some((AttrKey::Reads, AttrValue::Ints(reads))));
    op.operands.extend(inputs);
    op.operands.extend(parts.reference.map(Value::Unit));
    op.results.extend(parts.writes.into_iter().map(Value::Tensor));
    op
}

/// The places of what is read among the inputs. A tensor that is read once more than it is an input becomes one.
fn places_of_reads(inputs: &mut Vec<Value>, reads: &[TensorId]) -> Box<[i64]> {
    let mut places: Vec<usize> = Vec::new();
    for &tensor in reads {
        let value = Value::Tensor(tensor);
        let free = (0..inputs.len()).find(|place| inputs[*place] == value && !places.contains(place));
        let place = free.unwrap_or(inputs.len());
        if place == inputs.len() {
            inputs.push(value);
        }
        places.push(place);
    }
    places.into_iter().map(|place| place as i64).collect()
}

/// The same launch with its values in the order that [`launch_op`] gives them, in which both notations say the same. A
/// launch with wrong numbers, or with an input that is neither passed nor read, is left for the check of the op.
pub fn ordered_launch(op: Op) -> Op {
    let Some(parts) = launch_parts(&op) else { return op };
    for (key, count) in [(ARGUMENTS, parts.arguments.len()), (AttrKey::Reads, parts.reads.len())] {
        if op.ints_attr(key).is_some_and(|numbers| numbers.len() != count) {
            return op;
        }
    }
    let ordered = launch_op(parts);
    if ordered.operands.len() == op.operands.len() { ordered } else { op }
}

/// The parts of a launch of a kernel of the user; `None` for other ops.
pub fn launch_parts(op: &Op) -> Option<LaunchParts> {
    let file = op.word_attr(AttrKey::Kernel)?;
    Some(LaunchParts {
        file,
        entry: op.word_attr(ENTRY)?,
        grid: op.attr(GRID)?.exprs().to_vec(),
        block: op.attr(BLOCK)?.exprs().to_vec(),
        shared: op.expr_attr(SHARED),
        arguments: arguments(op),
        reads: read_tensors(op),
        writes: op.output_tensors().collect(),
        reference: op.posted_number(),
        group: op.expr_attr(AttrKey::GroupId),
    })
}

/// Returns true if the op launches a kernel of the user.
pub fn is_user_launch(op: &Op) -> bool {
    op.kind == OpKind::LaunchKernel && op.attr(AttrKey::Kernel).is_some()
}

/// The tensors that the kernel reads.
fn read_tensors(op: &Op) -> Vec<TensorId> {
    op.passed_values().into_iter().filter_map(Value::as_tensor).collect()
}

/// The values of these numbers, without those that do not exist.
fn numbered_values(all: &[Value], numbers: &[i64]) -> Vec<Value> {
    numbers.iter().filter_map(|&number| all.get(usize::try_from(number).ok()?).copied()).collect()
}

fn arguments(op: &Op) -> Vec<Value> {
    let all: Vec<Value> = op.plain_operands().chain(op.results.iter().copied()).collect();
    match op.ints_attr(ARGUMENTS) {
        Some(numbers) => numbered_values(&all, numbers),
        None => all,
    }
}

/// The fault in the name of a kernel's file; `None` if it has none.
///
/// A file is given relative to the folder of the program and cannot leave it.
pub fn file_fault(file: &str) -> Option<&'static str> {
    let parts: Vec<&str> = file.split('/').collect();
    if file.is_empty() {
        return Some("is empty");
    }
    if file.starts_with('/') || file.contains([':', '\\']) {
        return Some("is not relative to the program's folder");
    }
    if parts.contains(&"..") {
        return Some("leaves the program's folder");
    }
    if parts.iter().any(|part| part.is_empty() || *part == ".") || file.contains(char::is_control) {
        return Some("is not a plain path");
    }
    let is_kernel = KERNEL_FILES.iter().any(|ending| file.len() > ending.len() && file.ends_with(ending));
    (!is_kernel).then_some("is neither source (`.cu`) nor code (`.cubin`, `.ptx`, `.fatbin`)")
}

/// The error for the name of a file, at its place in the text.
pub fn file_error(file: &str, span: Span) -> Option<Diag> {
    let fault = file_fault(file)?;
    let note = "write the path from the program's folder down, such as `kernels/axpy.cu`";
    Some(Diag::error(codes::KERNEL_FILE_NAME, span, format!("the kernel's file `{file}` {fault}")).with_note(note))
}

/// The type in which a scalar is passed: that of its cast or literal; `None` if only its value decides.
pub fn declared_type(program: &Program, expr: ExprId) -> Option<DType> {
    match program.expr(expr) {
        Expr::Typed(dtype, _) => Some(*dtype),
        Expr::Call(name, parts) if parts.len() == 1 => cast_result(program.name(*name)),
        Expr::Set(inner) => declared_type(program, *inner),
        _ => None,
    }
}

/// Checks the attributes of a launch: all that one needs, and no others.
pub(super) fn check_user_launch(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let span = program.op_span(id);
    let words = [(ENTRY, "Entry"), (GRID, "Grid"), (BLOCK, "Block")];
    if op.attr(AttrKey::Kernel).is_none() {
        let others = [(SHARED, "Shared"), (ARGUMENTS, "Arguments"), (AttrKey::Reads, "Reads")];
        let given = words.into_iter().chain(others).find(|(key, _)| op.attr(*key).is_some());
        let given = given.map(|(_, word)| word).or(op.posted_number().map(|_| "Reference"));
        if let Some(word) = given {
            let message = format!("this `LaunchKernel` has `{word}`, but no `Kernel`");
            diags.push(
                Diag::error(codes::LAUNCH_PARTS, span, message).with_note("add `Kernel: \"FILE.cu\"`, or remove it"),
            );
        }
        return;
    }
    if let Some((_, word)) = words.into_iter().find(|(key, _)| op.attr(*key).is_none()) {
        let message = format!("this `LaunchKernel` has a `Kernel`, but no `{word}`");
        let note = "a launch needs `Kernel`, `Entry`, `Grid` and `Block`";
        diags.push(Diag::error(codes::LAUNCH_PARTS, span, message).with_note(note));
        return;
    }
    for (key, word) in [(GRID, "grid"), (BLOCK, "block")] {
        let count = op.attr(key).map_or(0, |value| value.exprs().len());
        if !(1..=MOST_EXTENTS).contains(&count) {
            let message = format!("the {word} of a launch has one to three extents, this one has {count}");
            let note = format!("write the {word} as one to three integers");
            diags.push(Diag::error(codes::LAUNCH_EXTENTS, span, message).with_note(note));
        }
    }
    check_numbers(program, id, diags);
    check_writes(program, id, diags);
    check_reference(program, id, diags);
}

/// Checks that the numbers of `Arguments` and `Reads` exist.
fn check_numbers(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let all = op.plain_operands().count() + op.results.len();
    let wrong = op.ints_attr(ARGUMENTS).unwrap_or_default().iter().find(|&&at| !(0..all as i64).contains(&at));
    if let Some(wrong) = wrong {
        let message = message!("`Arguments` names value {}, but the launch has {}", *wrong, count_text(all, "value"));
        let note = "inputs count from 0 on, and outputs after them";
        diags.push(Diag::error(codes::LAUNCH_PARTS, program.op_span(id), message).with_note(note));
    }
    let given: Vec<Value> = op.plain_operands().collect();
    let (passed, read) = (arguments(op), read_tensors(op));
    let mut unused = given.iter().filter(|value| !passed.contains(value));
    let unused = unused.find(|value| value.as_tensor().is_none_or(|tensor| !read.contains(&tensor)));
    if let Some(&unused) = unused {
        let message = message!("the kernel neither gets nor reads {}", value_text(program, unused));
        let note = "name it in `Arguments` or `Reads`, or remove it from `Inputs`";
        diags.push(Diag::error(codes::LAUNCH_PARTS, program.op_span(id), message).with_note(note));
    }
    let reads = op.ints_attr(AttrKey::Reads).unwrap_or_default();
    let wrong = reads.iter().find(|number| {
        let values = numbered_values(&given, &[**number]);
        values.iter().all(|value| value.as_tensor().is_none())
    });
    if let Some(wrong) = wrong {
        let message = format!("`Reads` names input {wrong}, which is no tensor of the launch");
        let note = "`Reads: {0}` says that the kernel reads the first of `Inputs`, and no other";
        diags.push(Diag::error(codes::LAUNCH_PARTS, program.op_span(id), message).with_note(note));
    }
}

/// Checks that a kernel writes something, and nothing under two names.
fn check_writes(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let span = program.op_span(id);
    let written: Vec<TensorId> = op.output_tensors().collect();
    if written.is_empty() {
        let message = "the launch declares nothing that its kernel writes, so it has no effect";
        diags.push(
            Diag::error(codes::LAUNCH_PARTS, span, message).with_note("add `writes(C)` with the tensor or slice"),
        );
    }
    let twice = written.iter().enumerate().find(|(at, tensor)| written[..*at].contains(tensor));
    if let Some((_, &tensor)) = twice {
        let message = message!("the launch declares twice that `{}` is written", program.quoted_tensor(tensor));
        diags.push(Diag::error(codes::LAUNCH_PARTS, span, message).with_note("declare it once"));
    }
}

/// Checks that the reference takes what the kernel reads, and then its scalars, and gives what the kernel writes.
fn check_reference(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(number) = op.posted_number() else { return };
    let Some(unit) = program.unit_by_number(number).map(|unit| &program.units()[unit]) else {
        let message = format!("the reference HostUnit{number} is not in the program");
        let note = "write the HostUnit, or leave `Reference` out";
        diags.push(Diag::error(codes::LAUNCH_REFERENCE, program.op_span(id), message).with_note(note));
        return;
    };
    let mut given = op.passed_values();
    // A reference need not take the scalars, which may only say how large the tensors are.
    let reads = given.iter().filter(|value| value.as_tensor().is_some()).count();
    if unit.inputs.len() == reads {
        given.truncate(reads);
    }
    if let Some(diag) = missing_reads(program, id, unit) {
        diags.push(diag);
        return;
    }
    let sides = [(&given[..], &unit.inputs, "input"), (op.results.as_slice(), &unit.outputs, "output")];
    for (host, inner, what) in sides {
        if !unit.is_elided && host.len() != inner.len() {
            diags.push(reference_count(program, id, unit, host.len(), inner.len(), what));
            return;
        }
        for (&host, &inner) in host.iter().zip(inner) {
            check_reference_value(program, id, host, inner, diags);
        }
    }
}

/// The error for a launch that declares to read fewer tensors than its reference takes, though it passes more.
fn missing_reads(program: &Program, id: OpId, unit: &HostUnit) -> Option<Diag> {
    let parts = launch_parts(program.op(id)).filter(|_| program.is_hir2() && !unit.is_elided)?;
    let taken: Vec<TensorId> = unit.inputs.iter().filter_map(|value| value.as_tensor()).collect();
    let passed = parts.arguments.iter().filter_map(|value| value.as_tensor());
    let more: Vec<TensorId> =
        passed.filter(|tensor| !parts.reads.contains(tensor) && !parts.writes.contains(tensor)).collect();
    if parts.reads.len() >= taken.len() || more.is_empty() {
        return None;
    }
    let taken_text = message!("{}: `{}`", count_text(taken.len(), "tensor"), list_tensors(program, &taken));
    let message = match parts.reads.is_empty() {
        true => message!("the launch declares to read nothing, but its reference takes {}", taken_text),
        false => message!(
            "`reads({})` is less than the reference takes, {}",
            list_tensors(program, &parts.reads),
            taken_text
        ),
    };
    let all: Vec<TensorId> = parts.reads.iter().copied().chain(more).collect();
    let note =
        message!("the launch passes more: write `reads({})` if the kernel reads them", list_tensors(program, &all));
    Some(Diag::error(codes::LAUNCH_REFERENCE, program.op_span(id), message).with_note(note))
}

/// `A, B`
fn list_tensors(program: &Program, tensors: &[TensorId]) -> Message {
    let names: Vec<Message> = tensors.iter().map(|tensor| message!("{}", program.quoted_tensor(*tensor))).collect();
    Message::join(&names, ", ")
}

/// The error for a reference that declares `found` values where the launch has `needed`.
fn reference_count(program: &Program, id: OpId, unit: &HostUnit, needed: usize, found: usize, what: &str) -> Diag {
    let name = program.unit_name(unit.number);
    let message = message!("{} has {}, but the launch gives it {}", name, count_text(found, what), needed.to_string());
    let note = match what {
        "input" => "a reference gets what the kernel reads, in the order of `reads`, then the kernel's scalars or none",
        _ => "a reference gives what the kernel writes, in the order of `writes`",
    };
    Diag::error(codes::LAUNCH_REFERENCE, program.op_span(id), message).with_note(note)
}

fn check_reference_value(program: &Program, id: OpId, host: Value, inner: Value, diags: &mut Diags) {
    let span = program.op_span(id);
    match (host, inner) {
        (Value::Tensor(host), Value::Tensor(inner)) => {
            let (a, b) = (program.tensor(host).dtype, program.tensor(inner).dtype);
            if a != b {
                let (name, other) = (program.quoted_tensor(host), program.quoted_tensor(inner));
                let message = message!(
                    "`{}` is {}, but the reference declares `{}` as {}",
                    name,
                    quoted_type(a),
                    other,
                    quoted_type(b)
                );
                let diag = Diag::error(codes::LAUNCH_REFERENCE, span, message);
                diags.push(with_declaration(diag, program, inner, id));
            }
        }
        (Value::Tensor(_), Value::Scalar(_)) | (Value::Scalar(_), Value::Tensor(_)) => {
            let message = message!(
                "the launch gives its reference {} for {}",
                value_text(program, host),
                value_text(program, inner)
            );
            let note = "a reference gets the tensors first, then the scalars";
            diags.push(Diag::error(codes::LAUNCH_REFERENCE, span, message).with_note(note));
        }
        _ => {}
    }
}

fn value_text(program: &Program, value: Value) -> Message {
    match value {
        Value::Tensor(tensor) => message!("the tensor `{}`", program.quoted_tensor(tensor)),
        Value::Scalar(expr) => message!("the scalar `{}`", quoted_expr(program, expr)),
        _ => Message::default(),
    }
}

/// The largest extents of a grid, of a block, the most threads of a block, and the most bytes of shared memory that a
/// device gives to one.
const LARGEST_GRID: [i64; 3] = [0x7fff_ffff, 0xffff, 0xffff];
const LARGEST_BLOCK: [i64; 3] = [1024, 1024, 64];
const MOST_THREADS: i64 = 1024;
const MOST_SHARED: i64 = 227 << 10;

/// The instruction of a launch, without its reference. Results that have no memory get it.
///
/// # Errors
/// If the op launches no kernel of the user, no device takes its shape, or it passes an address that it does not
/// declare to access.
pub fn launch_inst(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<LaunchInst, Diag> {
    let program = cx.program;
    let Some(parts) = launch_parts(program.op(id)) else { return Err(no_kernel(cx)) };
    let writes: Result<Vec<BufferView>, Diag> =
        parts.writes.iter().map(|&tensor| Ok(cx.output_view(tensor)?.stored_part())).collect();
    let reads: Result<Vec<BufferView>, Diag> =
        parts.reads.iter().map(|&tensor| Ok(cx.input_view(tensor)?.stored_part())).collect();
    let (writes, reads) = (writes?, reads?);
    let mut arguments = Vec::new();
    for &argument in &parts.arguments {
        arguments.push(match argument {
            Value::Scalar(expr) => scalar_argument(cx, expr)?,
            Value::Tensor(tensor) => {
                let view = cx.input_view(tensor)?;
                if !reads.iter().chain(&writes).any(|declared| declared.buffer == view.buffer) {
                    return Err(undeclared_address(cx, tensor));
                }
                LaunchArgument::Address(view.stored_part())
            }
            _ => continue,
        });
    }
    let shared = parts.shared.map_or(Ok(0), |shared| cx.eval_int(shared))?;
    if !(0..=MOST_SHARED).contains(&shared) {
        let message = message!("the launch asks for {} bytes of shared memory", shared);
        return Err(shape_error(cx, message, &format!("a block has from 0 to {MOST_SHARED} bytes")));
    }
    let block = launch_extents(cx, &parts.block, "block", LARGEST_BLOCK)?;
    let threads: i64 = block.iter().map(|&extent| i64::from(extent)).product();
    if threads > MOST_THREADS {
        let message = message!("the blocks of the launch have {} threads", threads);
        return Err(shape_error(cx, message, &format!("a block has at most {MOST_THREADS} threads")));
    }
    let [file, entry] = [parts.file, parts.entry].map(|symbol| program.name(symbol).into());
    Ok(LaunchInst {
        kernel: UserKernel { file, entry },
        grid: launch_extents(cx, &parts.grid, "grid", LARGEST_GRID)?,
        block,
        shared: shared as u32,
        arguments,
        reads,
        writes,
        reference: None,
    })
}

fn no_kernel(cx: &PlanBuilder<'_>) -> Diag {
    let message = "`LaunchKernel` cannot run: the text does not contain its kernel";
    let note = "name the kernel with `Kernel: \"FILE.cu\"` and its other attributes, post its ops as a HostUnit with `PostOnStream`, or write them in place of the launch";
    cx.error_here(codes::CANNOT_RUN, message).with_note(note)
}

fn shape_error(cx: &PlanBuilder<'_>, message: Message, note: &str) -> Diag {
    cx.error_here(codes::LAUNCH_SHAPE, message).with_note(note.to_owned())
}

fn undeclared_address(cx: &PlanBuilder<'_>, tensor: TensorId) -> Diag {
    let name = cx.quoted_tensor(tensor);
    let message = message!("the kernel gets the address of {}, but the launch declares no access to it", name);
    shape_error(cx, message, "name it, or slices of it, in `reads(..)` or `writes(..)`")
}

/// The extents of a grid or a block, with 1 for those that are not given.
fn launch_extents(cx: &PlanBuilder<'_>, given: &[ExprId], what: &str, largest: [i64; 3]) -> Result<[u32; 3], Diag> {
    let mut extents = [1; 3];
    for ((at, extent), &expr) in extents.iter_mut().enumerate().zip(given) {
        let value = cx.eval_int(expr)?;
        if !(1..=largest[at]).contains(&value) {
            let axis = ["x", "y", "z"][at];
            let message = message!("extent {} of the launch's {} is {}", axis, what, value);
            return Err(shape_error(cx, message, &format!("it is from 1 to {}", largest[at])));
        }
        *extent = value as u32;
    }
    Ok(extents)
}

/// A number as a kernel gets it: in the type that its cast or literal names, else as 64 bits or a truth value.
fn scalar_argument(cx: &PlanBuilder<'_>, expr: ExprId) -> Result<LaunchArgument, Diag> {
    let value = cx.eval_scalar(expr)?;
    let dtype = declared_type(cx.program, expr).or(match value {
        ScalarValue::Int(_) | ScalarValue::Unsigned(_) => Some(DType::Int),
        ScalarValue::Float(_) => Some(DType::Double),
        ScalarValue::Bool(_) => Some(DType::Bool),
        ScalarValue::Complex(..) => None,
    });
    let dtype = dtype.filter(|dtype| PASSED_TYPES.contains(dtype));
    match dtype {
        Some(dtype) => Ok(LaunchArgument::Scalar { dtype, value }),
        None => {
            let message = message!("a kernel cannot get `{}`: its type is not passed", quoted_expr(cx.program, expr));
            Err(shape_error(cx, message, "integers, truth values and floats of 32 and 64 bits are"))
        }
    }
}

/// The types of numbers that kernels get.
const PASSED_TYPES: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Bool,
    DType::Int,
    DType::Int32,
    DType::Int16,
    DType::Int8,
    DType::UInt64,
    DType::UInt32,
    DType::UInt16,
    DType::UInt8,
    DType::Index,
];
