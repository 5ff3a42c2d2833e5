//! Sessions on symmetric memory: the ranks' parts are memory of a caller's that all have mapped, and that the caller's own
//! work on its streams reads and writes between runs.
#![allow(unsafe_code, reason = "sessions take addresses and streams of a caller's")]

use super::{
    COUNT, Done, Scenario, bind_input, bind_output, compare, long_work, matrix, numbers, stream, text, with_input,
};
use super::{DeviceTensor, SQUARE};
use hostir::backend::control_plane::{ControlPlane, ThreadControlPlane};
use hostir::ir::DType;
use hostir_cuda::session::{IoSide, Options, Session, SymmetricTensor};
use hostir_cuda::{BackendTransports, CommTransport};
use hostir_fakes::DeviceCaller;
use std::sync::Arc;
use std::time::Duration;

const RANKS: usize = 2;
/// Rows, columns and the length of the sums of [`STORE`].
const M: usize = 4;
const N: usize = 8;
const K: usize = 6;

/// Each rank's product is stored in the other one's output.
const STORE: &str = "hir 2
mesh d = 0..2
store(A: f32[x:2, m, k], B: f32[k, n]) -> (Y: f32[x:2, m, n]) on d:
  P: f32[x:2, m, n] = alloc
  Y = alloc
  h = recv(Y, from=(rank + 1) % 2, via=CUDA, protocol=put)
  P = matmul(A, B)
  wait send(P, to=(rank + 1) % 2, via=CUDA, protocol=put)
  wait h
";

/// Each rank pushes its part into the other one's output, and pulls the other one's input: peers access both.
const EXCHANGE: &str = "hir 2
mesh d = 0..2
exchange(T0: f32[x:2, 100]) -> (T1: f32[2, 100]) on d:
  P: f32[1, 100] = alloc
  T1 = alloc
  T1[rank] = Set(T0[own])
  pushed = recv(T1[(rank + 1) % 2], from=(rank + 1) % 2, via=CUDA, protocol=put)
  wait send(T0[own], to=(rank + 1) % 2, via=CUDA, protocol=put)
  wait pushed
  shown = send(T0[own], to=(rank + 1) % 2, via=CUDA)
  wait recv(P[0], from=(rank + 1) % 2, via=CUDA)
  wait shown
";

/// A is pushed into the other rank's Y, and the other rank's B is pulled into Z: peers access B and Y, and not A and Z.
const OWN_ENDS: &str = "hir 2
mesh d = 0..2
own_ends(A: f32[x:2, 100], B: f32[x:2, 100]) -> (Y: f32[x:2, 100], Z: f32[x:2, 100]) on d:
  Y = alloc
  Z = alloc
  pushed = recv(Y, from=(rank + 1) % 2, via=CUDA, protocol=put)
  wait send(A, to=(rank + 1) % 2, via=CUDA, protocol=put)
  wait pushed
  shown = send(B, to=(rank + 1) % 2, via=CUDA)
  wait recv(Z, from=(rank + 1) % 2, via=CUDA)
  wait shown
";

/// All of them.
pub(crate) const ALL: [Scenario; 9] = [
    Scenario { name: "own_ends_move", run: || on_both(|rank| own_ends(rank, false)) },
    Scenario { name: "own_ends_move_recorded", run: || on_both(|rank| own_ends(rank, true)) },
    Scenario { name: "symmetric_runs", run: || on_both(|rank| runs(rank, false)) },
    Scenario { name: "symmetric_recorded_runs", run: || on_both(|rank| runs(rank, true)) },
    Scenario { name: "symmetric_gemm_at_a_peer", run: || on_both(gemm_at_a_peer) },
    Scenario { name: "symmetric_in_one_process", run: in_one_process },
    Scenario { name: "symmetric_but_misaligned", run: || on_both(misaligned) },
    Scenario { name: "symmetric_on_one_rank", run: || on_both(on_one_rank) },
    Scenario { name: "symmetric_elsewhere", run: || on_both(elsewhere) },
];

