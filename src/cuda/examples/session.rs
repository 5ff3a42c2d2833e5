//! Sessions beside another CUDA user of the process.
//!
//! The other user (`Caller`) owns the device memory and the streams, launches a kernel of its own before and after the
//! sessions' work, and never waits in between. Two sessions work at once on its tensors: in place, through strides, on
//! memory that moves from run to run, and as recorded graphs. With a second GPU, two ranks as threads exchange data
//! too. Every number is compared with a plain loop; every call has to leave the caller's current context as it was.
//!
//! `cargo run --release --example session`. The exit status is 0 on success, 1 on failure, and 3 without a GPU.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
#![allow(unsafe_code, reason = "the other user launches a kernel, and hands over its memory and streams")]

#[path = "../tests/common/sessions.rs"]
mod sessions;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg, result,
};
use cudarc::nvrtc::Ptx;
use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir_cuda::nvrtc;
use hostir_cuda::session::{CallerStream, DeviceTensor, IoSide, NcclFile, Options, Session, SlotTensor};
use sessions::{GATHER, PRODUCT, SQUARE, matrix, numbers, relu_of_product};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

type Done<T> = Result<T, Box<dyn Error>>;

/// Rows, columns of the result, and the length of the sums.
const M: usize = 48;
const N: usize = 64;
const K: usize = 32;

/// The other user's kernel.
const SCALE: &str = "extern \"C\" __global__ void scale(float *x, float by, int count) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) x[at] *= by;
}";

