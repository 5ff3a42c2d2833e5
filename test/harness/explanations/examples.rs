//! The Rust code of pages of docs/errors: each block `rust` of a page is a part of this file.
//!
//! Codes that only a program in Rust can cause have two functions here, a wrong and a right one, which run on stand-ins
//! for GPUs in a folder with the page's files. `caller` is a CUDA user of the same process: it owns memory.
#![allow(unsafe_code, reason = "sessions take addresses of a caller's")]

use hostir::backend::control_plane::{ControlPlane, ControlPlaneError, ThreadControlPlane};
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::diag::{Diag, Diags, render};
use hostir::ir::DType;
use hostir::ir::edit::Edit;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::ops::OpRegistry;
use hostir_cuda::session::{DeviceTensor, IoSide, Options, Session, SymmetricTensor};
use hostir_cuda::{BackendTransports, CommTransport};
use hostir_fakes::DeviceCaller;
use hostir_lit::context::{InProcessTool, built_in_tools};
use hostir_passes::{PassAction, PassCx, PassInfo, PassRegistry, ToolRegistries};
use hostir_tool_support::io::ToolIo;
use std::ffi::OsString;
use std::fs::read_to_string;
use std::process::ExitCode;
use std::time::Duration;

/// The text of this file.
pub(super) const SOURCE: &str = include_str!("examples.rs");

type Done = Result<(), Box<dyn std::error::Error>>;
type Example = fn(&DeviceCaller) -> Done;

/// A code, its wrong example and its right one.
const EXAMPLES: &[(&str, Example, Example)] = &[
    ("H0501", without_an_input, with_all_inputs),
    ("H0523", another_type, same_type),
    ("H0524", whole_tensor, shard_of_a_rank),
    ("H0525", overlapping_elements, contiguous_elements),
    ("H0526", misaligned_address, aligned_address),
    ("H0527", run_without_data, run_with_data),
    ("H0528", unknown_name, known_name),
    ("H0529", run_after_a_failure, new_session_after_a_failure),
    ("H0532", different_steps, same_steps),
    ("H0535", changed_plan, own_plan),
    ("H0536", moved_symmetric_memory, fixed_symmetric_memory),
];

/// Runs an example as this process's program: the code, and `wrong` or `right`.
#[allow(clippy::print_stderr, reason = "the page shows the message")]
pub(super) fn run_example(args: &[String]) -> ExitCode {
    let [code, side] = args else { return ExitCode::FAILURE };
    let Some((_, wrong, right)) = EXAMPLES.iter().find(|(listed, ..)| listed == code) else {
        eprintln!("there is no example of {code}");
        return ExitCode::FAILURE;
    };
    let example = if side == "wrong" { wrong } else { right };
    let done = DeviceCaller::new(0).map_err(Into::into).and_then(|caller| example(&caller));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn prepare_relu() -> Result<PreparedProgram, Box<dyn std::error::Error>> {
    let text = read_to_string("relu.hir")?;
    let (programs, _) = hostir::load(&text);
    let prepared = prepare_program(&programs[0], &SizeSettings::default());
    Ok(prepared.map_err(|diags| render::to_string("relu.hir", &text, &diags.items))?)
}

fn without_an_input(_: &DeviceCaller) -> Done {
    let prepared = prepare_relu()?;
    let inputs = vec![vec![]];
    cpu::run_plans(&prepared, inputs).map_err(|diags| render::to_string("relu.hir", "", &diags))?;
    Ok(())
}

fn with_all_inputs(_: &DeviceCaller) -> Done {
    let prepared = prepare_relu()?;
    let inputs = vec![vec![HostTensor::zeros(DType::Float, &[4, 8])]];
    cpu::run_plans(&prepared, inputs).map_err(|diags| render::to_string("relu.hir", "", &diags))?;
    Ok(())
}

fn another_type(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let x = DeviceTensor::contiguous(caller.upload(&[1.0; 32])?, DType::BFloat16, &[4, 8]);
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.input("X").bind(&x) }?;
    Ok(())
}

fn same_type(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let x = DeviceTensor::contiguous(caller.upload(&[1.0; 32])?, DType::Float, &[4, 8]);
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.input("X").bind(&x) }?;
    Ok(())
}

fn whole_tensor(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let x = DeviceTensor::contiguous(caller.upload(&[1.0; 64])?, DType::Float, &[2, 4, 8]);
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.input("X").on(0).bind(&x) }?;
    Ok(())
}