/// A rank that is a process of its own, as far as its session knows.
struct Rank {
    plane: Arc<ThreadControlPlane>,
    caller: DeviceCaller,
    number: usize,
}

/// Runs something as both ranks at once.
fn on_both(work: fn(Rank) -> Done<()>) -> Done<()> {
    let planes = ThreadControlPlane::new(RANKS as u32, Duration::from_secs(20));
    let results: Vec<Done<()>> = std::thread::scope(|scope| {
        let start = |plane: ThreadControlPlane| {
            scope.spawn(move || {
                let number = plane.rank() as usize;
                work(Rank { plane: Arc::new(plane), caller: DeviceCaller::new(number as i32)?, number })
            })
        };
        let ranks: Vec<_> = planes.into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or(Err("a rank panicked".to_owned()))).collect()
    });
    results.into_iter().collect()
}

impl Rank {
    /// New memory with these numbers, and its address and the peers' as this rank has them mapped.
    fn symmetric(&self, data: &[f32]) -> Done<(u64, Vec<u64>)> {
        let own = self.caller.upload(data)?;
        let handles = self.gather(&self.caller.share(own)?)?;
        let map = |(rank, handle): (usize, &Vec<u8>)| match rank == self.number {
            true => Ok(own),
            false => self.caller.open(handle.as_slice().try_into().map_err(|_| "a handle is cut")?),
        };
        Ok((own, handles.iter().enumerate().map(map).collect::<Done<_>>()?))
    }

    fn gather(&self, message: &[u8]) -> Done<Vec<Vec<u8>>> {
        self.plane.all_gather("test", message).map_err(|error| error.diag().message.to_string())
    }

    /// Records while the other rank waits: in the global mode other threads' calls spoil a recording, and fail.
    fn record<T>(&self, work: impl FnOnce() -> Done<T>) -> Done<T> {
        for _ in 0..=self.number {
            self.gather(&[])?;
        }
        let recorded = work();
        for _ in self.number..RANKS {
            self.gather(&[])?;
        }
        recorded
    }

    fn options(&self, symmetric: Vec<SymmetricTensor>) -> Options {
        let plane: Arc<dyn ControlPlane> = self.plane.clone();
        Options { control_plane: Some(plane), device: Some(self.number), ..copies(symmetric) }
    }

    /// A session of [`EXCHANGE`] on these tensors.
    fn gather_session(
        &self,
        own: [u64; 2],
        symmetric: Vec<SymmetricTensor>,
    ) -> Result<Session, hostir_cuda::session::Error> {
        let builder = Session::builder(EXCHANGE).options(self.options(symmetric));
        let mut session = with_input(builder, self.number as u32, "T0", &part(own[0])).build()?;
        // SAFETY: memory that is never freed.
        unsafe { session.output("T1").bind(&whole(own[1])) }?;
        Ok(session)
    }
}

fn copies(symmetric: Vec<SymmetricTensor>) -> Options {
    let routes = BackendTransports { nccl: CommTransport::Copies, ..BackendTransports::default() };
    Options { routes, symmetric, ..Options::default() }
}

fn symmetric_tensor(side: IoSide, position: usize, addresses: &[u64]) -> SymmetricTensor {
    // SAFETY: memory that is never freed, and that only work on the ranks' streams uses.
    unsafe { SymmetricTensor::new(side, position, addresses.to_vec()) }
}

fn part(address: u64) -> DeviceTensor {
    matrix(address, [1, COUNT], [COUNT as i64, 1])
}

fn whole(address: u64) -> DeviceTensor {
    matrix(address, [RANKS, COUNT], [COUNT as i64, 1])
}

