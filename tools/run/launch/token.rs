//! The run's token: the secret of all processes of a run, and its sources.
//!
//! The token is in `HIR_TOKEN`, or in the file that `HIR_TOKEN_FILE` names; never in an argument, since everybody on a
//! machine can see those. Neither is needed if all ranks are on one host (`local.rs`). The token itself is never sent,
//! but anybody who talks to rank 0 once can test guesses offline, so it has to be random: `openssl rand -hex 16` makes
//! one of 128 bits.

use super::launcher::{EnvLookup, Launcher};
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use hostir_tool_support::os_text;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a random number.
const NONCE: usize = 16;
/// The minimum number of bytes of a token: as many hexadecimal digits make 64 bits.
const LEAST: usize = 16;
/// Most bytes of a file with a token.
const MOST: u64 = 4096;
/// Advice on making a token.
const MAKE: &str = "create one with `openssl rand -hex 16`";

/// A token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LaunchToken(Vec<u8>);

impl std::fmt::Debug for LaunchToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The key that both ends of a connection derive from a token, or from none.
#[derive(Clone)]
pub(super) struct ConnectionKey(pub(super) [u8; 32]);

impl ConnectionKey {
    pub(super) fn new(token: Option<&LaunchToken>) -> Self {
        let token = token.map_or(&[][..], |token| &token.0);
        Self(Sha256::new().chain_update(b"hir-run token\0").chain_update(token).finalize().into())
    }
}

/// The token of the environment, if there is one.
///
/// # Errors
/// [`errors::TOKEN`] for one that is too short, [`errors::TOKEN_FILE`] for a file that cannot be used.
pub(super) fn token_from_env(env: EnvLookup<'_>) -> Result<Option<LaunchToken>, Diag> {
    match (env("HIR_TOKEN"), env("HIR_TOKEN_FILE")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            let message = "`HIR_TOKEN` and `HIR_TOKEN_FILE` are both set";
            Err(Diag::global_error(errors::TOKEN, message).with_note("unset one of them"))
        }
        (Some(text), None) => long_enough("`HIR_TOKEN`", os_text::unescape_text(&text).into_vec()).map(Some),
        (None, Some(path)) => {
            let path = PathBuf::from(os_text::unescape_text(&path));
            let bytes = token_from_file(&path);
            let path = path.display();
            let bytes = bytes.map_err(|why| {
                let message = message!("cannot use `HIR_TOKEN_FILE`: `{}` {}", path, why);
                Diag::global_error(errors::TOKEN_FILE, message).with_note("the file must be a regular file of yours that nobody else can read: create it with `(umask 077; openssl rand -hex 16 > FILE)`, or pass the text of a secret that another tool manages (Kubernetes, Docker) with `HIR_TOKEN=$(cat FILE)`")
            })?;
            long_enough(&format!("the token in `{path}`"), bytes).map(Some)
        }
    }
}

fn long_enough(what: &str, bytes: Vec<u8>) -> Result<LaunchToken, Diag> {
    if bytes.len() >= LEAST {
        return Ok(LaunchToken(bytes));
    }
    let message = match bytes.len() {
        0 => format!("{what} is empty, but must have at least {LEAST} bytes"),
        count => format!("{what} has {count} bytes, but must have at least {LEAST}"),
    };
    Err(Diag::global_error(errors::TOKEN, message)
        .with_note(message!("anybody who guesses it can join the run; {}", MAKE)))
}

/// The token of a file, or the error of the file.
fn token_from_file(path: &Path) -> Result<Vec<u8>, String> {
    // A link might lead to a file of somebody else's choice, and a pipe would wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
            match rustix::io::Errno::from_io_error(&error) {
                Some(rustix::io::Errno::LOOP) => "is a symbolic link".to_owned(),
                _ => format!("cannot be opened: {error}"),
            }
        })?;
    let found = opened.metadata().map_err(|error| format!("cannot be inspected: {error}"))?;
    let own = rustix::process::geteuid().as_raw();
    match found.mode() & 0o7777 {
        _ if !found.is_file() => return Err("is not a regular file".to_owned()),
        _ if found.uid() != own => {
            return Err(format!("belongs to user {}, not to you ({own})", found.uid()));
        }
        mode if mode & 0o077 != 0 => {
            return Err(format!("has mode {mode:04o}: others may read or write it (`chmod 600`)"));
        }
        _ if found.len() > MOST => return Err(format!("is longer than {MOST} bytes")),
        _ => {}
    }
    let mut bytes = Vec::new();
    let read = opened.take(MOST).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    while bytes.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        bytes.pop();
    }
    Ok(bytes)
}

/// That there has to be a token and none is.
pub(super) fn missing_token(launcher: Launcher, why: &str) -> Diag {
    let how = match launcher {
        Launcher::Torchrun => "set it before torchrun on each host, which passes it on: `HIR_TOKEN=... torchrun ...`",
        Launcher::Mpirun => "let mpirun pass it on: `HIR_TOKEN=... mpirun -x HIR_TOKEN ...`",
        Launcher::Srun => "set it before srun, which passes it on: `HIR_TOKEN=... srun ...`",
        Launcher::Processes | Launcher::Explicit | Launcher::Pmix => {
            "set it for each rank: `HIR_TOKEN=... hir-run ...`"
        }
    };
    Diag::global_error(errors::TOKEN, message!("`HIR_TOKEN` is missing: {}", why))
        .with_note(message!("{}, the same for all ranks; {}", MAKE, how))
        .with_note("or store it in a file of mode 0600 and set `HIR_TOKEN_FILE`; ranks of one user on one host need no token with `HIR_COORDINATOR=localhost:PORT`")
}

