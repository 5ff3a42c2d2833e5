//! Resolution of paths: a walk from folder to folder that keeps each one open.
//!
//! The walk follows symbolic links itself, because only that allows a check of each link first. [`is_trusted`] has the
//! rule. The result is an open folder and a name in it, so that nobody can exchange a folder or a link between the
//! check and the use.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Links in a row, as Linux follows them.
const MAX_LINKS: usize = 40;
/// Any user may write there.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Only owners may rename and remove what is in the folder.
const STICKY: u32 = 0o1000;
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The reason why nothing is written to a path.
#[derive(Debug)]
pub(super) enum WriteRefusal {
    /// The system's error.
    Io(io::Error),
    /// A link, pipe or device that somebody else may have put there.
    Foreign {
        /// `symbolic link`.
        what: &'static str,
        path: PathBuf,
        owner: u32,
        /// The text of the link.
        target: Option<PathBuf>,
    },
}

impl From<io::Error> for WriteRefusal {
    fn from(error: io::Error) -> Self {
        WriteRefusal::Io(error)
    }
}

impl From<Errno> for WriteRefusal {
    fn from(error: Errno) -> Self {
        WriteRefusal::Io(error.into())
    }
}

/// Returns true if a file in a folder is what the user wants there: it belongs to the user, to root, or to the folder's
/// owner, who can put anything there anyway. The last counts only if nobody else can rename it to the place: a folder
/// that all may write to has to be sticky.
///
/// This is the rule of Linux's `protected_symlinks`, but for all folders and also for root.
pub(super) fn is_trusted(owner: u32, folder_owner: u32, mode: u32, user: u32) -> bool {
    let may_be_moved = mode & (WRITABLE_BY_ALL | STICKY) == WRITABLE_BY_ALL;
    owner == user || owner == 0 || (owner == folder_owner && !may_be_moved)
}

/// The end of a walk.
#[derive(Debug)]
pub(super) enum WalkOutcome {
    /// An existing plain file, or an unused name.
    File(FolderEntry),
    /// Something else that can be written to.
    Stream(SpecialFile),
    Folder(Arc<OwnedFd>),
    /// A missing folder, and the rest of the path from the last existing one.
    Missing(Arc<OwnedFd>, PathBuf),
}

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct FolderEntry {
    pub(super) folder: Arc<OwnedFd>,
    pub(super) name: OsString,
    /// The file that has it.
    pub(super) old: Option<ReplacedFile>,
}

/// A pipe or device, or the target of a link of `/proc/self/fd`.
#[derive(Debug)]
pub(super) struct SpecialFile {
    folder: Arc<OwnedFd>,
    name: OsString,
    /// Its metadata; `None` for a link of the system.
    seen: Option<Stat>,
}

impl SpecialFile {
    /// Opens it. Opening a pipe waits for its reader.
    ///
    /// # Errors
    /// The system's errors, and an error for a file that was exchanged meanwhile.
    pub(super) fn open(&self) -> io::Result<File> {
        let mut flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, self.seen.is_some());
        let file = rustix::fs::openat(&*self.folder, &self.name, flags, Mode::empty())?;
        let opened = rustix::fs::fstat(&file)?;
        let opened = (opened.st_dev, opened.st_ino);
        if self.seen.as_ref().is_some_and(|seen| (seen.st_dev, seen.st_ino) != opened) {
            return Err(io::Error::other("it was replaced by something else"));
        }
        Ok(File::from(file))
    }
}

/// A plain file that is to be replaced.
#[derive(Debug)]
pub(super) struct ReplacedFile {
    pub(super) stat: Stat,
    /// True if its owner's choice of readers counts.
    pub(super) trusted: bool,
    /// The file, only to look at.
    pub(super) node: OwnedFd,
}

/// Resolves a path. `make` creates a missing folder, or does not.
///
/// # Errors
/// An error for a path through an untrusted link, and those of the system.
pub(super) fn find_target(path: &Path, make: FolderMaker<'_>) -> Result<WalkOutcome, WriteRefusal> {
    let mut walk = PathWalk::new(path)?;
    loop {
        let Some(name) = walk.ahead.pop_front() else {
            return Ok(WalkOutcome::Folder(walk.folder));
        };
        if let Some(found) = walk.take_step(&name, make)? {
            return match found {
                WalkOutcome::File(_) if path.as_os_str().as_bytes().ends_with(b"/") => {
                    Err(io::Error::from(io::ErrorKind::IsADirectory).into())
                }
                found => Ok(found),
            };
        }
    }
}

/// Creates a folder of this name in an open one; returns whether there is one to continue with.
pub(super) type FolderMaker<'a> = &'a dyn Fn(&Arc<OwnedFd>, &OsStr) -> io::Result<bool>;

/// The state of a walk.
struct PathWalk {
    folder: Arc<OwnedFd>,
    /// The way there, for messages.
    shown: PathBuf,
    /// Names that come.
    ahead: VecDeque<OsString>,
    links: usize,
}

