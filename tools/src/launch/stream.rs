//! Connections and where they come from: over TCP, or over a Unix socket of this host.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Does the same with either kind of connection.
macro_rules! either {
    ($stream:expr, $one:ident => $does:expr) => {
        match $stream {
            Stream::Tcp($one) => $does,
            Stream::Unix($one) => $does,
        }
    };
}

impl Stream {
    /// Another handle of the connection.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn try_clone(&self) -> Result<Self> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Sends small messages at once.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn set_prompt(&self) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true),
            Stream::Unix(_) => Ok(()),
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

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, stream => stream.as_fd())
    }
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        either!(self, stream => (&mut &*stream).read(bytes))
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        either!(self, stream => (&mut &*stream).write(bytes))
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The socket at which connections arrive; never waits for one.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// A TCP listener whose `accept` does not wait.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn tcp(listener: TcpListener) -> Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// A listener at a Unix socket whose `accept` does not wait.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn unix(listener: UnixListener) -> Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// The next connection. On Unix sockets those of other users are closed at once, and are errors.
    ///
    /// # Errors
    /// No connection that waits, and one of another user.
    pub(super) fn accept(&self) -> Result<Stream> {
        let stream = match self {
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                super::local::check_owner(&stream, super::local::user())?;
                Stream::Unix(stream)
            }
        };
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}
