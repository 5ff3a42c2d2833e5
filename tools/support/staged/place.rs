//! Resolution of paths: a walk from folder to folder that holds on to each one.
//!
//! The walk follows symbolic links itself, as it is the only way to look at each of them first. [`is_trusted`] has
//! the rule. What it ends with is an open folder and a name in it, so that nobody can exchange a folder or a link
//! between the look and what is done.

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

/// The reason that nothing is written to a path.
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

/// Whether what lies in a folder is taken for what the user wants there: it is the user's own, root's, or
/// the folder's owner's, who can put there what he likes anyway. The last counts only where nobody else can rename it
/// to the place: in a folder that all may write to, it has to be sticky.
///
/// This is the rule of Linux's `protected_symlinks`, but for all folders and for root too.
pub(super) fn is_trusted(owner: u32, folder_owner: u32, mode: u32, user: u32) -> bool {
    let may_be_moved = mode & (WRITABLE_BY_ALL | STICKY) == WRITABLE_BY_ALL;
    owner == user || owner == 0 || (owner == folder_owner && !may_be_moved)
}

/// The end of a walk.
#[derive(Debug)]
pub(super) enum WalkOutcome {
    /// A plain file that is there, or a name that nothing has.
    File(FolderEntry),
    /// Something else that can be written to.
    Stream(SpecialFile),
    Folder(Arc<OwnedFd>),
    /// A folder that there is not, and the way on from the last one that there is.
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

/// A pipe or device, or what a link of `/proc/self/fd` leads to.
#[derive(Debug)]
pub(super) struct SpecialFile {
    folder: Arc<OwnedFd>,
    name: OsString,
    /// The metadata seen there; `None` for a link of the system's.
    seen: Option<Stat>,
}

impl SpecialFile {
    /// Opens it. That of a pipe waits for its reader.
    ///
    /// # Errors
    /// Those of the system, and a file that took its place since it was found.
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
    /// True if it is of somebody whose word on its readers counts.
    pub(super) trusted: bool,
    /// The file, only to look at.
    pub(super) node: OwnedFd,
}

/// Finds what a path leads to. `make` makes a folder that is not there, or does not.
///
/// # Errors
/// A path that leads through a link that is not trusted, and those of the system.
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

/// Makes a folder of this name in an open one; whether there is one to go on with.
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

    /// Goes on along a path, before what was to follow.
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

    /// Goes one step; what was found if it was the last one.
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
            // Whatever is there now: a link in its place is looked at like any other.
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
        // Where everybody may write, somebody else may have given a link of the user's a second name there.
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
        // The links of `/proc/self/fd` lead to what is open, which need not have a name.
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

/// The identity of a file to be written: the folder, and the way on from there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlaceKey {
    device: u64,
    inode: u64,
    rest: PathBuf,
}

impl PlaceKey {
    /// The key of a path; `None` for what is no plain file, which may take more than one.
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
