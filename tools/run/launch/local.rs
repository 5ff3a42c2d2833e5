//! The meeting place of ranks of one host and one user without a token: a Unix socket, whose ends ask the system for
//! the other end's user.
//!
//! The socket has a name in Linux's abstract namespace, not in a folder. A killed process therefore leaves nothing, no
//! folder that everybody may write to (`/tmp`) has to be trusted, and ranks with different temporary folders, as in
//! containers that a launcher starts, find it if they share the network's namespace. The name is `hir-run-USER-` and a
//! digest of the text that the launcher gave all ranks. Anybody can know and take such names, so nobody relies on them:
//! both ends query the other one's user (`SO_PEERCRED`) before they send or believe anything, and a name that another
//! user took is an error. An attacker only learns who it was.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// The user that this process acts for.
pub(super) fn effective_user() -> u32 {
    geteuid().as_raw()
}

/// The name of the socket where this user's processes with the same text meet.
pub(super) fn socket_name(launch_text: &str) -> String {
    let digest = super::token::sha256_digest(launch_text.as_bytes());
    format!("hir-run-{}-{}", effective_user(), super::token::to_hexadecimal(&digest[..8]))
}

/// A process of another user at the other end.
#[derive(Debug)]
pub(super) struct OtherUser(pub(super) u32);

impl std::fmt::Display for OtherUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it belongs to user {}", self.0)
    }
}

impl std::error::Error for OtherUser {}

/// The user of an error of [`check_owner`].
pub(super) fn other_user(error: &Error) -> Option<u32> {
    error.get_ref()?.downcast_ref::<OtherUser>().map(|other| other.0)
}

/// Refuses a connection whose other end does not act for `user`.
///
/// # Errors
/// [`OtherUser`] if not.
pub(super) fn check_owner(stream: &UnixStream, user: u32) -> Result<()> {
    let found = rustix::net::sockopt::socket_peercred(stream.as_fd())?.uid.as_raw();
    if found == user {
        return Ok(());
    }
    Err(Error::new(ErrorKind::PermissionDenied, OtherUser(found)))
}

/// Listens there.
///
/// # Errors
/// [`OtherUser`] if another user listens there, [`ErrorKind::AddrInUse`] if another process of this user does.
pub(super) fn listen_at(name: &str) -> Result<UnixListener> {
    let address = SocketAddr::from_abstract_name(name)?;
    UnixListener::bind_addr(&address).map_err(|error| match error.kind() {
        // A name that has just been closed is in use, too.
        ErrorKind::AddrInUse => {
            connect_to(name, effective_user()).err().filter(|other| other_user(other).is_some()).unwrap_or(error)
        }
        _ => error,
    })
}

/// Connects to `user`'s process that listens there; does not wait for a busy one.
///
/// # Errors
/// [`OtherUser`] for another user's process, or if nobody listens.
pub(super) fn connect_to(name: &str, user: u32) -> Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let stream = UnixStream::from(socket);
    check_owner(&stream, user)?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of these tests belong to this user, so another one is expected.
    #[test]
    fn other_users_are_refused_at_both_ends() {
        let name = format!("hir-run-test-{}", super::super::token::random_text().unwrap());
        assert_eq!(connect_to(&name, effective_user()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let listener = listen_at(&name).unwrap();
        let joined = connect_to(&name, effective_user()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(check_owner(&accepted, effective_user()).is_ok());
        for error in [
            check_owner(&accepted, effective_user() + 1).unwrap_err(),
            check_owner(&joined, effective_user() + 1).unwrap_err(),
            connect_to(&name, effective_user() + 1).unwrap_err(),
        ] {
            assert_eq!(other_user(&error), Some(effective_user()));
            assert_eq!(error.to_string(), format!("it belongs to user {}", effective_user()));
        }
        // This user's other run.
        let error = listen_at(&name).unwrap_err();
        assert_eq!((error.kind(), other_user(&error)), (ErrorKind::AddrInUse, None));
    }

    /// A full queue of connections that nobody accepts does not make a rank wait.
    #[test]
    fn a_full_queue_is_an_error() {
        let name = format!("hir-run-test-{}", super::super::token::random_text().unwrap());
        let _listener = listen_at(&name).unwrap();
        let mut held = Vec::new();
        let error = loop {
            match connect_to(&name, effective_user()) {
                Ok(stream) => held.push(stream),
                Err(error) => break error,
            }
            assert!(held.len() < 100_000, "no end");
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn names_are_of_user_and_job() {
        let own = socket_name("job 4711.0");
        assert!(own.starts_with(&format!("hir-run-{}-", effective_user())), "{own}");
        assert_eq!(own, socket_name("job 4711.0"));
        assert_ne!(own, socket_name("job 4712.0"));
    }
}
