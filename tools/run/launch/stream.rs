//! Connections and their listeners: over TCP, or over a Unix socket of this host.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// A connection.
#[derive(Debug)]
pub(super) enum PeerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Does the same with either kind of connection.
macro_rules! either {
    ($stream:expr, $one:ident => $does:expr) => {
        match $stream {
            PeerStream::Tcp($one) => $does,
            PeerStream::Unix($one) => $does,
        }
    };
}

impl PeerStream {
    /// Another handle of the connection.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn try_clone(&self) -> Result<Self> {
        Ok(match self {
            PeerStream::Tcp(stream) => PeerStream::Tcp(stream.try_clone()?),
            PeerStream::Unix(stream) => PeerStream::Unix(stream.try_clone()?),
        })
    }

    /// Sends small messages at once.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn set_prompt(&self) -> Result<()> {
        match self {
            PeerStream::Tcp(stream) => stream.set_nodelay(true),
            PeerStream::Unix(_) => Ok(()),
        }
    }

    /// Lets reads and writes wait, or not.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        either!(self, stream => stream.set_nonblocking(nonblocking))
    }

    /// Limits the time of a read.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        either!(self, stream => stream.set_read_timeout(timeout))
    }

    /// Limits the time of a write.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn set_write_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        either!(self, stream => stream.set_write_timeout(timeout))
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn shutdown(&self, how: Shutdown) -> Result<()> {
        either!(self, stream => stream.shutdown(how))
    }
}

impl AsFd for PeerStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, stream => stream.as_fd())
    }
}

impl Read for &PeerStream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        either!(self, stream => (&mut &*stream).read(bytes))
    }
}

impl Write for &PeerStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        either!(self, stream => (&mut &*stream).write(bytes))
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The socket at which connections arrive; never blocks.
#[derive(Debug)]
pub(super) enum PeerListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl PeerListener {
    /// A TCP listener whose `accept` does not wait.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn from_tcp(listener: TcpListener) -> Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(PeerListener::Tcp(listener))
    }

    /// A listener at a Unix socket whose `accept` does not wait.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn from_unix(listener: UnixListener) -> Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(PeerListener::Unix(listener))
    }

    /// The next connection. Connections of other users on Unix sockets are closed at once, and are errors.
    ///
    /// # Errors
    /// If no connection waits, or one belongs to another user.
    pub(super) fn accept(&self) -> Result<PeerStream> {
        let stream = match self {
            PeerListener::Tcp(listener) => PeerStream::Tcp(listener.accept()?.0),
            PeerListener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                super::local::check_owner(&stream, super::local::effective_user())?;
                PeerStream::Unix(stream)
            }
        };
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl AsFd for PeerListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PeerListener::Tcp(listener) => listener.as_fd(),
            PeerListener::Unix(listener) => listener.as_fd(),
        }
    }
}
