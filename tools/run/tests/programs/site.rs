//! Shared by tests with processes of hir-run: a folder, a port and a token of their own, processes that see nothing
//! of the environment and the signals under which the tests were started, and an end to all waiting.
#![allow(dead_code, reason = "each test program uses a part")]

use crate::signals;
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Lets a process whose environment is empty say what it executed, where that is measured (`tools/coverage`).
pub(crate) fn keep_profile(command: &mut Command) {
    const PROFILE: &str = "LLVM_PROFILE_FILE";
    command.envs(std::env::var_os(PROFILE).map(|path| (PROFILE, path)));
}

/// An allgather on four ranks.
pub(crate) const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{4}, iS1{i1}] (DeviceMesh{0 1 2 3})) -> (T1_g_float[iS2{4}, iS3{i1}] (DeviceMesh{0 1 2 3})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( 4 * i1 ), zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1 2 3), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";
/// So many timed runs that they do not end by themselves during a test.
pub(crate) const LONG: &[&str] = &["--bench", "--iters", "100000000"];
/// The time that a process gets to end by itself.
const PATIENCE: Duration = Duration::from_secs(180);

/// A folder with the program in it.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
    /// Of this site alone, should another run listen there.
    pub(crate) token: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        // Not where temporary files are: a test may put libraries here, and such folders can forbid to run them.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::write(folder.path().join("gather.hir"), GATHER).unwrap();
        let port = free_port();
        Self { folder, port, token: format!("{port} of process {}", std::process::id()) }
    }

    /// A program in the folder.
    fn program(&self, name: &str) -> Command {
        signals::children_heed_signals();
        let mut command = Command::new(name);
        command.env_clear().current_dir(self.folder.path()).stdin(Stdio::null());
        keep_profile(&mut command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `hir-run`, in an empty environment.
    pub(crate) fn bare(&self) -> Command {
        self.program(env!("CARGO_BIN_EXE_hir-run"))
    }

    /// `hir-run` by a shell that does something first, such as `trap '' HUP`: bash, as `tools/setup` is, since not
    /// every shell can ignore every signal.
    pub(crate) fn shell(&self, first: &str, args: &str) -> Command {
        let mut command = self.program("bash");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let line = format!("{first}; exec {} {args}", env!("CARGO_BIN_EXE_hir-run"));
        command.args(["-c", &line]);
        command
    }

    /// `hir-run gather.hir` on the null backend.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.bare();
        command.args(["gather.hir", "--backend=null", "--set", "i1=3"]);
        command
    }

    /// Rank `rank` of 4, as somebody starts it by hand.
    pub(crate) fn rank(&self, rank: u32, more: &[&str]) -> Command {
        self.rank_of(rank, 4, more)
    }

    /// The same of a world of another size.
    pub(crate) fn rank_of(&self, rank: u32, world: u32, more: &[&str]) -> Command {
        let mut command = self.command();
        let coordinator = format!("127.0.0.1:{}", self.port);
        command.args(["--rank", &rank.to_string(), "--world", &world.to_string()]);
        command.args(["--coordinator", &coordinator]).env("HIR_TOKEN", &self.token).args(more);
        command
    }

    /// Starts these ranks.
    pub(crate) fn ranks(&self, ranks: std::ops::Range<u32>, more: &[&str]) -> Vec<Child> {
        ranks.map(|rank| self.rank(rank, more).spawn().unwrap()).collect()
    }
}

/// A port that no other test takes, and below those that the kernel hands out.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..12_000 {
        let number = std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (20_000 + number % 12_000) as u16;
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(_) => return port,
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => panic!("127.0.0.1 cannot be listened at: {error}"),
        }
    }
    panic!("127.0.0.1 has no free port");
}

/// Status, standard output, standard error.
pub(crate) type Ended = (Option<i32>, String, String);

/// The status and the output of a process that ends by itself.
pub(crate) fn end(child: Child) -> Ended {
    let output = output(child);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The output of a process until it ended; one that does not end is killed, and fails the test.
pub(crate) fn output(child: Child) -> Output {
    let pid = child.id().cast_signed();
    let (done, ends) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let late = ends.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if late {
            send(Signal::KILL, pid);
        }
        late
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    assert!(!watch.join().unwrap(), "no end within {PATIENCE:?}: {output:?}");
    output
}

/// Starts a command and waits for it.
pub(crate) fn run(command: &mut Command) -> Ended {
    end(command.spawn().unwrap())
}

/// The children of a process, once there are four: rank r is the r-th.
pub(crate) fn children(parent: u32) -> Vec<i32> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let found: Vec<i32> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        if found.len() == 4 {
            return found;
        }
        assert!(Instant::now() < until, "no children");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn send(signal: Signal, pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Whether a process runs: gone, or dead and not yet looked at by its parent, is not running.
pub(crate) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

pub(crate) fn all_end(pids: &[i32]) {
    let until = Instant::now() + Duration::from_secs(60);
    while pids.iter().any(|pid| is_running(*pid)) {
        assert!(Instant::now() < until, "orphans: {pids:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
