//! Sessions on stand-ins for GPUs, on memory and streams of a caller's: the numbers are those of plain loops.
#![allow(unsafe_code, reason = "sessions take addresses and streams of a caller's")]

#[path = "../../../src/cuda/tests/common/sessions.rs"]
mod programs;
#[path = "symmetric.rs"]
pub(super) mod symmetric;

use hostir::backend::control_plane::{ControlPlane, ControlPlaneError, ThreadControlPlane};
use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir_cuda::session::{
    Builder, CallerStream, DeviceTensor, Error, IoSide, Options, ParentCommunicator, Session, SlotTensor,
};
use hostir_fakes::DeviceCaller;
use hostir_test::out_of_tree::REGISTRIES;
use nccl_rs::{Config, Library, NcclCommunicator, UniqueId, WaitLimits};
use programs::{GATHER, PRODUCT, SQUARE, matrix, numbers, relu_of_product};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Done<T> = Result<T, String>;

/// Rows, columns of the result, and the length of the sums.
const M: usize = 12;
const N: usize = 16;
const K: usize = 8;
const COUNT: usize = 100;

/// A test and its name.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Done<()>,
}

/// All of them.
pub(super) const ALL: [Scenario; 13] = [
    Scenario { name: "one_after_the_other", run: || one_after_the_other(false) },
    Scenario { name: "one_after_the_other_recorded", run: || one_after_the_other(true) },
    Scenario { name: "memory_that_moves", run: memory_that_moves },
    Scenario { name: "runs_at_addresses", run: runs_at_addresses },
    Scenario { name: "data_from_the_host", run: data_from_the_host },
    Scenario { name: "misfits_are_refused", run: misfits_are_refused },
    Scenario { name: "two_ranks", run: || two_ranks(false) },
    Scenario { name: "two_ranks_recorded", run: || two_ranks(true) },
    Scenario { name: "split_off_the_callers", run: split_off_the_callers },
    Scenario { name: "recorded_by_the_caller", run: recorded_by_the_caller },
    Scenario { name: "recordings_that_are_refused", run: recordings_that_are_refused },
    Scenario { name: "ops_of_a_caller", run: ops_of_a_caller },
    Scenario { name: "a_recording_outlives_its_session", run: a_recording_outlives_its_session },
];

fn text(error: Error) -> String {
    error.to_string()
}

fn stream(caller: &DeviceCaller) -> CallerStream {
    // SAFETY: the stream is of the device's primary context, and nobody destroys it.
    unsafe { CallerStream::from_raw(caller.stream) }
}

/// A program with an input in memory of a caller's, which is never freed; all work on it is on one stream.
fn with_input(builder: Builder, rank: u32, name: &str, tensor: &DeviceTensor) -> Builder {
    // SAFETY: as above.
    unsafe { builder.input_on(rank, name, tensor) }
}

/// Binds an input, as [`with_input`].
fn bind_input(session: &mut Session, name: &str, tensor: &DeviceTensor) -> Result<(), Error> {
    // SAFETY: as above.
    unsafe { session.input(name).bind(tensor) }
}

/// Binds an output, as [`with_input`].
fn bind_output(session: &mut Session, rank: u32, name: &str, tensor: &DeviceTensor) -> Done<()> {
    // SAFETY: as above.
    unsafe { session.output(name).on(rank).bind(tensor) }.map_err(text)
}

fn compare(what: &str, found: &[f32], expected: &[f32]) -> Done<()> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}

