//! Sessions that fail, in a process with a driver whose devices wait for what never comes (`driver.c`): every call
//! comes back, and a session that is dropped is gone in time, whether its devices let go or not.
#![allow(unsafe_code, reason = "a caller's memory is bound, and a store of kernels is the caller's promise")]

use crate::site::{self, Site, run};
use crate::{needs, stand_in};
use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir::lower::{SizeSettings, prepare_program};
use hostir_cuda::CudaRuntime;
use hostir_cuda::session::{DeviceTensor, ImageStore, Options, Session};
use libtest_mimic::Trial;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set in the process that has the driver: its task.
const CHILD: &str = "HIR_TEARDOWN";
/// The time that may pass until a failed session is gone.
const MOST: Duration = Duration::from_secs(2);
/// The time that a run may take.
const LIMIT: Duration = Duration::from_millis(300);

/// Does the task of a process that has the driver; false if this is none.
pub(crate) fn carry_out_task() -> bool {
    let task = std::env::var(CHILD);
    if let Ok(task) = &task {
        child(task);
    }
    task.is_ok()
}

/// The tests.
pub(crate) fn tests() -> Vec<Trial> {
    needs::tests![
        stand_in::missing();
        a_launch_fails_and_devices_let_go,
        a_launch_fails_and_devices_never_let_go,
        devices_wait_and_let_go,
        devices_wait_for_ever,
        recorded_runs_end_too,
        a_loaded_program_fails,
        a_rank_panics,
        a_process_exits_while_a_session_is_released,
        a_process_exits_while_devices_wait,
        a_fork_uses_nothing_of_its_parent,
    ]
}

/// Two ranks send to each other; every exchange is a kernel.
const EXCHANGE: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{8}] (DeviceMesh{0 1})) -> (T1_g_float[ideviceIdx.x2{2}, iS3{8}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=16, zero_init=false, resets_to_zero=false)
  FOR i from 0 to 200:
    P2PCommunication 1 (type=send, buffer=T0, peer=( 1 - rank ), backend=CUDA)
    P2PCommunication 2 (type=recv, buffer=T1, peer=( 1 - rank ), backend=CUDA)
    Wait Communication 2
    Wait Communication 1
} // %HostIrContainer
";

// ---- the process that has the driver ----

/// A task: which kind of program fails, with which code, and how often.
fn child(task: &str) {
    match task {
        "exit" => return exit_after_drop(),
        "fork" => return fork_beside_session(),
        _ => {}
    }
    let [kind, code, rounds] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let store: Option<Arc<dyn ImageStore>> = Some(Arc::new(Store));
    let graph = kind == "graph";
    // What fails is told at once, what waits when the time is up.
    let timeout = if code == "H0511" { LIMIT } else { Duration::from_secs(60) };
    let options = Options { timeout, graph, store, ..Options::default() };
    for round in 0..rounds.parse().unwrap() {
        match kind {
            "loaded" => loaded_fails(code, &options),
            _ => session_fails(code, &options, kind == "panic", round),
        }
    }
    println!("all were dropped in time");
}

/// Keeps nothing; panics once it is told to.
struct Store;

static PANICS: AtomicBool = AtomicBool::new(false);

// SAFETY: it returns nothing.
unsafe impl ImageStore for Store {
    fn get(&self, _: &str) -> Option<Vec<u8>> {
        assert!(!PANICS.load(Ordering::Acquire), "on purpose");
        None
    }
    fn put(&self, _: &str, _: &[u8]) {}
}

/// A session that fails, of which every later call is refused, and which goes in time.
fn session_fails(code: &str, options: &Options, panics: bool, round: usize) {
    let mut session = Session::builder(EXCHANGE).options(options.clone()).build().unwrap();
    session.upload_whole("T0", &HostTensor::zeros(DType::Float, &[2, 8])).unwrap();
    if panics {
        // A tensor with strides, which a kernel copies: that is compiled in the thread of rank 1.
        let dtype = DType::Float;
        let strided = DeviceTensor { pointer: 4096, shape: vec![1, 8], strides: vec![16, 2], dtype };
        // SAFETY: kernels of this driver do nothing.
        unsafe { session.input("T0").on(1).bind(&strided) }.unwrap();
        PANICS.store(true, Ordering::Release);
    }
    let start = Instant::now();
    let error = session.run().and_then(|()| session.wait()).expect_err("devices wait");
    let spent = start.elapsed();
    assert_eq!(error.code(), code, "round {round}: {error}");
    let most = if code == "H0511" { LIMIT + MOST } else { MOST };
    assert!(spent < most, "round {round} failed after {spent:?}");
    for again in [session.wait(), session.run(), session.download_whole("T1").map(|_| ())] {
        assert_eq!(again.unwrap_err().code(), "H0529");
    }
    let start = Instant::now();
    drop(session);
    let spent = start.elapsed();
    assert!(spent < MOST, "round {round} was dropped in {spent:?}");
}