fn shard_of_a_rank(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let x = DeviceTensor::contiguous(caller.upload(&[1.0; 64])?, DType::Float, &[1, 4, 8]);
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.input("X").on(0).bind(&x) }?;
    Ok(())
}

fn overlapping_elements(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let pointer = caller.upload(&[0.0; 32])?;
    let y = DeviceTensor { pointer, shape: vec![4, 8], strides: vec![0, 1], dtype: DType::Float };
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.output("Y").bind(&y) }?;
    Ok(())
}

fn contiguous_elements(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let pointer = caller.upload(&[0.0; 32])?;
    let y = DeviceTensor { pointer, shape: vec![4, 8], strides: vec![8, 1], dtype: DType::Float };
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.output("Y").bind(&y) }?;
    Ok(())
}

fn misaligned_address(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let address = caller.upload(&[1.0; 33])? + 2;
    let x = DeviceTensor::contiguous(address, DType::Float, &[4, 8]);
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.input("X").bind(&x) }?;
    Ok(())
}

fn aligned_address(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let address = caller.upload(&[1.0; 33])? + 4;
    let x = DeviceTensor::contiguous(address, DType::Float, &[4, 8]);
    // SAFETY: the caller frees the memory after the session.
    unsafe { session.input("X").bind(&x) }?;
    Ok(())
}

fn run_without_data(_: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    session.run()?;
    Ok(())
}

fn run_with_data(_: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    session.input("X").upload(&HostTensor::zeros(DType::Float, &[4, 8]))?;
    session.run()?;
    session.wait()?;
    Ok(())
}

fn unknown_name(_: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    session.input("Z").upload(&HostTensor::zeros(DType::Float, &[4, 8]))?;
    Ok(())
}

fn known_name(_: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    session.input("X").upload(&HostTensor::zeros(DType::Float, &[4, 8]))?;
    Ok(())
}

fn run_after_a_failure(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let address = caller.upload(&[1.0; 32])?;
    let x = DeviceTensor::contiguous(address, DType::Float, &[4, 8]);
    // SAFETY: none, the memory is freed too early.
    unsafe { session.input("X").bind(&x) }?;
    caller.free(address)?;
    let first = session.run().and_then(|()| session.wait());
    if first.is_err() {
        session.run()?;
    }
    Ok(())
}

fn new_session_after_a_failure(caller: &DeviceCaller) -> Done {
    let mut session = Session::builder(&read_to_string("relu.hir")?).build()?;
    let address = caller.upload(&[1.0; 32])?;
    let x = DeviceTensor::contiguous(address, DType::Float, &[4, 8]);
    // SAFETY: the memory is freed after the last run on it.
    unsafe { session.input("X").bind(&x) }?;
    session.run()?;
    session.run()?;
    session.wait()?;
    caller.free(address)?;
    Ok(())
}

type Gathered = Result<Vec<Vec<u8>>, ControlPlaneError>;

/// The errors with which two ranks ended.
fn report_ends(ends: std::thread::Result<[Gathered; 2]>) -> Done {
    let ends = ends.map_err(|_| "a rank panicked")?;
    let diags: Vec<Diag> = ends.into_iter().filter_map(|end| Some(end.err()?.diag())).collect();
    if diags.is_empty() { Ok(()) } else { Err(render::to_string("", "", &diags).into()) }
}

fn different_steps(_: &DeviceCaller) -> Done {
    let ranks = ThreadControlPlane::new(2, Duration::from_millis(500));
    let ends = std::thread::scope(|scope| {
        let zero = scope.spawn(|| ranks[0].all_gather("load", &[]));
        let one = ranks[1].all_gather("run", &[]);
        zero.join().map(|zero| [zero, one])
    });
    report_ends(ends)
}

fn same_steps(_: &DeviceCaller) -> Done {
    let ranks = ThreadControlPlane::new(2, Duration::from_secs(60));
    let ends = std::thread::scope(|scope| {
        let zero = scope.spawn(|| ranks[0].all_gather("load", &[]));
        let one = ranks[1].all_gather("load", &[]);
        zero.join().map(|zero| [zero, one])
    });
    report_ends(ends)
}

fn changed_plan(_: &DeviceCaller) -> Done {
    let mut prepared = prepare_relu()?;
    prepared.plans[0].inputs[0].iter_mut().for_each(|view| view.offset = 8);
    Session::of_prepared(prepared, Options::default())?;
    Ok(())
}