/// One session's result, the middle of wider rows, is the other's input, by its columns.
fn one_after_the_other(graph: bool) -> Done<()> {
    let caller = DeviceCaller::new(0)?;
    let (a, b) = (numbers(M * K, 1), numbers(K * N, 2));
    let (x, y) = (caller.upload(&a)?, caller.upload(&b)?);
    let (wide, squares) = (caller.upload(&[7.0; M * (N + 8)])?, caller.upload(&[0.0; M * N])?);
    let columns = matrix(wide + 4 * 3, [M, N], [(N + 8) as i64, 1]);
    let turned = matrix(columns.pointer, [N, M], [1, (N + 8) as i64]);
    let options = Options { graph, ..Options::default() };
    let product = Session::builder(PRODUCT).options(options.clone());
    let product = with_input(product, 0, "T0", &matrix(x, [M, K], [K as i64, 1]));
    let product = with_input(product, 0, "T1", &matrix(y, [K, N], [N as i64, 1]));
    let square = with_input(Session::builder(SQUARE).options(options), 0, "T0", &turned);
    let (mut product, mut square) = (product.build().map_err(text)?, square.build().map_err(text)?);
    bind_output(&mut product, 0, "T4", &columns)?;
    bind_output(&mut square, 0, "T1", &matrix(squares, [N, M], [M as i64, 1]))?;
    for _ in 0..3 {
        product.run_on(stream(&caller)).map_err(text)?;
        square.run_on(stream(&caller)).map_err(text)?;
    }
    let expected = relu_of_product(&a, &b, [M, N, K]);
    let row = |at: usize| match at % (N + 8) {
        column @ 3.. if column < N + 3 => expected[at / (N + 8) * N + column - 3],
        _ => 7.0,
    };
    let rows: Vec<f32> = (0..M * (N + 8)).map(row).collect();
    compare("a product into columns", &caller.download(wide, M * (N + 8))?, &rows)?;
    let turned: Vec<f32> = (0..N * M).map(|at| expected[at % M * N + at / M].powi(2)).collect();
    compare("squares of its transpose", &caller.download(squares, N * M)?, &turned)?;
    let sums = product.output("T5").download().map_err(text)?;
    let twice: Vec<f32> = a.iter().map(|x| x + x).collect();
    compare("an output of the session's own", sums.as_slice(), &twice)?;
    product.wait().map_err(text)?;
    square.wait().map_err(text)
}

/// The op of docs/out-of-tree.md, which a session without it does not know.
fn ops_of_a_caller() -> Done<()> {
    let program = "hir 2\n\nscaled(A: f32[4], B: f32[4]) -> (C: f32[4]):\n  C = axpy(A, B, alpha=3)\n";
    if Session::builder(program).build().is_ok() {
        return Err("a session knows the op by itself".to_owned());
    }
    let mut session = Session::builder(program).ops(REGISTRIES.ops).build().map_err(text)?;
    for (name, data) in [("A", [1.0, 2.0, 3.0, 4.0]), ("B", [0.5, 0.0, -1.0, 8.0])] {
        let mut host = HostTensor::zeros(DType::Float, &[4]);
        host.as_mut_slice::<f32>().copy_from_slice(&data);
        session.upload_whole(name, &host).map_err(text)?;
    }
    session.run().map_err(text)?;
    session.wait().map_err(text)?;
    let found = session.download_whole("C").map_err(text)?;
    compare("3 A + B", found.as_slice(), &[3.5, 6.0, 8.0, 20.0])
}

/// Every run on other memory, and the result in the place of the input.
fn memory_that_moves() -> Done<()> {
    let caller = DeviceCaller::new(0)?;
    let data: Vec<Vec<f32>> = (0..4).map(|seed| numbers(M * K, seed)).collect();
    let places: Vec<u64> = data.iter().map(|data| caller.upload(data)).collect::<Done<_>>()?;
    let of = |place: u64| matrix(place, [M, K], [K as i64, 1]);
    let mut session = with_input(Session::builder(SQUARE), 0, "T0", &of(places[0])).build().map_err(text)?;
    for &place in &places {
        bind_input(&mut session, "T0", &of(place)).map_err(text)?;
        bind_output(&mut session, 0, "T1", &of(place))?;
        session.run_on(stream(&caller)).map_err(text)?;
    }
    for (place, data) in places.iter().zip(&data) {
        let expected: Vec<f32> = data.iter().map(|x| x * x).collect();
        compare("in the place of the input", &caller.download(*place, M * K)?, &expected)?;
    }
    session.output("T1").release().map_err(text)?;
    session.run_on(stream(&caller)).map_err(text)?;
    let last = session.output("T1").tensor().map_err(text)?;
    let expected: Vec<f32> = data[3].iter().map(|x| x * x * x * x).collect();
    compare("in memory of its own", &caller.download(last.pointer, M * K)?, &expected)?;
    session.input("T0").release().map_err(text)?;
    session.wait().map_err(text)
}