/// A session of the rank's own that sets `to` to the squares of `from`.
fn squares(rank: &Rank, from: u64, to: u64) -> Done<Session> {
    let options = Options { devices: vec![rank.number], ..Options::default() };
    let builder = Session::builder(SQUARE).options(options);
    let mut session = with_input(builder, 0, "T0", &part(from)).build().map_err(text)?;
    bind_output(&mut session, 0, "T1", &part(to))?;
    Ok(session)
}

/// Squares of numbers are written into the symmetric input before each run, and overwritten right after it, while the
/// ranks are late in turn: a peer that read too early or too late would find other numbers.
fn runs(rank: Rank, recorded: bool) -> Done<()> {
    let (input, inputs) = rank.symmetric(&[0.5; COUNT])?;
    let (output, outputs) = rank.symmetric(&[0.5; RANKS * COUNT])?;
    let both = vec![symmetric_tensor(IoSide::Input, 0, &inputs), symmetric_tensor(IoSide::Output, 0, &outputs)];
    let mut session = rank.gather_session([input, output], both).map_err(text)?;
    if session.symmetric_slots() != [(IoSide::Input, 0), (IoSide::Output, 0)] {
        return Err(format!("in place are {:?}", session.symmetric_slots()));
    }
    // To check addresses changes nothing.
    compare("the input", &rank.caller.download(input, COUNT)?, &[0.5; COUNT])?;
    compare("the output", &rank.caller.download(output, RANKS * COUNT)?, &[0.5; RANKS * COUNT])?;
    let at = |session: &mut Session| session.run_on(stream(&rank.caller)).map_err(text);
    let data = rank.caller.upload(&[0.0; COUNT])?;
    let other = rank.caller.upload(&[3.0; COUNT])?;
    let (mut before, mut after) = (squares(&rank, data, input)?, squares(&rank, other, input)?);
    let work = rank.record(|| long_work(&rank.caller))?;
    // The first run allocates what later ones record.
    for session in [&mut before, &mut session, &mut after] {
        at(session)?;
    }
    let graph = match recorded {
        true => Some(rank.record(|| {
            rank.caller.begin_capture()?;
            for session in [&mut before, &mut session, &mut after] {
                at(session)?;
            }
            rank.caller.end_capture()
        })?),
        false => None,
    };
    for round in 0..6 {
        rank.caller.write(data, &numbers(COUNT, 10 * round + rank.number))?;
        if round % RANKS == rank.number {
            rank.caller.launch(work)?;
        }
        match graph {
            Some(graph) => rank.caller.launch(graph)?,
            None => {
                for session in [&mut before, &mut session, &mut after] {
                    at(session)?;
                }
            }
        }
        let gathered = (0..RANKS).flat_map(|other| numbers(COUNT, 10 * round + other)).map(|x| x * x);
        let found = rank.caller.download(output, RANKS * COUNT)?;
        compare(&format!("round {round}"), &found, &gathered.collect::<Vec<f32>>())?;
        // The caller's own work on the output is ordered with the peers' by nothing but the runs.
        rank.caller.write(output, &[0.25; RANKS * COUNT])?;
    }
    let moved = bind_output(&mut session, rank.number as u32, "T1", &whole(other));
    match moved {
        Err(error) if error.contains("H0536") => session.wait().map_err(text),
        other => Err(format!("another address than the peers have is taken: {other:?}")),
    }
}

