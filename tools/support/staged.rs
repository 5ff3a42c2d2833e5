//! Staged files: written beside their places and moved there together, so that a run leaves all of them complete or
//! none. The tools write files in no other way.
//!
//! | at the path | what happens |
//! |---|---|
//! | nothing | a new file; its mode follows the umask and the folder's default ACL |
//! | a plain file | a new file in its place with its mode, owner, group and ACL, as far as the system lets the user set them; never readable or writable by more people than before |
//! | a symbolic link | what it leads to, if the link is of somebody to trust (`place::is_trusted`); else an error |
//! | a pipe or device | written to at once, if it is of somebody to trust; else an error |
//! | a folder | an error |
//!
//! Other hard links of a replaced file keep the old content.

mod access;
mod pending;
mod place;

use crate::errors;
use hostir::diag::Diag;
use hostir::diag::message;
use pending::TemporaryEntry;
pub use pending::{end_at_once, end_process, end_soon};
pub use place::PlaceKey;
use place::{FolderEntry, SpecialFile, WalkOutcome, WriteRefusal};
use rustix::fs::{Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of bytes of a file's name in the name of its temporary file.
const NAME: usize = 100;

/// Writes one file, which appears whole or not at all; `name` is what messages call it.
///
/// # Errors
/// [`errors::WRITE`] or [`errors::FOREIGN`].
pub fn write_whole(name: &str, path: PathBuf, bytes: &[u8]) -> Result<(), Diag> {
    let mut staged = StagedFiles::default();
    staged.add_file(name, &path, bytes)?;
    staged.commit()
}

/// Writes an existing file as [`write_whole`] does, unless it is read-only: the new file replaces the old one, whose
/// own mode does not prevent that.
///
/// # Errors
/// [`errors::WRITE`] or [`errors::FOREIGN`].
pub fn replace_file(name: &str, path: PathBuf, bytes: &[u8]) -> Result<(), Diag> {
    if std::fs::metadata(&path).is_ok_and(|meta| meta.permissions().readonly()) {
        let message = message!("cannot write `{}`: the file is read-only", name);
        return Err(Diag::global_error(errors::WRITE, message)
            .with_note("nothing was changed; make it writable, or change a copy"));
    }
    write_whole(name, path, bytes)
}

/// Temporary files and new folders, which are removed unless the files were moved into place.
#[derive(Default, Debug)]
pub struct StagedFiles {
    files: Vec<StagedMove>,
    folders: Vec<TemporaryEntry>,
}

/// A file that is to be moved.
#[derive(Debug)]
struct StagedMove {
    beside: TemporaryEntry,
    name: OsString,
    /// Its name in messages.
    shown: String,
}

impl StagedFiles {
    /// Writes a file's content beside its place; `name` is its name in messages.
    ///
    /// # Errors
    /// [`errors::WRITE`] or [`errors::FOREIGN`].
    pub fn add_file(&mut self, name: &str, path: &Path, bytes: &[u8]) -> Result<(), Diag> {
        self.write_file(name, path, |file| file.write_all(bytes))
    }

    /// Writes a file's content beside its place, piece by piece; a file that is not plain gets it at once.
    ///
    /// # Errors
    /// [`errors::WRITE`] or [`errors::FOREIGN`].
    pub fn write_file(
        &mut self,
        name: &str,
        path: &Path,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Diag> {
        let written = self.open_target(name, path).and_then(|file| {
            let mut file = io::BufWriter::new(file);
            content(&mut file)?;
            Ok(file.flush()?)
        });
        written.map_err(|refusal| refusal_diag(name, refusal))
    }

    /// Opens what a file's content is written to.
    fn open_target(&mut self, shown: &str, path: &Path) -> Result<File, WriteRefusal> {
        if let Some(own) = inherited_stream(path) {
            return Ok(own?);
        }
        Ok(match find_file(path)? {
            WriteTarget::File(spot) => self.open_temporary(shown, spot)?,
            WriteTarget::Stream(stream) => stream.open()?,
        })
    }

    /// Creates the file beside its place until all are moved.
    fn open_temporary(&mut self, shown: &str, spot: FolderEntry) -> io::Result<File> {
        let FolderEntry { folder, name, old } = spot;
        // The file has the final restrictions from the start, so nobody else can open it early.
        let mode = if old.as_ref().is_some_and(|old| old.trusted) { 0o600 } else { 0o666 };
        let (beside, file) = create_temporary(&folder, &name, Mode::from_raw_mode(mode))?;
        self.files.push(StagedMove { beside, name, shown: shown.to_owned() });
        if let Some(old) = &old {
            access::copy_access(old, &file)?;
        }
        Ok(file)
    }

    /// Makes a folder and its parents; `name` is its name in messages.
    ///
    /// # Errors
    /// [`errors::WRITE`] or [`errors::FOREIGN`].
    pub fn create_folder(&mut self, name: &str, path: &Path) -> Result<(), Diag> {
        let made = std::cell::RefCell::new(&mut self.folders);
        let make = |folder: &Arc<OwnedFd>, name: &OsStr| {
            made.borrow_mut().push(TemporaryEntry::create_folder(folder, name)?);
            Ok(true)
        };
        match place::find_target(path, &make) {
            Ok(WalkOutcome::Folder(_)) => Ok(()),
            Ok(_) => Err(refusal_diag(name, io::Error::from(io::ErrorKind::NotADirectory).into())),
            Err(refusal) => Err(refusal_diag(name, refusal)),
        }
    }

    /// Moves all files into place.
    ///
    /// # Errors
    /// [`errors::WRITE`]
    pub fn commit(mut self) -> Result<(), Diag> {
        let all = self.files.len();
        while let Some(file) = self.files.pop() {
            let Err(error) = file.beside.rename(&file.name) else { continue };
            let mut diag = errors::cannot_write(&file.shown, &error);
            self.files.push(file);
            let moved = all - self.files.len();
            if moved > 0 {
                self.keep_folders();
                diag.notes = vec![format!("{moved} of {all} files were written before the failure").into()];
            }
            return Err(diag);
        }
        self.keep_folders();
        Ok(())
    }

    fn keep_folders(&mut self) {
        self.folders.drain(..).for_each(TemporaryEntry::keep);
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        self.files.clear();
        // The innermost first; a folder with somebody else's files stays.
        while self.folders.pop().is_some() {}
    }
}

/// The destination of a file's content.
enum WriteTarget {
    File(FolderEntry),
    Stream(SpecialFile),
}

/// Resolves a path, which may be neither a folder nor without one.
fn find_file(path: &Path) -> Result<WriteTarget, WriteRefusal> {
    match place::find_target(path, &|_, _| Ok(false))? {
        WalkOutcome::File(spot) => Ok(WriteTarget::File(spot)),
        WalkOutcome::Stream(stream) => Ok(WriteTarget::Stream(stream)),
        WalkOutcome::Folder(_) => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
        WalkOutcome::Missing(..) => Err(io::Error::from(io::ErrorKind::NotFound).into()),
    }
}

/// Checks as far as possible that a file could be written; `name` is its name in messages.
///
/// # Errors
/// [`errors::WRITE`] or [`errors::FOREIGN`].
pub fn check_file(name: &str, path: &Path) -> Result<(), Diag> {
    if inherited_stream(path).is_none() {
        find_file(path).map_err(|refusal| refusal_diag(name, refusal))?;
    }
    Ok(())
}

/// Checks that a path is a folder, or could be made one; `name` is its name in messages.
///
/// # Errors
/// [`errors::WRITE`] or [`errors::FOREIGN`].
pub fn is_folder_or_free(name: &str, path: &Path) -> Result<bool, Diag> {
    match place::find_target(path, &|_, _| Ok(false)) {
        Ok(WalkOutcome::Folder(_) | WalkOutcome::Missing(..)) => Ok(true),
        Ok(WalkOutcome::File(spot)) => Ok(spot.old.is_none()),
        Ok(WalkOutcome::Stream(_)) => Ok(false),
        // `new/` is as good as `new`.
        Err(WriteRefusal::Io(error)) if error.kind() == io::ErrorKind::IsADirectory => Ok(true),
        Err(WriteRefusal::Io(error)) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(refusal) => Err(refusal_diag(name, refusal)),
    }
}

/// A new file with an unguessable name, in the folder of the file that it becomes.
fn create_temporary(folder: &Arc<OwnedFd>, name: &OsStr, mode: Mode) -> io::Result<(TemporaryEntry, File)> {
    let prefix = [b".", &name.as_bytes()[..name.len().min(NAME)], b"."].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = tempfile::Builder::new()
        .prefix(OsStr::from_bytes(&prefix))
        .suffix(".tmp")
        .rand_bytes(12)
        // The cleanup has to hold the folder, not its path.
        .disable_cleanup(true)
        .make_in("", |path| {
            // The folder comes before the name, but the name belongs to another one.
            let name = path.file_name().unwrap_or(path.as_os_str());
            TemporaryEntry::create_file(folder, name, flags, mode)
        })?;
    let (temporary, file) = made.into_parts().0;
    Ok((temporary, file))
}

/// A copy of this process's standard output or error, if a path names it: writes go after earlier output, also in a
/// plain file.
fn inherited_stream(path: &Path) -> Option<io::Result<File>> {
    let copy = match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => crate::standard_output::duplicate_stdout(),
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        _ => return None,
    };
    Some(copy)
}

/// The error with the reason why `name` is not written.
fn refusal_diag(name: &str, refusal: WriteRefusal) -> Diag {
    match refusal {
        WriteRefusal::Io(error) => errors::cannot_write(name, &error),
        WriteRefusal::Foreign { what, path, owner, target } => {
            let path = path.display();
            let who = if owner == rustix::process::geteuid().as_raw() {
                "is a hard link to one of your files in a folder that everybody may write to, where another user may have put it".to_owned()
            } else {
                format!("belongs to user {owner}, who may have put it there")
            };
            let message = message!("cannot write `{}`: the {} `{}` {} to overwrite other files", name, what, path, who);
            let note = match target {
                Some(target) => format!(
                    "nothing was written; to write `{}`, name it instead of the link, else remove the link or use another folder",
                    target.display()
                ),
                None => {
                    format!("nothing was written; remove the {what}, or use another folder")
                }
            };
            Diag::global_error(errors::FOREIGN, message).with_note(note)
        }
    }
}

#[cfg(test)]
mod tests;