/// Runs at new addresses, in turn on two streams of the caller's and on the session's own: each reads what the one before
/// it wrote.
fn runs_at_addresses() -> Done<()> {
    let callers = [DeviceCaller::new(0)?, DeviceCaller::new(0)?];
    let data: Vec<f32> = (0..M * K).map(|at| (at % 4) as f32 - 1.0).collect();
    let mut places = vec![callers[0].upload(&data)?];
    for _ in 0..6 {
        places.push(callers[0].upload(&[0.0; M * K])?);
    }
    let shape = matrix(0, [M, K], [K as i64, 1]);
    let slot = |side| SlotTensor { side, position: 0, tensor: shape.clone() };
    let slots = [slot(IoSide::Input), slot(IoSide::Output)];
    let mut session = Session::builder(SQUARE).shape("T0", &[M, K]).build().map_err(text)?;
    let work = long_work(&callers[0])?;
    for step in 0..6 {
        if step % 3 == 0 {
            callers[0].launch(work)?;
        }
        let Some(caller) = callers.get(step % 3) else {
            bind_input(&mut session, "T0", &matrix(places[step], [M, K], [K as i64, 1])).map_err(text)?;
            bind_output(&mut session, 0, "T1", &matrix(places[step + 1], [M, K], [K as i64, 1]))?;
            session.run().map_err(text)?;
            continue;
        };
        // SAFETY: as of `with_input`.
        unsafe { session.run_at(stream(caller), &slots, &places[step..step + 2]) }.map_err(text)?;
    }
    // SAFETY: as above.
    let refused = unsafe { session.run_at(stream(&callers[0]), &slots, &places[..1]) };
    if refused.err().map_or("", |error| error.code()) != "H0528" {
        return Err("one address for two tensors is taken".to_owned());
    }
    session.wait().map_err(text)?;
    let expected: Vec<f32> = data.iter().map(|x| x.powi(64)).collect();
    compare("six squares", &callers[0].download(places[6], M * K)?, &expected)
}

/// A graph of so much work that its stream is still busy when the next calls ask.
fn long_work(caller: &DeviceCaller) -> Done<*mut std::ffi::c_void> {
    const RUNS: usize = 100;
    let of = |place: u64| matrix(place, [M, K], [K as i64, 1]);
    let places = [caller.upload(&numbers(M * K, 1))?, caller.upload(&numbers(M * K, 2))?];
    let options = Options { devices: vec![caller.device], ..Options::default() };
    let builder = Session::builder(SQUARE).options(options);
    let mut session = with_input(builder, 0, "T0", &of(places[0])).build().map_err(text)?;
    bind_output(&mut session, 0, "T1", &of(places[1]))?;
    caller.begin_capture()?;
    for _ in 0..RUNS {
        session.run_on(stream(caller)).map_err(text)?;
    }
    // What it records outlives the session.
    caller.end_capture()
}

/// No tensors of the caller's at all: data from the host, on the session's own stream.
fn data_from_the_host() -> Done<()> {
    let data = numbers(M * K, 5);
    let mut host = HostTensor::zeros(DType::Float, &[M, K]);
    host.as_mut_slice::<f32>().copy_from_slice(&data);
    let mut session = Session::builder(SQUARE).shape("T0", &[M, K]).build().map_err(text)?;
    session.upload_whole("T0", &host).map_err(text)?;
    session.run().map_err(text)?;
    session.wait().map_err(text)?;
    let expected: Vec<f32> = data.iter().map(|x| x * x).collect();
    let found = session.download_whole("T1").map_err(text)?;
    compare("data from the host", found.as_slice(), &expected)
}

