//! The library in one process for each rank: its own [`ControlPlane`], and runs with data that changes.
//!
//! The first process starts one for each rank and passes their messages on over pipes; a program under MPI or
//! `torch.distributed` would use what it has. Each rank loads the same program, whose messages are copies, and runs it
//! a hundred times with new data each time, as calls and as a replayed graph, with small data (kernels send it) and
//! large data (copy engines do), every other time twice in a row. Only the program's own semaphores keep the ranks in
//! step between two runs: runs of a [`Bound`] program have no barrier. The example compares every number with the data
//! of the other ranks.
//!
//! `cargo run --release --example processes [RANKS]`, 2 ranks by default. Ranks may share GPUs. The exit status is 0 on
//! success, 1 on failure, and 3 without a GPU.
//!
//! `... processes 2 drops` and `... processes 3 gives-up` show how failures end: [`failing`].

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use hostir::backend::control_plane::{ControlPlane, ControlPlaneError};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::DType;
use hostir::lower::{SizeSettings, prepare_program};
use hostir_cuda::{BackendTransports, BoundProgram, CommTransport, CudaRuntime, Options};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

type Done<T> = Result<T, Box<dyn Error>>;

/// Runs of each program.
const RUNS: usize = 100;
/// Elements of a rank's shard: 4 KiB, and 5 MiB.
const COUNTS: [usize; 2] = [1 << 10, 5 << 18];
/// Set for the processes of ranks: `rank/world/mode`.
const RANK: &str = "HIR_EXAMPLE_RANK";

/// `T1` is the left neighbour's shard of `T0`, `T2` all shards, `T3` the sum of all shards.
fn program(world: usize, count: usize, protocol: &str) -> String {
    let ranks: Vec<String> = (0..world).map(|rank| rank.to_string()).collect();
    let ranks = ranks.join(" ");
    let part = format!("ideviceIdx.x0{{{world}}}, iS1{{{count}}}");
    let left = world - 1;
    let posts = [
        format!(
            "  P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank + 1 ) % {world} ), backend=CUDA, protocol={protocol})"
        ),
        format!(
            "  P2PCommunication 2 (type=recv, buffer=T1, peer=( ( rank + {left} ) % {world} ), backend=CUDA, protocol={protocol})"
        ),
    ];
    // The side that signals its ready semaphore comes first.
    let [first, second] = if protocol == "get" { [0, 1] } else { [1, 0] };
    format!(
        "%HostIrContainer {{ (T0_g_float[{part}] (DeviceMesh{{{ranks}}})) -> (T1_g_float[ideviceIdx.x2{{{world}}}, iS3{{{count}}}] (DeviceMesh{{{ranks}}}), T2_g_float[iS4{{{world}}}, iS5{{{count}}}] (DeviceMesh{{{ranks}}}), T3_g_float[rdeviceIdx.x6{{{world}}}, iS7{{{count}}}] (DeviceMesh{{{ranks}}})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size={all}, zero_init=false, resets_to_zero=false)
  T2 = ALLOCATE(buffer=T2, mem_type=global, size={all}, zero_init=false, resets_to_zero=false)
  T3 = ALLOCATE(buffer=T3, mem_type=global, size={count}, zero_init=false, resets_to_zero=false)
{}
{}
  Wait Communication {}
  Wait Communication {}
  Communication 3 (type=Allgather, team=({ranks}), input=T0, output=T2, backend=CUDA)
  Wait Communication 3
  Communication 4 (type=Allreduce, team=({ranks}), red_op=sum, input=T0, output=T3, backend=CUDA)
  Wait Communication 4
}} // %HostIrContainer
",
        posts[first],
        posts[second],
        second + 1,
        first + 1,
        all = world * count,
    )
}

/// An element of a rank's input: a whole number, so that sums are exact.
fn element(rank: usize, run: usize, at: usize) -> f32 {
    ((at + 31 * rank + 7 * run) % 1009) as f32
}