/// A program that runs on inputs from the host fails: it does not run again.
fn loaded_fails(code: &str, options: &Options) {
    let (programs, _) = hostir::load(EXCHANGE);
    let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
    let mut loaded = CudaRuntime { options: options.clone() }.load(&prepared).unwrap();
    let inputs = vec![vec![HostTensor::zeros(DType::Float, &[1, 8])]; 2];
    assert_eq!(loaded.run_once(&inputs).unwrap_err()[0].code, code);
    assert_eq!(loaded.run_once(&inputs).unwrap_err()[0].code, "H0529");
    assert_eq!(loaded.download_results().unwrap_err()[0].code, "H0529");
    let start = Instant::now();
    drop(loaded);
    assert!(start.elapsed() < MOST);
}

/// A session that has succeeded.
fn run_session() -> Session {
    let store: Option<Arc<dyn ImageStore>> = Some(Arc::new(Store));
    let mut session = Session::builder(EXCHANGE).options(Options { store, ..Options::default() }).build().unwrap();
    session.upload_whole("T0", &HostTensor::zeros(DType::Float, &[2, 8])).unwrap();
    session.run().and_then(|()| session.wait()).unwrap();
    session
}

/// Drops a session, and leaves the rest to the exit of the process.
fn exit_after_drop() {
    let start = Instant::now();
    drop(run_session());
    assert!(start.elapsed() < Duration::from_secs(60));
    println!("all were dropped in time");
}

/// A fork neither runs nor releases what its parent has, and its exit does not wait for threads of the parent's.
fn fork_beside_session() {
    let mut session = run_session();
    // SAFETY: no other thread of this process is at work.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let error = session.run().expect_err("the child has no devices");
        assert!(error.to_string().contains("a fork of one that has used CUDA's libraries"), "{error}");
        drop(session);
        std::process::exit(7);
    }
    let mut status = 0;
    // SAFETY: the status is an integer of this frame.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    assert_eq!(libc::WEXITSTATUS(status), 7, "the child ended with {status}");
    session.run().and_then(|()| session.wait()).unwrap();
    println!("all were dropped in time");
}

// ---- the tests ----

/// Runs this program as the process that has the driver; its standard error.
fn with_driver(task: &str, variables: &[(&str, &str)]) -> String {
    let site = Site::new();
    let folder = site.folder.path();
    stand_in::make(folder);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env_clear().env("LD_LIBRARY_PATH", folder).env(CHILD, task);
    site::keep_profile(&mut command);
    command.envs(variables.iter().copied());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let (status, out, err) = run(&mut command);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("were dropped in time"), "{out}");
    err
}

fn a_launch_fails_and_devices_let_go() {
    with_driver("session H0522 100", &[("DRIVER_FAILS", "150"), ("DRIVER_LETS_GO", "1")]);
}

fn a_launch_fails_and_devices_never_let_go() {
    with_driver("session H0522 1", &[("DRIVER_FAILS", "150")]);
}

fn devices_wait_and_let_go() {
    with_driver("session H0511 10", &[("DRIVER_WAITS", "150"), ("DRIVER_LETS_GO", "1")]);
}

fn devices_wait_for_ever() {
    with_driver("session H0511 1", &[("DRIVER_WAITS", "150")]);
}

fn recorded_runs_end_too() {
    with_driver("graph H0522 10", &[("DRIVER_FAILS", "2"), ("DRIVER_LETS_GO", "1")]);
}

fn a_loaded_program_fails() {
    with_driver("loaded H0522 10", &[("DRIVER_FAILS", "150"), ("DRIVER_LETS_GO", "1")]);
}

fn a_rank_panics() {
    with_driver("panic H0522 1", &[]);
}

fn a_process_exits_while_a_session_is_released() {
    with_driver("exit", &[("DRIVER_FREE_MS", "2500")]);
}

/// A call that does not return is reported, and the exit goes on.
fn a_process_exits_while_devices_wait() {
    let err = with_driver("session H0522 1", &[("DRIVER_FAILS", "150")]);
    assert!(err.contains("hostir: a call of CUDA's libraries has not returned 5 s after"), "{err}");
}

fn a_fork_uses_nothing_of_its_parent() {
    let err = with_driver("fork", &[("DRIVER_FREE_MS", "300")]);
    assert!(!err.contains("stand-in:"), "{err}");
}