/// Tensors that are not symmetric, at other addresses in each run, on ranks that are late in turn. What was bound before has
/// other numbers by then: nothing reads or writes there.
fn own_ends(rank: Rank, graph: bool) -> Done<()> {
    let upload = |seed: usize| rank.caller.upload(&numbers(COUNT, seed));
    let sets: Vec<[u64; 4]> =
        (0..3).map(|set| Ok([upload(set)?, upload(set)?, upload(set)?, upload(set)?])).collect::<Done<_>>()?;
    let options = Options { graph, ..rank.options(Vec::new()) };
    let own = rank.number as u32;
    let builder = with_input(Session::builder(OWN_ENDS).options(options), own, "A", &part(sets[0][0]));
    let mut session = with_input(builder, own, "B", &part(sets[0][1])).build().map_err(text)?;
    let work = rank.record(|| long_work(&rank.caller))?;
    for round in 0..9 {
        let [a, b, y, z] = sets[round % sets.len()];
        for (name, address) in [("A", a), ("B", b)] {
            bind_input(&mut session, name, &part(address)).map_err(text)?;
        }
        for (name, address) in [("Y", y), ("Z", z)] {
            bind_output(&mut session, own, name, &part(address))?;
        }
        rank.caller.write(a, &numbers(COUNT, 10 * round + rank.number))?;
        rank.caller.write(b, &numbers(COUNT, 10 * round + 5 + rank.number))?;
        if round % RANKS == rank.number {
            rank.caller.launch(work)?;
        }
        session.run_on(stream(&rank.caller)).map_err(text)?;
        let other = 10 * round + 1 - rank.number;
        for (what, address, seed) in [("Y", y, other), ("Z", z, other + 5)] {
            compare(
                &format!("{what} in round {round}"),
                &rank.caller.download(address, COUNT)?,
                &numbers(COUNT, seed),
            )?;
        }
        for address in [a, b, y, z] {
            rank.caller.write(address, &[0.25; COUNT])?;
        }
        // What the round before had stays as it was left.
        if round > 0 {
            for address in sets[(round - 1) % sets.len()] {
                compare("what was bound before", &rank.caller.download(address, COUNT)?, &[0.25; COUNT])?;
            }
        }
    }
    session.wait().map_err(text)
}

/// A GEMM stores in the peer's symmetric output. While the session is prepared GEMMs run, and leave the output alone.
fn gemm_at_a_peer(rank: Rank) -> Done<()> {
    let a = |rank: usize| numbers(M * K, rank + 1);
    let b = numbers(K * N, 5);
    let (output, outputs) = rank.symmetric(&[0.5; M * N])?;
    let three = |address: u64, rows: usize, columns: usize| {
        DeviceTensor::contiguous(address, DType::Float, &[1, rows, columns])
    };
    let options = rank.options(vec![symmetric_tensor(IoSide::Output, 0, &outputs)]);
    let builder = Session::builder(STORE).options(options);
    let builder = with_input(builder, rank.number as u32, "A", &three(rank.caller.upload(&a(rank.number))?, M, K));
    let weights = matrix(rank.caller.upload(&b)?, [K, N], [N as i64, 1]);
    let mut session = with_input(builder, rank.number as u32, "B", &weights).build().map_err(text)?;
    if session.symmetric_slots() != [(IoSide::Output, 0)] {
        return Err(format!("in place are {:?}", session.symmetric_slots()));
    }
    rank.gather(&[])?;
    compare("before the first run", &rank.caller.download(output, M * N)?, &[0.5; M * N])?;
    rank.gather(&[])?;
    session.run_on(stream(&rank.caller)).map_err(text)?;
    let others = a((rank.number + 1) % RANKS);
    let element = |at: usize| (0..K).map(|k| others[at / N * K + k] * b[k * N + at % N]).sum::<f32>();
    compare("the peer's product", &rank.caller.download(output, M * N)?, &(0..M * N).map(element).collect::<Vec<_>>())?;
    session.wait().map_err(text)
}