fn main() -> ExitCode {
    let done = match std::env::var(RANK) {
        Ok(place) => rank(&place),
        Err(_) => match hostir_cuda::device_count() {
            Ok(1..) => first(),
            _ => {
                eprintln!("processes: there is no GPU; this example needs one");
                return ExitCode::from(3);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("processes: {error}");
            ExitCode::FAILURE
        }
    }
}

// ---- the first process ----

/// Starts a process for each rank, and passes messages on until all have ended.
fn first() -> Done<()> {
    let world: usize = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let mode = std::env::args().nth(2).unwrap_or_default();
    if world < 2 {
        return Err("two ranks or more exchange something".into());
    }
    let mut children = Vec::new();
    for rank in 0..world {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(RANK, format!("{rank}/{world}/{mode}")).env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
        children.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    }
    let passed = pass_on(&mut children);
    let mut failed = 0;
    for child in &mut children {
        if passed.is_err() {
            // Ranks that wait for the failed one would wait for a minute.
            let _ = child.kill();
        }
        failed += usize::from(!child.wait()?.success());
    }
    passed?;
    if failed > 0 {
        return Err(format!("{failed} of {world} ranks failed").into());
    }
    match mode.as_str() {
        "" => println!("processes: {world} ranks, all numbers are right"),
        mode => println!("processes: {world} ranks, {mode}: all failures end"),
    }
    Ok(())
}

/// Gathers a message of every rank and sends all of them to each, until the ranks end. Ends with an error as soon as
/// one fails.
fn pass_on(children: &mut [Child]) -> Done<()> {
    let (heard, messages) = mpsc::channel();
    let mut pipes = Vec::new();
    for (rank, child) in children.iter_mut().enumerate() {
        pipes.push(child.stdin.take().ok_or("a process without a pipe")?);
        let mut from = child.stdout.take().ok_or("a process without a pipe")?;
        let heard = heard.clone();
        std::thread::spawn(move || {
            while let Ok(Some(message)) = receive(&mut from) {
                let _ = heard.send((rank, Some(message)));
            }
            let _ = heard.send((rank, None));
        });
    }
    let mut round: BTreeMap<usize, Option<Vec<u8>>> = BTreeMap::new();
    for (rank, message) in messages {
        if message.is_none() && !children[rank].wait()?.success() {
            return Err(format!("rank {rank} failed").into());
        }
        round.insert(rank, message);
        let ended = round.values().filter(|message| message.is_none()).count();
        if ended > 0 && ended < round.len() {
            return Err("a rank ended before the others".into());
        }
        if round.len() < pipes.len() {
            continue;
        }
        let Some(all) = std::mem::take(&mut round).into_values().collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        for to in &mut pipes {
            all.iter().try_for_each(|message| send(to, message))?;
        }
    }
    Ok(())
}

/// A message with its length in front.
fn send(to: &mut impl Write, message: &[u8]) -> std::io::Result<()> {
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(message)?;
    to.flush()
}

/// The next message; none at the end.
fn receive(from: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let mut message = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut message)?;
    Ok(Some(message))
}

// ---- the processes of the ranks ----

/// All ranks' messages go through the first process, over standard input and output.
struct Pipes {
    rank: u32,
    world: u32,
    /// One thread at a time.
    turn: Mutex<()>,
    /// True if failures of this process are not reported to the others.
    silent: bool,
}

impl ControlPlane for Pipes {
    fn rank(&self) -> u32 {
        self.rank
    }
    fn world_size(&self) -> u32 {
        self.world
    }
    fn host_name(&self) -> String {
        "here".to_owned()
    }
    fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ControlPlaneError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |how: String| ControlPlaneError::Lost { rank: 0, how: format!("{how}, in `{what}`") };
        send(&mut std::io::stdout(), message).map_err(|error| lost(error.to_string()))?;
        let next = |_| match receive(&mut std::io::stdin()) {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(lost("the pipe is closed".to_owned())),
            Err(error) => Err(lost(error.to_string())),
        };
        (0..self.world).map(next).collect()
    }
    fn report_failure(&self, why: &str) {
        if self.silent {
            return;
        }
        // The first process sees that this one ends, and ends the others.
        eprintln!("processes: rank {} gives up: {why}", self.rank);
        std::process::exit(1);
    }
    fn peer_failure(&self) -> Option<ControlPlaneError> {
        None
    }
}