/// What does not fit is refused, and the session goes on.
fn misfits_are_refused() -> Done<()> {
    let caller = DeviceCaller::new(0)?;
    let place = caller.upload(&numbers(M * K, 3))?;
    let fine = matrix(place, [M, K], [K as i64, 1]);
    let mut session = Session::builder(SQUARE).shape("T0", &[M, K]).build().map_err(text)?;
    let code = |done: Result<(), Error>| done.err().map_or("", |error| error.code());
    let host = vec![0f32; M * K];
    let cases = [
        ("H0523", DeviceTensor { dtype: DType::Int32, ..fine.clone() }),
        ("H0524", matrix(place, [M, K + 1], [K as i64, 1])),
        ("H0525", matrix(place, [M, K], [-1, 1])),
        ("H0526", matrix(place + 2, [M, K], [K as i64, 1])),
        ("H0526", matrix(place, [M, K], [1 << 32, 1])),
        ("H0526", matrix(host.as_ptr() as u64, [M, K], [K as i64, 1])),
        ("H0526", matrix(16, [M, K], [K as i64, 1])),
    ];
    for (expected, tensor) in &cases {
        let found = code(bind_input(&mut session, "T0", tensor));
        if found != *expected {
            return Err(format!("{expected} is expected of {tensor:?}, not `{found}`"));
        }
    }
    let before = [code(session.run()), code(session.output("T1").download().map(|_| ()))];
    if before != ["H0527", "H0528"] {
        return Err(format!("an input without data gives {before:?}"));
    }
    bind_input(&mut session, "T0", &fine).map_err(text)?;
    let streams = [stream(&caller), stream(&caller)];
    if code(session.run_on_all(&streams)) != "H0528" {
        return Err("two streams for one rank are taken".to_owned());
    }
    session.run_on(stream(&caller)).map_err(text)?;
    session.wait().map_err(text)
}

/// Two ranks of this process, each on a stream of the caller's on its device.
fn two_ranks(graph: bool) -> Done<()> {
    let callers = [DeviceCaller::new(0)?, DeviceCaller::new(1)?];
    let parts = [numbers(COUNT, 1), numbers(COUNT, 2)];
    let mut builder = Session::builder(GATHER).options(Options { graph, ..Options::default() });
    let mut outputs = Vec::new();
    for (rank, (caller, part)) in callers.iter().zip(&parts).enumerate() {
        let input = matrix(caller.upload(part)?, [1, COUNT], [COUNT as i64, 1]);
        builder = with_input(builder, rank as u32, "T0", &input);
        outputs.push(caller.upload(&[0.0; 2 * COUNT])?);
    }
    let mut session = builder.build().map_err(text)?;
    for (rank, output) in outputs.iter().enumerate() {
        let output = matrix(*output, [2, COUNT], [COUNT as i64, 1]);
        bind_output(&mut session, rank as u32, "T1", &output)?;
    }
    for _ in 0..3 {
        let streams = [stream(&callers[0]), stream(&callers[1])];
        session.run_on_all(&streams).map_err(text)?;
    }
    for (caller, output) in callers.iter().zip(&outputs) {
        compare("gathered", &caller.download(*output, 2 * COUNT)?, &parts.concat())?;
    }
    session.wait().map_err(text)
}

/// A session a rank, as processes have: their communicators are split off one of the caller's, which stays the caller's.
fn split_off_the_callers() -> Done<()> {
    let words = |error: nccl_rs::Error| error.to_string();
    // SAFETY: the stand-in, by NCCL's usual names.
    let library = unsafe { Library::open(None) }.map_err(words)?;
    let id = library.unique_id().map_err(words)?;
    let planes = ThreadControlPlane::new(2, Duration::from_secs(20));
    let results: Vec<Done<()>> = std::thread::scope(|scope| {
        let ranks = planes.into_iter().map(|plane| scope.spawn(|| gather_beside(&library, id, plane)));
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or(Err("a rank panicked".to_owned()))).collect()
    });
    results.into_iter().collect()
}

/// A control plane that notes its steps.
struct NotedSteps {
    plane: ThreadControlPlane,
    steps: Mutex<Vec<String>>,
}

impl ControlPlane for NotedSteps {
    fn rank(&self) -> u32 {
        self.plane.rank()
    }

    fn world_size(&self) -> u32 {
        self.plane.world_size()
    }