/// Ranks of one process have the same addresses.
fn in_one_process() -> Done<()> {
    let callers = [DeviceCaller::new(0)?, DeviceCaller::new(1)?];
    let parts = [numbers(COUNT, 1), numbers(COUNT, 2)];
    let inputs = [callers[0].upload(&parts[0])?, callers[1].upload(&parts[1])?];
    let outputs = [callers[0].upload(&[0.0; 2 * COUNT])?, callers[1].upload(&[0.0; 2 * COUNT])?];
    let both = vec![symmetric_tensor(IoSide::Input, 0, &inputs), symmetric_tensor(IoSide::Output, 0, &outputs)];
    let mut session =
        Session::builder(EXCHANGE).shape("T0", &[RANKS, COUNT]).options(copies(both)).build().map_err(text)?;
    // Symmetric memory is bound already.
    let found = session.output("T1").on(1).tensor().map_err(text)?;
    if found.pointer != outputs[1] || session.symmetric_slots().len() != 2 {
        return Err(format!("the output lies at {:#x}", found.pointer));
    }
    for _ in 0..3 {
        session.run_on_all(&[stream(&callers[0]), stream(&callers[1])]).map_err(text)?;
    }
    for (caller, output) in callers.iter().zip(outputs) {
        compare("gathered", &caller.download(output, 2 * COUNT)?, &parts.concat())?;
    }
    session.wait().map_err(text)?;
    let few = vec![symmetric_tensor(IoSide::Input, 0, &inputs[..1])];
    let refused = Session::builder(EXCHANGE).shape("T0", &[RANKS, COUNT]).options(copies(few)).build();
    match refused.err().map_or("", |error| error.code()) {
        "H0528" => Ok(()),
        code => Err(format!("one address for two ranks gives `{code}`")),
    }
}

/// One rank's part is not aligned: on all ranks copies take the place of it.
fn misaligned(rank: Rank) -> Done<()> {
    let shift = 4 * rank.number;
    let data = numbers(COUNT, rank.number);
    let padded = [vec![0.0; shift], data].concat();
    let (start, starts) = rank.symmetric(&padded)?;
    let addresses: Vec<u64> = starts.iter().enumerate().map(|(rank, start)| start + 16 * rank as u64).collect();
    let output = rank.caller.upload(&[0.0; RANKS * COUNT])?;
    let input = vec![symmetric_tensor(IoSide::Input, 0, &addresses)];
    let own = [start + 4 * shift as u64, output];
    let mut session = rank.gather_session(own, input).map_err(text)?;
    if !session.symmetric_slots().is_empty() {
        return Err("memory that is not aligned is used in place".to_owned());
    }
    session.run_on(stream(&rank.caller)).map_err(text)?;
    let gathered = [numbers(COUNT, 0), numbers(COUNT, 1)].concat();
    compare("gathered by copies", &rank.caller.download(output, RANKS * COUNT)?, &gathered)?;
    session.wait().map_err(text)
}

/// Only one rank's tensor is said to be symmetric: both are told.
fn on_one_rank(rank: Rank) -> Done<()> {
    let (input, inputs) = rank.symmetric(&numbers(COUNT, rank.number))?;
    let output = rank.caller.upload(&[0.0; RANKS * COUNT])?;
    let named = if rank.number == 0 { vec![symmetric_tensor(IoSide::Input, 0, &inputs)] } else { Vec::new() };
    expect_code(rank.gather_session([input, output], named), &["H0536"])
}

/// Rank 0 has mapped another tensor of rank 1's than rank 1 passes: both are told, and the numbers are as before.
fn elsewhere(rank: Rank) -> Done<()> {
    let data = numbers(COUNT, rank.number);
    let (first, mut firsts) = rank.symmetric(&data)?;
    let (_, others) = rank.symmetric(&data)?;
    if rank.number == 0 {
        firsts[1] = others[1];
    }
    let output = rank.caller.upload(&[0.0; RANKS * COUNT])?;
    let session = rank.gather_session([first, output], vec![symmetric_tensor(IoSide::Input, 0, &firsts)]);
    expect_code(session, &[["H0536"], ["H0530"]][rank.number])?;
    compare("the input", &rank.caller.download(first, COUNT)?, &data)
}

fn expect_code(built: Result<Session, hostir_cuda::session::Error>, codes: &[&str]) -> Done<()> {
    let code = built.err().map_or("none", |error| error.code());
    if codes.contains(&code) { Ok(()) } else { Err(format!("{codes:?} is expected, not `{code}`")) }
}