impl PathWalk {
    fn new(path: &Path) -> Result<Self, WriteRefusal> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let folder = Arc::new(rustix::fs::open(".", FOLDER, Mode::empty())?);
        let mut walk = Self { folder, shown: PathBuf::new(), ahead: VecDeque::new(), links: 0 };
        walk.follow_path(path)?;
        Ok(walk)
    }

    /// Continues along a path, before the rest of the present one.
    fn follow_path(&mut self, path: &Path) -> Result<(), WriteRefusal> {
        if path.is_absolute() {
            self.folder = Arc::new(rustix::fs::open("/", FOLDER, Mode::empty())?);
            self.shown = PathBuf::from("/");
        }
        for part in path.components().rev() {
            if let Component::Normal(_) | Component::ParentDir = part {
                self.ahead.push_front(part.as_os_str().to_owned());
            }
        }
        Ok(())
    }

    /// Takes one step; returns the target if it was the last one.
    fn take_step(&mut self, name: &OsStr, make: FolderMaker<'_>) -> Result<Option<WalkOutcome>, WriteRefusal> {
        let last = self.ahead.is_empty();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = match rustix::fs::openat(&*self.folder, name, flags, Mode::empty()) {
            Ok(node) => node,
            Err(Errno::NOENT) => return self.handle_missing(name, make),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&node)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.follow_link(name, &node, &stat),
            FileType::Directory => {
                self.shown.push(name);
                self.folder = Arc::new(node);
                Ok(None)
            }
            _ if !last => Err(Errno::NOTDIR.into()),
            FileType::RegularFile => {
                let trusted = self.is_trusted(&stat)?;
                let old = Some(ReplacedFile { stat, trusted, node });
                Ok(Some(WalkOutcome::File(FolderEntry { folder: self.folder.clone(), name: name.into(), old })))
            }
            kind => self.to_special_file(name, kind, stat).map(Some),
        }
    }

    /// Nothing has this name.
    fn handle_missing(&mut self, name: &OsStr, make: FolderMaker<'_>) -> Result<Option<WalkOutcome>, WriteRefusal> {
        if make(&self.folder, name)? {
            // Whatever is there now: a link in its place is checked like any other.
            self.ahead.push_front(name.to_owned());
            return Ok(None);
        }
        let folder = self.folder.clone();
        if self.ahead.is_empty() {
            return Ok(Some(WalkOutcome::File(FolderEntry { folder, name: name.into(), old: None })));
        }
        let rest = std::iter::once(name).chain(self.ahead.iter().map(OsString::as_os_str));
        Ok(Some(WalkOutcome::Missing(folder, rest.collect())))
    }

    fn is_trusted(&self, stat: &Stat) -> Result<bool, WriteRefusal> {
        let folder = rustix::fs::fstat(&*self.folder)?;
        let user = rustix::process::geteuid().as_raw();
        // In a folder that everybody may write to, somebody else may have given a link of the user a second name there.
        let placed = stat.st_nlink <= 1 || folder.st_mode & WRITABLE_BY_ALL == 0;
        Ok(placed && is_trusted(stat.st_uid, folder.st_uid, folder.st_mode, user))
    }

    fn follow_link(&mut self, name: &OsStr, node: &OwnedFd, stat: &Stat) -> Result<Option<WalkOutcome>, WriteRefusal> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(node, "", Vec::new())?.into_bytes();
        let target = PathBuf::from(OsStr::from_bytes(&target));
        if !self.is_trusted(stat)? {
            let path = self.shown.join(name);
            let target = Some(self.shown.join(target));
            return Err(WriteRefusal::Foreign { what: "symbolic link", path, owner: stat.st_uid, target });
        }
        // The links of `/proc/self/fd` lead to open files, which need not have a name.
        let in_proc = rustix::fs::fstatfs(&*self.folder)?.f_type == rustix::fs::PROC_SUPER_MAGIC;
        if in_proc && self.ahead.is_empty() {
            let (folder, name) = (self.folder.clone(), name.to_owned());
            return Ok(Some(WalkOutcome::Stream(SpecialFile { folder, name, seen: None })));
        }
        self.follow_path(&target)?;
        Ok(None)
    }

    /// A pipe, device or socket.
    fn to_special_file(&self, name: &OsStr, kind: FileType, stat: Stat) -> Result<WalkOutcome, WriteRefusal> {
        if !self.is_trusted(&stat)? {
            let what = if kind == FileType::Fifo { "pipe" } else { "device" };
            let (path, owner) = (self.shown.join(name), stat.st_uid);
            return Err(WriteRefusal::Foreign { what, path, owner, target: None });
        }
        let (folder, name) = (self.folder.clone(), name.to_owned());
        Ok(WalkOutcome::Stream(SpecialFile { folder, name, seen: Some(stat) }))
    }
}

/// The identity of a file to be written: the folder, and the rest of the path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlaceKey {
    device: u64,
    inode: u64,
    rest: PathBuf,
}

impl PlaceKey {
    /// The key of a path; `None` for a file that is not plain, which may have several.
    pub fn for_path(path: &Path) -> Option<Self> {
        match find_target(path, &|_, _| Ok(false)) {
            Ok(WalkOutcome::File(FolderEntry { folder, name, .. })) => Self::in_folder(&folder, name.into()),
            Ok(WalkOutcome::Missing(folder, rest)) => Self::in_folder(&folder, rest),
            Ok(WalkOutcome::Folder(folder)) => Self::in_folder(&folder, PathBuf::new()),
            Ok(WalkOutcome::Stream(_)) => None,
            // Writing there says what is wrong.
            Err(_) => Some(Self { device: 0, inode: 0, rest: path.to_path_buf() }),
        }
    }

    fn in_folder(folder: &OwnedFd, rest: PathBuf) -> Option<Self> {
        let stat = rustix::fs::fstat(folder).ok()?;
        Some(Self { device: stat.st_dev, inode: stat.st_ino, rest })
    }
}