    fn host_name(&self) -> String {
        self.plane.host_name()
    }

    fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ControlPlaneError> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
        self.plane.all_gather(what, message)
    }

    fn report_failure(&self, why: &str) {
        self.plane.report_failure(why);
    }

    fn peer_failure(&self) -> Option<ControlPlaneError> {
        self.plane.peer_failure()
    }
}

/// One of these ranks.
fn gather_beside(library: &Arc<Library>, id: UniqueId, plane: ThreadControlPlane) -> Done<()> {
    let words = |error: nccl_rs::Error| error.to_string();
    let rank = plane.rank();
    let caller = DeviceCaller::new(rank as i32)?;
    let limits = WaitLimits { deadline: Instant::now() + Duration::from_secs(20), give_up: &|| false };
    let own = NcclCommunicator::init_rank(library, id, 2, rank, limits).map_err(words)?;
    // SAFETY: it is of the only NCCL here, and idle while the session is built.
    let parent = unsafe { ParentCommunicator::from_raw(own.as_raw()) };
    let noted = Arc::new(NotedSteps { plane, steps: Mutex::default() });
    let plane: Arc<dyn ControlPlane> = noted.clone();
    let options =
        Options { control_plane: Some(plane), device: Some(rank as usize), parent: Some(parent), ..Options::default() };
    let parts = [numbers(COUNT, 1), numbers(COUNT, 2)];
    let input = matrix(caller.upload(&parts[rank as usize])?, [1, COUNT], [COUNT as i64, 1]);
    let output = matrix(caller.upload(&[0.0; 2 * COUNT])?, [2, COUNT], [COUNT as i64, 1]);
    let mut session =
        with_input(Session::builder(GATHER).options(options), rank, "T0", &input).build().map_err(text)?;
    let steps = noted.steps.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !steps.iter().any(|step| step == "connect: parents") || steps.iter().any(|step| step == "connect: id") {
        return Err(format!("the ranks connected anew: {steps:?}"));
    }
    bind_output(&mut session, rank, "T1", &output)?;
    for _ in 0..3 {
        session.run_on(stream(&caller)).map_err(text)?;
    }
    session.wait().map_err(text)?;
    compare("gathered", &caller.download(output.pointer, 2 * COUNT)?, &parts.concat())?;
    drop(session);
    // What is split off it now is a communicator like any other.
    let again = own.split(Some(0), rank, 2, Config { blocking: true }, limits).map_err(words)?;
    match (again, own.in_progress("ncclCommGetAsyncError")) {
        (Some(_), Ok(false)) => Ok(()),
        (_, state) => Err(format!("the caller's communicator is lost: {state:?}")),
    }
}

/// Two runs in a graph of the caller's, one on what the other left, replayed with new data and beside issued runs.
fn recorded_by_the_caller() -> Done<()> {
    let caller = DeviceCaller::new(0)?;
    let place = caller.upload(&numbers(M * K, 1))?;
    let (first, second) = (caller.upload(&[0.0; M * K])?, caller.upload(&[0.0; M * 2 * K])?);
    let row_major = |place: u64| matrix(place, [M, K], [K as i64, 1]);
    // The second result is copied out of memory of the session's own.
    let columns = matrix(second, [M, K], [2 * K as i64, 1]);
    let mut session = with_input(Session::builder(SQUARE), 0, "T0", &row_major(place)).build().map_err(text)?;
    bind_output(&mut session, 0, "T1", &row_major(first))?;
    session.run_on(stream(&caller)).map_err(text)?;
    caller.begin_capture()?;
    session.run_on(stream(&caller)).map_err(text)?;
    if !session.is_recorded() || session.wait().err().map_or("", |error| error.code()) != "H0528" {
        return Err("an open recording can be waited for".to_owned());
    }
    bind_input(&mut session, "T0", &row_major(first)).map_err(text)?;
    bind_output(&mut session, 0, "T1", &columns)?;
    session.run_on(stream(&caller)).map_err(text)?;
    let graph = caller.end_capture()?;
    for seed in 2..6 {
        let data = numbers(M * K, seed);
        caller.write(place, &data)?;
        caller.launch(graph)?;
        let fourth: Vec<f32> = data.iter().map(|x| x * x * x * x).collect();
        let found = caller.download(second, M * 2 * K)?;
        let found: Vec<f32> = found.chunks(2 * K).flat_map(|row| row[..K].to_vec()).collect();
        compare("a replay", &found, &fourth)?;
        // A run that is issued, between replays and on the same stream.
        bind_input(&mut session, "T0", &row_major(second)).map_err(text)?;
        bind_output(&mut session, 0, "T1", &row_major(first))?;
        caller.write(second, &data)?;
        session.run_on(stream(&caller)).map_err(text)?;
        let squares: Vec<f32> = data.iter().map(|x| x * x).collect();
        compare("a run beside replays", &caller.download(first, M * K)?, &squares)?;
    }
    session.wait().map_err(text)?;
    if !session.is_complete().map_err(text)? {
        return Err("a run that was waited for is under way".to_owned());
    }
    caller.destroy(graph)?;
    match session.is_recorded() {
        true => Err("a graph that is gone holds the session".to_owned()),
        false => Ok(()),
    }
}