fn own_plan(_: &DeviceCaller) -> Done {
    let prepared = prepare_relu()?;
    Session::of_prepared(prepared, Options::default())?;
    Ok(())
}

/// A session of exchange.hir, whose X lies at `addresses` on the two ranks.
fn symmetric_session(addresses: [u64; 2]) -> Result<Session, Box<dyn std::error::Error>> {
    // SAFETY: the memory is never freed.
    let x = unsafe { SymmetricTensor::new(IoSide::Input, 0, addresses.to_vec()) };
    let routes = BackendTransports { nccl: CommTransport::Copies, ..BackendTransports::default() };
    let options = Options { routes, symmetric: vec![x], ..Options::default() };
    Ok(Session::builder(&read_to_string("exchange.hir")?).options(options).build()?)
}

fn moved_symmetric_memory(caller: &DeviceCaller) -> Done {
    let addresses = [caller.upload(&[1.0; 64])?, DeviceCaller::new(1)?.upload(&[1.0; 64])?];
    let mut session = symmetric_session(addresses)?;
    let elsewhere = caller.upload(&[2.0; 64])?;
    let x = DeviceTensor::contiguous(elsewhere, DType::Float, &[1, 64]);
    // SAFETY: the memory is never freed.
    unsafe { session.input("X").on(0).bind(&x) }?;
    Ok(())
}

fn fixed_symmetric_memory(caller: &DeviceCaller) -> Done {
    let addresses = [caller.upload(&[1.0; 64])?, DeviceCaller::new(1)?.upload(&[1.0; 64])?];
    let mut session = symmetric_session(addresses)?;
    caller.write(addresses[0], &[2.0; 64])?;
    session.run()?;
    session.wait()?;
    Ok(())
}

/// Removes the last op, whatever needs its result.
fn remove_last(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let mut ops = edit.program().block(body).ops.clone();
    ops.pop();
    edit.set_block(body, ops);
    Ok(())
}

/// Removes the last op if its results are no outputs.
fn remove_unneeded(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let body = program.body();
    let mut ops = program.block(body).ops.clone();
    let is_output = |id| program.op(id).results.iter().any(|result| program.outputs().contains(result));
    ops.pop_if(|id| !is_output(*id));
    edit.set_block(body, ops);
    Ok(())
}

/// Moves the third op to the front.
fn move_third(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let mut ops = edit.program().block(body).ops.clone();
    let third = ops.remove(2);
    ops.insert(0, third);
    edit.set_block(body, ops);
    Ok(())
}

/// Moves the third op, if there is one, to the front.
fn move_any_third(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let mut ops = edit.program().block(body).ops.clone();
    if ops.len() > 2 {
        let third = ops.remove(2);
        ops.insert(0, third);
        edit.set_block(body, ops);
    }
    Ok(())
}

const fn own_pass(name: &'static str, action: PassAction) -> PassInfo {
    PassInfo { name, summary: "A pass of a page of docs/errors", action, ..PassInfo::DEFAULTS }
}

static REMOVE_LAST: PassInfo = own_pass("remove-last", PassAction::Rewrite(remove_last));
static REMOVE_UNNEEDED: PassInfo = own_pass("remove-unneeded", PassAction::Rewrite(remove_unneeded));
static MOVE_THIRD: PassInfo = own_pass("move-third", PassAction::Rewrite(move_third));
static MOVE_ANY_THIRD: PassInfo = own_pass("move-any-third", PassAction::Rewrite(move_any_third));

/// The toolchain's ops, and its passes with those of the pages.
static REGISTRIES: ToolRegistries = ToolRegistries {
    ops: OpRegistry::OURS,
    passes: PassRegistry::with_passes(&[&REMOVE_LAST, &REMOVE_UNNEEDED, &MOVE_THIRD, &MOVE_ANY_THIRD]),
};

/// hir-opt with the passes of the pages.
fn hir_opt(args: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    hostir_opt::main_with_registries(args, io, REGISTRIES)
}

/// The tools, with the passes of the pages.
pub(super) fn tools_with_passes() -> Vec<InProcessTool> {
    let own = InProcessTool { name: "hir-opt", main: hir_opt };
    built_in_tools().into_iter().map(|tool| if tool.name == own.name { own } else { tool }).collect()
}