fn main() -> ExitCode {
    match hostir_cuda::device_count() {
        Err(error) => {
            eprintln!("session: {error}; this example needs a GPU");
            return ExitCode::from(3);
        }
        Ok(0) => {
            eprintln!("session: the CUDA driver finds no GPU; this example needs one");
            return ExitCode::from(3);
        }
        Ok(_) => {}
    }
    match work() {
        Ok(()) => {
            println!("session: all numbers are right");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("session: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Done<()> {
    let caller = Caller::new(0)?;
    two_sessions(&caller, false)?;
    two_sessions(&caller, true)?;
    rebinding(&caller)?;
    own_memory()?;
    misuse(&caller)?;
    if hostir_cuda::device_count()? > 1 {
        two_ranks()
    } else {
        println!("session: two ranks: skipped, there is one GPU");
        Ok(())
    }
}

/// Another CUDA user: a context, a stream, a kernel.
struct Caller {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    scale: CudaFunction,
}

impl Caller {
    fn new(device: usize) -> Done<Self> {
        let context = CudaContext::new(device)?;
        let (major, minor) = context.compute_capability()?;
        let image = nvrtc::compile_cubin(SCALE, (major * 10 + minor) as u32)?;
        let scale = context.load_module(Ptx::from_binary(image))?.load_function("scale")?;
        let stream = context.new_stream()?;
        Ok(Self { context, stream, scale })
    }

    /// Memory of its own with these elements.
    fn upload(&self, data: &[f32]) -> Done<CudaSlice<f32>> {
        Ok(self.stream.clone_htod(data)?)
    }

    /// Returns the contents of memory after all work on the stream is done.
    fn download(&self, data: &CudaSlice<f32>) -> Done<Vec<f32>> {
        let host = self.stream.clone_dtoh(data)?;
        self.stream.synchronize()?;
        Ok(host)
    }

    /// Enqueues a kernel of the caller: it multiplies every element by a number.
    fn scale(&self, data: &mut CudaSlice<f32>, by: f32) -> Done<()> {
        let count = data.len();
        let mut launch = self.stream.launch_builder(&self.scale);
        let number = count as i32;
        launch.arg(data).arg(&by).arg(&number);
        // SAFETY: the kernel takes these three arguments and stays within `count` elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32))? };
        Ok(())
    }

    fn stream(&self) -> CallerStream {
        // SAFETY: the stream is of the device's primary context and lives as long as `self`.
        unsafe { CallerStream::from_raw(self.stream.cu_stream().cast()) }
    }

    fn address(&self, data: &CudaSlice<f32>) -> u64 {
        data.device_ptr(&self.stream).0
    }
}

/// Calls `work` with no context current, and checks that none is current afterwards.
fn undisturbed<T>(caller: &Caller, work: impl FnOnce() -> Done<T>) -> Done<T> {
    // SAFETY: no context is a valid choice.
    unsafe { result::ctx::set_current(std::ptr::null_mut())? };
    let done = work();
    let after = result::ctx::get_current()?;
    caller.context.bind_to_thread()?;
    match after {
        Some(context) if !context.is_null() => Err("a call left its context current".into()),
        _ => done,
    }
}

fn compare(what: &str, got: &[f32], expected: &[f32]) -> Done<()> {
    let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
    match wrong {
        _ if got.len() != expected.len() => {
            Err(format!("{what}: {} elements for {}", got.len(), expected.len()).into())
        }
        None => {
            println!("session: {what}: ok");
            Ok(())
        }
        Some(at) => Err(format!("{what}: element {at} is {}, not {}", got[at], expected[at]).into()),
    }
}

/// One session's result is the other's input; the caller works before, between and after, on one stream.
fn two_sessions(caller: &Caller, graph: bool) -> Done<()> {
    let (a, b) = (numbers(M * K, 1), numbers(K * N, 2));
    let (mut x, y) = (caller.upload(&a)?, caller.upload(&b)?);
    // The GEMM's result is the middle of wider rows; the elements after it in a row stay as they were.
    let mut wide = caller.upload(&vec![7.0; M * (N + 8)])?;
    let squares = caller.upload(&vec![0.0; M * N])?;
    let x_tensor = matrix(caller.address(&x), [M, K], [K as i64, 1]);
    let y_tensor = matrix(caller.address(&y), [K, N], [N as i64, 1]);
    let columns = matrix(caller.address(&wide) + 4 * 3, [M, N], [(N + 8) as i64, 1]);
    let turned = matrix(columns.pointer, [N, M], [1, (N + 8) as i64]);
    let squares_tensor = matrix(caller.address(&squares), [N, M], [M as i64, 1]);
    let options = Options { graph, ..Options::default() };
    let build = || -> Done<(Session, Session)> {
        let product = Session::builder(PRODUCT).options(options.clone());
        // SAFETY: both are of slices that live until the sessions are dropped, and all work on them is enqueued on
        // one stream.
        let product = unsafe { product.input("T0", &x_tensor) };
        // SAFETY: as above.
        let product = unsafe { product.input("T1", &y_tensor) };
        let square = Session::builder(SQUARE).options(options.clone());
        // SAFETY: as above.
        let square = unsafe { square.input("T0", &turned) };
        Ok((product.build()?, square.build()?))
    };
    let (mut product, mut square) = undisturbed(caller, build)?;
    // SAFETY: as of the inputs; the columns are within their slice.
    unsafe { product.output("T4").bind(&columns) }?;
    // SAFETY: as above.
    unsafe { square.output(0).bind(&squares_tensor) }?;
    for round in 0..3 {
        caller.scale(&mut x, if round == 0 { 2.0 } else { 1.0 })?;
        undisturbed(caller, || Ok(product.run_on(caller.stream())?))?;
        undisturbed(caller, || Ok(square.run_on(caller.stream())?))?;
    }
    caller.scale(&mut wide, 3.0)?;
    let doubled: Vec<f32> = a.iter().map(|x| 2.0 * x).collect();
    let expected = relu_of_product(&doubled, &b, [M, N, K]);
    let kind = if graph { "recorded" } else { "issued" };
    let found = caller.download(&wide)?;
    let row = |at: usize| match at % (N + 8) {
        column @ 3.. if column < N + 3 => 3.0 * expected[at / (N + 8) * N + column - 3],
        _ => 21.0,
    };
    let wide_expected: Vec<f32> = (0..found.len()).map(row).collect();
    compare(&format!("a product into columns, {kind}"), &found, &wide_expected)?;
    let square_expected: Vec<f32> = (0..N * M).map(|at| expected[at % M * N + at / M].powi(2)).collect();
    compare(&format!("squares of its transpose, {kind}"), &caller.download(&squares)?, &square_expected)?;
    let sums = undisturbed(caller, || Ok(product.output("T5").download()?))?;
    let twice: Vec<f32> = doubled.iter().map(|x| x + x).collect();
    compare(&format!("an output of the session's own, {kind}"), sums.as_slice(), &twice)?;
    undisturbed(caller, move || {
        product.wait()?;
        square.wait()?;
        drop((product, square));
        Ok(())
    })
}

/// Binds other memory for every run, and the result in the place of the input.
fn rebinding(caller: &Caller) -> Done<()> {
    const RUNS: usize = 200;
    let data: Vec<Vec<f32>> = (0..4).map(|seed| numbers(M * K, seed)).collect();
    let slices: Vec<CudaSlice<f32>> = data.iter().map(|data| caller.upload(data)).collect::<Done<_>>()?;
    let of = |slice: &CudaSlice<f32>| matrix(caller.address(slice), [M, K], [K as i64, 1]);
    // SAFETY: the slices live until the session is dropped, which waits, and all work is on one stream.
    let mut session = unsafe { Session::builder(SQUARE).input(0, &of(&slices[0])) }.build()?;
    for slice in &slices {
        // SAFETY: as above.
        unsafe { session.input(0).bind(&of(slice)) }?;
        // SAFETY: as above.
        unsafe { session.output(0).bind(&of(slice)) }?;
        session.run_on(caller.stream())?;
    }
    for (slice, data) in slices.iter().zip(&data) {
        let expected: Vec<f32> = data.iter().map(|x| x * x).collect();
        compare("in the place of the input", &caller.download(slice)?, &expected)?;
    }
    session.output(0).release()?;
    let mut time = |moving: bool| -> Done<f64> {
        let start = Instant::now();
        for round in 0..RUNS {
            let slice = &slices[if moving { round % slices.len() } else { 0 }];
            // SAFETY: as above.
            unsafe { session.input(0).bind(&of(slice)) }?;
            session.run_on(caller.stream())?;
        }
        let spent = start.elapsed().as_secs_f64() * 1e6 / RUNS as f64;
        session.wait()?;
        Ok(spent)
    };
    time(true)?;
    let (still, moving) = (time(false)?, time(true)?);
    let slots = [SlotTensor { side: IoSide::Input, position: 0, tensor: of(&slices[0]) }];
    let start = Instant::now();
    for round in 0..RUNS {
        let address = caller.address(&slices[round % slices.len()]);
        // SAFETY: as above.
        unsafe { session.run_at(caller.stream(), &slots, &[address]) }?;
    }
    let at = start.elapsed().as_secs_f64() * 1e6 / RUNS as f64;
    session.wait()?;
    println!("session: a run takes the host {still:.2} us, with a new address {moving:.2} us, by `run_at` {at:.2} us");
    Ok(())
}

/// Uses no tensors of the caller: data from the host, on the session's own stream.
fn own_memory() -> Done<()> {
    let data = numbers(M * K, 5);
    let mut host = HostTensor::zeros(DType::Float, &[M, K]);
    host.as_mut_slice::<f32>().copy_from_slice(&data);
    let mut session = Session::builder(SQUARE).shape("T0", &[M, K]).build()?;
    println!("session: {}", session.describe_platform());
    session.upload_whole("T0", &host)?;
    session.run()?;
    session.wait()?;
    let expected: Vec<f32> = data.iter().map(|x| x * x).collect();
    compare("data from the host", session.download_whole("T1")?.as_slice(), &expected)
}

/// Checks that a tensor that does not fit is refused, and that the session stays usable.
fn misuse(caller: &Caller) -> Done<()> {
    let slice = caller.upload(&numbers(M * K, 3))?;
    let fine = matrix(caller.address(&slice), [M, K], [K as i64, 1]);
    let mut session = Session::builder(SQUARE).shape("T0", &[M, K]).build()?;
    let code = |done: Result<(), hostir_cuda::session::Error>| done.err().map_or("", |e| e.code());
    let host = vec![0f32; M * K];
    let cases = [
        ("H0523", DeviceTensor { dtype: DType::Int32, ..fine.clone() }),
        ("H0524", matrix(fine.pointer, [M, K + 1], [K as i64, 1])),
        ("H0525", matrix(fine.pointer, [M, K], [-1, 1])),
        ("H0526", matrix(fine.pointer + 2, [M, K], [K as i64, 1])),
        ("H0526", matrix(fine.pointer, [M, K], [1 << 32, 1])),
        ("H0526", matrix(host.as_ptr() as u64, [M, K], [K as i64, 1])),
        ("H0526", matrix(16, [M, K], [K as i64, 1])),
    ];
    for (expected, tensor) in &cases {
        // SAFETY: none of these is bound: the driver does not know them to be such memory.
        let found = code(unsafe { session.input("T0").bind(tensor) });
        if found != *expected {
            return Err(format!("{expected} was expected of {tensor:?}, not `{found}`").into());
        }
    }
    let before = [code(session.run()), code(session.output("T1").download().map(|_| ()))];
    if before != ["H0527", "H0528"] {
        return Err(format!("an input without data gives {before:?}").into());
    }
    let streams = [caller.stream(), caller.stream()];
    // SAFETY: the slice lives until the end of this function, and the session is dropped before it.
    unsafe { session.input("T0").bind(&fine) }?;
    if code(session.run_on_all(&streams)) != "H0528" {
        return Err("two streams for one rank were taken".into());
    }
    session.run_on(caller.stream())?;
    session.wait()?;
    println!("session: what does not fit is refused");
    Ok(())
}

/// Two ranks of this process, each on a stream of the caller's on its device.
fn two_ranks() -> Done<()> {
    const COUNT: usize = 1000;
    let callers = [Caller::new(0)?, Caller::new(1)?];
    let parts = [numbers(COUNT, 1), numbers(COUNT, 2)];
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for (caller, part) in callers.iter().zip(&parts) {
        inputs.push(caller.upload(part)?);
        outputs.push(caller.upload(&vec![0.0; 2 * COUNT])?);
    }
    let of = |rank: usize| matrix(callers[rank].address(&inputs[rank]), [1, COUNT], [COUNT as i64, 1]);
    for graph in [false, true] {
        // SAFETY: whoever sets the variable says that it is NCCL.
        let nccl = std::env::var_os("HIR_NCCL_LIB").map(|path| unsafe { NcclFile::new(path) });
        let options = Options { graph, nccl, ..Options::default() };
        let builder = Session::builder(GATHER).options(options);
        // SAFETY: the slices live longer than the session, and all work on them is on the callers' streams.
        let builder = unsafe { builder.input_on(0, "T0", &of(0)) };
        // SAFETY: as above.
        let builder = unsafe { builder.input_on(1, "T0", &of(1)) };
        let mut session = builder.build()?;
        for (rank, (caller, output)) in callers.iter().zip(&outputs).enumerate() {
            let output = matrix(caller.address(output), [2, COUNT], [COUNT as i64, 1]);
            // SAFETY: as above.
            unsafe { session.output("T1").on(rank as u32).bind(&output) }?;
        }
        for _ in 0..3 {
            session.run_on_all(&[callers[0].stream(), callers[1].stream()])?;
        }
        for (rank, (caller, output)) in callers.iter().zip(&outputs).enumerate() {
            let what = format!("gathered on rank {rank}, graph: {graph}");
            compare(&what, &caller.download(output)?, &parts.concat())?;
        }
        session.wait()?;
    }
    Ok(())
}