fn rank(place: &str) -> Done<()> {
    let mut parts = place.split('/');
    let mut next = || parts.next().ok_or("rank/world/mode");
    let (rank, world, mode) = (next()?.parse::<usize>()?, next()?.parse::<usize>()?, next()?);
    let (turn, silent) = (Mutex::new(()), !mode.is_empty());
    let control_plane: Arc<dyn ControlPlane> = Arc::new(Pipes { rank: rank as u32, world: world as u32, turn, silent });
    // Ranks may be more than GPUs.
    let device = Some(rank % hostir_cuda::device_count()?);
    let routes = BackendTransports { nccl: CommTransport::Copies, ..BackendTransports::default() };
    // Clones of these options share the resources that are slow to make.
    let common = Options { control_plane: Some(control_plane.clone()), device, routes, ..Options::default() };
    match mode {
        "drops" => return failing::drops(rank, common, control_plane.as_ref()),
        "gives-up" => return failing::gives_up(rank, common, control_plane.as_ref()),
        _ => {}
    }
    for graph in [false, true] {
        for protocol in ["get", "put"] {
            for count in COUNTS {
                let options = Options { graph, ..common.clone() };
                runs(rank, world, count, protocol, options)
                    .map_err(|error| format!("{protocol}, {count} elements, graph: {graph}: {error}"))?;
            }
        }
    }
    Ok(())
}

/// The first of these errors.
fn reported(diags: &[Diag]) -> String {
    diags.first().map_or_else(String::new, |diag| format!("{}: {}", diag.code, diag.message))
}

/// Loads the program and runs it with new data a hundred times.
fn runs(rank: usize, world: usize, count: usize, protocol: &str, options: Options) -> Done<()> {
    let (programs, diags) = hostir::load(&program(world, count, protocol));
    if !diags.is_empty() {
        return Err(reported(&diags.items).into());
    }
    let prepared = prepare_program(&programs[0], &SizeSettings::default()).map_err(|diags| reported(&diags.items))?;
    let mut bound: BoundProgram<'_> =
        CudaRuntime { options }.load_unbound(&prepared).map_err(|diags| reported(&diags))?;
    let own = rank as u32;
    for run in 0..RUNS {
        let mut input = HostTensor::zeros(DType::Float, &[1, count]);
        let elements = input.as_mut_slice().iter_mut().enumerate();
        elements.for_each(|(at, value)| *value = element(rank, run, at));
        bound.upload_input(own, 0, &input).map_err(|diags| reported(&diags))?;
        for _ in 0..1 + run % 2 {
            bound.enqueue_run(&[]).map_err(|diags| reported(&diags))?;
        }
        let left = |at: usize| element((rank + world - 1) % world, run, at);
        let all = |at: usize| element(at / count, run, at % count);
        let sum = |at: usize| (0..world).map(|other| element(other, run, at)).sum();
        let expected: [&dyn Fn(usize) -> f32; 3] = [&left, &all, &sum];
        for (output, expected) in expected.into_iter().enumerate() {
            let got = bound.download_output(own, output).map_err(|diags| reported(&diags))?;
            let got = got.ok_or("an output is missing")?;
            let (name, got) = (output + 1, got.as_slice::<f32>());
            if let Some(at) = (0..got.len()).find(|&at| got[at] != expected(at)) {
                let (is, should) = (got[at], expected(at));
                return Err(format!("run {run}, rank {rank}: element {at} of T{name} is {is}, not {should}").into());
            }
        }
    }
    Ok(())
}

/// Tests of failures. The processes learn of each other's failures only through the library's state on devices.
mod failing {
    use super::{BoundProgram, ControlPlane, CudaRuntime, Done, Options, reported};
    use hostir::data::HostTensor;
    use hostir::ir::DType;
    use hostir::lower::{SizeSettings, prepare_program};
    use std::time::{Duration, Instant};

    /// Rounds of [`drops`].
    const ROUNDS: usize = 100;
    /// The time within which a program must end after a failure.
    const MOST: Duration = Duration::from_secs(2);

