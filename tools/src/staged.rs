//! Files that are written beside their places and moved there together, so that a run leaves all of
//! them whole or none.

mod pending;

use crate::run::errors;
use hostir::diag::Diag;
pub(crate) use pending::{end_process, end_soon};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where what is written to a path goes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    /// A plain file that is or will be there: what the path's links lead to.
    File(PathBuf),
    /// Something that is no plain file, and is not to become one: `/dev/null`, a pipe, a terminal.
    Stream(PathBuf),
}

/// What a path leads to.
fn target(path: &Path) -> Target {
    // The names of a process's own streams are links to whatever these are, plain files too.
    let own = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
    let own = own.iter().any(|name| path.starts_with(name));
    if std::fs::metadata(path).is_ok_and(|found| own || !found.is_file()) {
        return Target::Stream(path.to_path_buf());
    }
    if let Ok(place) = path.canonicalize() {
        return Target::File(place);
    }
    // Links to what is not there yet lead to where it will be; those that lead nowhere cannot be opened.
    let mut place = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Ok(next) = std::fs::read_link(&place) else { return Target::File(place) };
        place = place.parent().unwrap_or(Path::new("")).join(next);
    }
    Target::Stream(path.to_path_buf())
}

/// Links behind each other, as Linux follows them.
const MAX_LINKS: usize = 40;

/// Opens what is there, or makes a new file.
fn create(path: &Path, target: &Target) -> std::io::Result<std::fs::File> {
    match target {
        Target::Stream(_) => std::fs::OpenOptions::new().write(true).open(path),
        Target::File(_) => std::fs::File::create(path),
    }
}

/// Writes one file, which appears whole or not at all; `name` is what messages call it.
pub(crate) fn write_whole(name: &str, path: PathBuf, bytes: &[u8]) -> Result<(), Diag> {
    let mut staged = Staged::default();
    staged.add(path, bytes).map_err(|error| errors::cannot_write(name, &error))?;
    staged.commit()
}

/// Temporary files and new folders, removed unless the files were moved into place.
#[derive(Default, Debug)]
pub(crate) struct Staged {
    files: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl Staged {
    /// Writes a file's content beside its place.
    pub(crate) fn add(&mut self, path: PathBuf, bytes: &[u8]) -> std::io::Result<()> {
        self.write(path, |file| file.write_all(bytes))
    }

    /// Has a file's content written beside its place, piece by piece; what is no plain file gets it at once.
    pub(crate) fn write(
        &mut self,
        path: PathBuf,
        content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if path.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        let target = target(&path);
        let beside = match &target {
            Target::Stream(stream) => stream.clone(),
            Target::File(place) => self.beside(place),
        };
        let mut file = std::io::BufWriter::new(create(&beside, &target)?);
        content(&mut file)?;
        file.flush()
    }

    /// Where a file is until all are moved.
    fn beside(&mut self, place: &Path) -> PathBuf {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = self.files.len();
        let beside = place.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
        self.files.push((beside.clone(), place.to_path_buf()));
        pending::add(beside.clone());
        beside
    }

    /// Makes a folder and those that it is in.
    pub(crate) fn folder(&mut self, path: &Path) -> std::io::Result<()> {
        let new = path.ancestors().take_while(|folder| !folder.exists());
        let new: Vec<PathBuf> = new.map(Path::to_path_buf).collect();
        new.iter().rev().cloned().for_each(pending::add);
        self.folders.extend(new);
        std::fs::create_dir_all(path)
    }

    /// Moves all files into place.
    pub(crate) fn commit(mut self) -> Result<(), Diag> {
        let all = self.files.len();
        while let Some((beside, path)) = self.files.pop() {
            if let Err(error) = std::fs::rename(&beside, &path) {
                self.files.push((beside, path.clone()));
                let mut diag = errors::cannot_write(path.display(), &error);
                let moved = all - self.files.len();
                if moved > 0 {
                    self.keep_folders();
                    diag.notes = vec![format!("of {all} files {moved} were written before")];
                }
                return Err(diag);
            }
            pending::forget(&beside);
        }
        self.keep_folders();
        Ok(())
    }

    fn keep_folders(&mut self) {
        self.folders.drain(..).for_each(|folder| pending::forget(&folder));
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (beside, _) in &self.files {
            let _ = std::fs::remove_file(beside);
            pending::forget(beside);
        }
        // The innermost first; what somebody else has put into one keeps it.
        for folder in &self.folders {
            let _ = std::fs::remove_dir(folder);
            pending::forget(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn all_files_or_none() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("a"), "old").unwrap();
        let mut staged = Staged::default();
        staged.folder(&at("new/inner")).unwrap();
        staged.add(at("a"), b"new").unwrap();
        staged.add(at("new/inner/b"), b"new").unwrap();
        drop(staged);
        assert_eq!(
            (names(scratch.path()), std::fs::read(at("a")).unwrap()),
            (vec!["a".into()], b"old".to_vec())
        );
        let mut staged = Staged::default();
        staged.folder(&at("new/inner")).unwrap();
        staged.add(at("a"), b"new").unwrap();
        staged.add(at("new/inner/b"), b"new").unwrap();
        staged.commit().unwrap();
        assert_eq!(names(scratch.path()), ["a", "new"]);
        assert_eq!(std::fs::read(at("new/inner/b")).unwrap(), b"new");
    }

    #[test]
    fn what_could_not_be_moved_is_told_apart() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let mut staged = Staged::default();
        staged.add(at("a"), b"new").unwrap();
        staged.add(at("b"), b"new").unwrap();
        std::fs::create_dir(at("a")).unwrap();
        let diag = staged.commit().unwrap_err();
        assert_eq!((diag.code, &diag.notes[0][..]), ("H0602", "of 2 files 1 were written before"));
        assert_eq!(names(scratch.path()), ["a", "b"]);
    }

    #[test]
    fn links_are_followed_and_devices_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("null")).unwrap();
        let mut staged = Staged::default();
        staged.add(at("link"), b"new").unwrap();
        staged.add(at("null"), b"new").unwrap();
        staged.commit().unwrap();
        assert_eq!(std::fs::read(at("real")).unwrap(), b"new");
        assert!(at("link").is_symlink() && at("null").is_symlink());
        assert!(std::fs::read("/dev/null").unwrap().is_empty());
    }

    #[test]
    fn links_to_what_is_not_there_are_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink("folder/first", at("link")).unwrap();
        std::os::unix::fs::symlink("second", at("folder/first")).unwrap();
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        std::os::unix::fs::symlink("missing/file", at("astray")).unwrap();
        write_whole("link", at("link"), b"new").unwrap();
        assert!(at("link").is_symlink() && at("folder/first").is_symlink());
        assert_eq!(std::fs::read(at("folder/second")).unwrap(), b"new");
        for name in ["round", "astray"] {
            assert_eq!(write_whole(name, at(name), b"new").unwrap_err().code, "H0602");
            assert!(at(name).is_symlink());
        }
        assert_eq!(names(scratch.path()), ["astray", "folder", "link", "round"]);
    }

    #[test]
    fn what_a_path_leads_to() {
        for stream in ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert_eq!(target(Path::new(stream)), Target::Stream(stream.into()));
        }
        // Devices and plain files share a folder there.
        let memory = Path::new("/dev/shm");
        let scratch =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let scratch = scratch.unwrap();
        let file = scratch.path().join("file");
        assert_eq!(target(&file), Target::File(file.clone()));
        std::fs::write(&file, "longer than what comes").unwrap();
        write_whole("file", file.clone(), b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
    }
}