/// Runs that cannot be recorded are refused, and leaves recording and session as they were.
fn recordings_that_are_refused() -> Done<()> {
    let callers = [DeviceCaller::new(0)?, DeviceCaller::new(1)?];
    let own = matrix(callers[0].upload(&numbers(M * K, 1))?, [M, K], [K as i64, 1]);
    let options = Options { graph: true, ..Options::default() };
    let mut replaying = with_input(Session::builder(SQUARE).options(options), 0, "T0", &own).build().map_err(text)?;
    let mut builder = Session::builder(GATHER);
    for (rank, caller) in callers.iter().enumerate() {
        let part = matrix(caller.upload(&numbers(COUNT, rank))?, [1, COUNT], [COUNT as i64, 1]);
        builder = with_input(builder, rank as u32, "T0", &part);
    }
    let mut gather = builder.build().map_err(text)?;
    let mut plain = with_input(Session::builder(SQUARE), 0, "T0", &own).build().map_err(text)?;
    let other = DeviceCaller::new(0)?;
    callers[0].begin_capture()?;
    let refused = [
        ("a graph of its own", replaying.run_on(stream(&callers[0]))),
        ("several ranks", gather.run_on_all(&[stream(&callers[0]), stream(&callers[1])])),
    ];
    plain.run_on(stream(&callers[0])).map_err(text)?;
    let meanwhile = ("another stream", plain.run_on(stream(&other)));
    callers[0].end_capture()?;
    for (what, done) in refused.into_iter().chain([meanwhile]) {
        if done.err().map_or("", |error| error.code()) != "H0528" {
            return Err(format!("{what}: a run is recorded"));
        }
    }
    replaying.run_on(stream(&callers[0])).map_err(text)?;
    gather.run_on_all(&[stream(&callers[0]), stream(&callers[1])]).map_err(text)?;
    plain.run_on(stream(&other)).map_err(text)?;
    replaying.wait().and(gather.wait()).and(plain.wait()).map_err(text)
}

/// A graph may be replayed when the session that it recorded is gone.
fn a_recording_outlives_its_session() -> Done<()> {
    let caller = DeviceCaller::new(0)?;
    let place = caller.upload(&numbers(M * K, 1))?;
    let result = caller.upload(&[0.0; M * K])?;
    let of = |place: u64| matrix(place, [M, K], [K as i64, 1]);
    let mut session = with_input(Session::builder(SQUARE), 0, "T0", &of(place)).build().map_err(text)?;
    bind_output(&mut session, 0, "T1", &of(result))?;
    caller.begin_capture()?;
    session.run_on(stream(&caller)).map_err(text)?;
    let graph = caller.end_capture()?;
    drop(session);
    let data = numbers(M * K, 7);
    caller.write(place, &data)?;
    caller.launch(graph)?;
    let squares: Vec<f32> = data.iter().map(|x| x * x).collect();
    compare("a replay", &caller.download(result, M * K)?, &squares)?;
    caller.destroy(graph)
}