    /// Rank 1 gets rank 0's part.
    const SEND: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{1024}] (DeviceMesh{0 1})) -> (T1_g_float[ideviceIdx.x2{2}, iS3{1024}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=2048, zero_init=false, resets_to_zero=false)
  P2PCommunication 1 (type=send, buffer=T0, peer=( 1 - rank ), backend=CUDA)
  P2PCommunication 2 (type=recv, buffer=T1, peer=( 1 - rank ), backend=CUDA)
  Wait Communication 2
  Wait Communication 1
} // %HostIrContainer
";

    /// Rank 2's shard goes to rank 0, and from there to rank 1.
    const CHAIN: &str = "%HostIrContainer { (T0_g_float[iS0{1024}] (DeviceMesh{2})) -> (T2_g_float[iS2{1024}] (DeviceMesh{1})) :
  T1_g_float[iS1{1024}] (DeviceMesh{0}) = ALLOCATE(buffer=T1_g_float[iS1{1024}] (DeviceMesh{0}), mem_type=global, size=1024, zero_init=false, resets_to_zero=false)
  T2_g_float[iS2{1024}] (DeviceMesh{1}) = ALLOCATE(buffer=T2_g_float[iS2{1024}] (DeviceMesh{1}), mem_type=global, size=1024, zero_init=false, resets_to_zero=false)
  Communication 0 (type=SendRecv, team=(2 0), root=2, input=T0, output=T1, backend=CUDA)
  Wait Communication 0
  Communication 1 (type=SendRecv, team=(0 1), root=0, input=T1, output=T2, backend=CUDA)
  Wait Communication 1
} // %HostIrContainer
";

    /// Loads a program on all ranks, runs it on some, and waits for these with a time limit.
    fn tried(
        (text, shape): (&str, &[usize]),
        options: Options,
        (rank, runs): (usize, bool),
        control_plane: &dyn ControlPlane,
    ) -> Done<(Result<(), String>, [Duration; 2])> {
        let (programs, _) = hostir::load(text);
        let prepared =
            prepare_program(&programs[0], &SizeSettings::default()).map_err(|diags| reported(&diags.items))?;
        let mut bound: BoundProgram<'_> =
            CudaRuntime { options }.load_unbound(&prepared).map_err(|diags| reported(&diags))?;
        let input = HostTensor::zeros(DType::Float, shape);
        bound.upload_input(rank as u32, 0, &input).map_err(|diags| reported(&diags))?;
        control_plane.all_gather("ready", &[]).map_err(|error| reported(&[error.diag()]))?;
        let (start, mut done) = (Instant::now(), Ok(()));
        if runs {
            done = bound.enqueue_run(&[]).and_then(|()| bound.wait()).map_err(|diags| reported(&diags));
        }
        if done.is_err() {
            let again = bound.wait().err().map_or_else(String::new, |diags| reported(&diags));
            if !again.starts_with("H0529") {
                return Err(format!("a second wait after a failure says `{again}`").into());
            }
        }
        let waited = start.elapsed();
        let start = Instant::now();
        if runs {
            drop(bound);
            let spent = [waited, start.elapsed()];
            control_plane.all_gather("dropped", &[]).map_err(|error| reported(&[error.diag()]))?;
            return Ok((done, spent));
        }
        // Other ranks have parts of its memory open until they are done.
        control_plane.all_gather("dropped", &[]).map_err(|error| reported(&[error.diag()]))?;
        Ok((done, [Duration::ZERO; 2]))
    }

    /// Rank 1 does not run, so rank 0 reaches its time limit: each wait is an error, and the program is dropped at
    /// once.
    pub(super) fn drops(rank: usize, options: Options, control_plane: &dyn ControlPlane) -> Done<()> {
        let mut longest = [Duration::ZERO; 2];
        for round in 0..ROUNDS {
            let graph = round % 2 == 1;
            let timeout = Duration::from_millis(if rank == 0 { 50 } else { 60_000 });
            let options = Options { graph, timeout, ..options.clone() };
            let (done, spent) = tried((SEND, &[1, 1024]), options, (rank, rank == 0), control_plane)?;
            for (most, spent) in longest.iter_mut().zip(spent) {
                *most = spent.max(*most);
            }
            if rank == 0 && (done.is_ok() || spent.iter().any(|spent| *spent > MOST)) {
                return Err(format!("round {round}: {done:?}, waited and dropped in {spent:?}").into());
            }
        }
        if rank == 0 {
            eprintln!("processes: {ROUNDS} failures, waited and dropped in at most {longest:?}");
        }
        Ok(())
    }

    /// Rank 2 does not run. Rank 0 gives up first and sends on data that never came; rank 1, which waits longer, must
    /// not take that for a result.
    pub(super) fn gives_up(rank: usize, options: Options, control_plane: &dyn ControlPlane) -> Done<()> {
        for graph in [false, true] {
            let timeout = Duration::from_secs(if rank == 0 { 1 } else { 10 });
            let options = Options { graph, timeout, ..options.clone() };
            let (done, spent) = tried((CHAIN, &[1024]), options, (rank, rank != 2), control_plane)?;
            let expected = match rank {
                0 => "H0511: the run did not finish within 1000 ms",
                1 => "H0530: rank 0 aborted before the run of rank 1 had finished",
                _ => continue,
            };
            let error = done.err().unwrap_or_default();
            if !error.starts_with(expected) || spent[1] > MOST {
                return Err(format!("rank {rank} says `{error}`, dropped in {spent:?}").into());
            }
        }
        Ok(())
    }
}