/// That the token is in the arguments.
pub(super) fn token_in_arguments() -> Diag {
    let message = "`--token` would show the token to everybody on this machine, in the list of processes";
    Diag::global_error(errors::TOKEN, message)
        .with_note("create a new one and pass it in `HIR_TOKEN`, or in a file of mode 0600 that `HIR_TOKEN_FILE` names")
}

/// A random text: a token for a run without one, or a name.
///
/// # Errors
/// A system without random numbers.
pub(super) fn random_text() -> std::io::Result<String> {
    let mut bytes = [0; NONCE];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(to_hexadecimal(&bytes))
}

/// Bytes as digits.
pub(super) fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of some bytes.
pub(super) fn sha256_digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const GOOD: &str = "0123456789abcdef";

    fn ask(token: Option<&str>, file: Option<&std::path::Path>) -> Result<Option<LaunchToken>, String> {
        let env = |name: &str| match name {
            "HIR_TOKEN" => token.map(str::to_owned),
            _ => file.map(|path| path.to_string_lossy().into_owned()),
        };
        token_from_env(&env).map_err(|diag| format!("{}: {}", diag.code, diag.message))
    }

    #[test]
    fn tokens_of_variables() {
        assert_eq!(ask(None, None), Ok(None));
        assert_eq!(ask(Some(GOOD), None), Ok(Some(LaunchToken(GOOD.into()))));
        let short = ask(Some("0123456789abcde"), None).unwrap_err();
        assert_eq!(short, "H0671: `HIR_TOKEN` has 15 bytes, but must have at least 16");
        let empty = ask(Some(""), None).unwrap_err();
        assert_eq!(empty, "H0671: `HIR_TOKEN` is empty, but must have at least 16 bytes");
        let both = ask(Some(GOOD), Some("x".as_ref())).unwrap_err();
        assert_eq!(both, "H0671: `HIR_TOKEN` and `HIR_TOKEN_FILE` are both set");
        // Six bytes that are not text are six, and none is another one.
        let bytes = |bytes: &[u8]| {
            use std::os::unix::ffi::OsStrExt as _;
            let text = os_text::escape_text(std::ffi::OsStr::from_bytes(bytes));
            ask(text.to_str(), None)
        };
        let short = bytes(&[0xff; 6]).unwrap_err();
        assert_eq!(short, "H0671: `HIR_TOKEN` has 6 bytes, but must have at least 16");
        assert_eq!(bytes(&[0xff; 16]), Ok(Some(LaunchToken(vec![0xff; 16]))));
        assert_ne!(bytes(&[0xff; 16]), bytes(&[0xfe; 16]));
        assert_eq!(format!("{:?}", ask(Some(GOOD), None)), "Ok(Some(Token(..)))");
    }

    #[test]
    fn tokens_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::write(&path, format!("{GOOD}\n")).unwrap();
        mode(0o600);
        assert_eq!(ask(None, Some(&path)), ask(Some(GOOD), None));
        for open in [0o640, 0o604, 0o620, 0o660] {
            mode(open);
            let why = ask(None, Some(&path)).unwrap_err();
            assert!(why.starts_with("H0672") && why.contains(&format!("mode {open:04o}")), "{why}");
        }
        mode(0o400);
        assert!(ask(None, Some(&path)).is_ok());
        mode(0o600);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(ask(None, Some(&link)).unwrap_err().ends_with("is a symbolic link"));
        assert!(ask(None, Some(folder.path())).unwrap_err().ends_with("is not a regular file"));
        let gone = ask(None, Some(&folder.path().join("none"))).unwrap_err();
        assert!(gone.contains("cannot be opened"), "{gone}");
        std::fs::write(&path, "short\n").unwrap();
        let short = ask(None, Some(&path)).unwrap_err();
        assert!(short.starts_with("H0671: the token in `") && short.contains("5 bytes"), "{short}");
        std::fs::write(&path, [b'x'; 5000]).unwrap();
        assert!(ask(None, Some(&path)).unwrap_err().ends_with("is longer than 4096 bytes"));
        // Does not wait for a pipe without a writer.
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(ask(None, Some(&pipe)).unwrap_err().ends_with("is not a regular file"));
    }

    #[test]
    fn keys_are_of_one_token() {
        let key = |text: &str| ConnectionKey::new(Some(&LaunchToken(text.into()))).0;
        assert_eq!(key("a"), key("a"));
        assert_ne!(key("a"), key("b"));
        assert_ne!(random_text().unwrap(), random_text().unwrap());
        assert_eq!(to_hexadecimal(&[0x0f, 0xa0]), "0fa0");
        // SHA-256 of "abc", FIPS 180-4's example.
        assert_eq!(sha256_digest(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
