//! Sessions that fail, in a process with a driver whose devices wait for what never comes (`driver.c`): every call
//! comes back, and a session that is dropped is gone in time, whether its devices let go or not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "the process that has the driver reports to the test")]

#[path = "../../tests/common/needs.rs"]
mod needs;
#[path = "launch/site.rs"]
mod site;
#[path = "launch/stand_in.rs"]
mod stand_in;

use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir::session::{Options, Session};
use site::{Site, run};
use std::process::Command;
use std::time::{Duration, Instant};

/// Set in the process that has the driver: the code of the failure, and how many sessions fail.
const CHILD: &str = "HIR_TEARDOWN";
/// How long it may take until a failed session is gone.
const MOST: Duration = Duration::from_secs(2);
/// How long a run may take.
const LIMIT: Duration = Duration::from_millis(300);

fn main() -> std::process::ExitCode {
    if let Ok(task) = std::env::var(CHILD) {
        child(&task);
        return std::process::ExitCode::SUCCESS;
    }
    needs::run(needs::tests![
        stand_in::missing();
        a_launch_fails_and_devices_let_go,
        a_launch_fails_and_devices_never_let_go,
        devices_wait_and_let_go,
        devices_wait_for_ever,
        recorded_runs_end_too,
    ])
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

fn child(task: &str) {
    let mut words = task.split(' ');
    let (code, rounds) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    let graph = words.next().is_some();
    let options = Options { timeout: LIMIT, graph, ..Options::default() };
    for round in 0..rounds {
        fails(code, &options, round);
    }
    println!("{rounds} of {rounds} were dropped in time");
}

/// A session that fails, of which every later call is refused, and which goes in time.
fn fails(code: &str, options: &Options, round: usize) {
    let mut session = Session::builder(EXCHANGE).options(options.clone()).build().unwrap();
    session.upload_whole("T0", &HostTensor::zeros(DType::Float, &[2, 8])).unwrap();
    let start = Instant::now();
    let error = session.run().and_then(|()| session.wait()).expect_err("devices wait");
    let spent = start.elapsed();
    assert_eq!(error.code(), code, "round {round}: {error}");
    assert!(spent < LIMIT + MOST, "round {round} failed after {spent:?}");
    for again in [session.wait(), session.run(), session.download_whole("T1").map(|_| ())] {
        assert_eq!(again.unwrap_err().code(), "H0529");
    }
    let start = Instant::now();
    drop(session);
    let spent = start.elapsed();
    assert!(spent < MOST, "round {round} was dropped in {spent:?}");
}

// ---- the tests ----

/// Runs this program as the process that has the driver.
fn with_driver(task: &str, variables: &[(&str, &str)]) {
    let site = Site::new();
    let folder = site.folder.path();
    stand_in::make(folder);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env_clear().env("LD_LIBRARY_PATH", folder).env(CHILD, task);
    command.envs(variables.iter().copied());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let (status, out, err) = run(&mut command);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("were dropped in time"), "{out}");
}

fn a_launch_fails_and_devices_let_go() {
    with_driver("H0522 100", &[("DRIVER_FAILS", "150"), ("DRIVER_LETS_GO", "1")]);
}

fn a_launch_fails_and_devices_never_let_go() {
    with_driver("H0522 1", &[("DRIVER_FAILS", "150")]);
}

fn devices_wait_and_let_go() {
    with_driver("H0511 10", &[("DRIVER_WAITS", "150"), ("DRIVER_LETS_GO", "1")]);
}

fn devices_wait_for_ever() {
    with_driver("H0511 1", &[("DRIVER_WAITS", "150")]);
}

fn recorded_runs_end_too() {
    with_driver("H0522 10 graph", &[("DRIVER_FAILS", "2"), ("DRIVER_LETS_GO", "1")]);
}
