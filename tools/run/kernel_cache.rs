//! Compiled kernels on disk, of hir-run and of the Python package: `kernels` in the folder that `HOSTIR_CACHE` names,
//! else in `$XDG_CACHE_HOME/hostir`, or `~/.cache/hostir`. `HOSTIR_CACHE=0` means none.
//!
//! Entries run on the GPU without being compiled again, so an entry counts only if nobody but this user can have
//! written it and it is complete. The folder has to belong to the user, and nobody else may write to it; an entry has
//! to be a plain file of the user (no link), and its content names its key and has a digest:
//!
//! | bytes | content |
//! |---|---|
//! | 16 | `hostir kernel 1\n`, the version of this format |
//! | 64 | the key, hexadecimal digits |
//! | 8 | the number of bytes of the image, little-endian |
//! | 32 | SHA-256 of the image |
//! | rest | the image, a cubin |
//!
//! Anything else is compiled again, with a warning, and replaced.

use hostir::diag::Diag;
use hostir::diag::message;
use hostir_cuda::ImageStore;
use hostir_tool_support::errors;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MAGIC: &[u8; 16] = b"hostir kernel 1\n";
const KEY_BYTES: usize = 64;
const HEADER_BYTES: usize = MAGIC.len() + KEY_BYTES + 8 + 32;
/// The largest entry that is read, in bytes; cubins of generated kernels take kilobytes.
const MAX_ENTRY_BYTES: u64 = 256 << 20;

/// A folder of compiled kernels, one a file.
#[derive(Debug)]
pub struct KernelCache {
    folder: PathBuf,
    warnings: Mutex<Vec<Diag>>,
}

impl KernelCache {
    /// Returns the user's cache; `None` if the environment disables it or names no absolute place for it. (Relative
    /// paths in `XDG_CACHE_HOME` are invalid by the XDG Base Directory Specification.) A relative path in
    /// `HOSTIR_CACHE` means none: code in an unexpected place would surprise.
    pub fn locate(env: fn(&str) -> Option<OsString>) -> Option<Self> {
        if let Some(own) = env("HOSTIR_CACHE").filter(|own| !own.is_empty()) {
            return Some(PathBuf::from(own)).filter(|own| own.is_absolute()).map(|own| Self::in_folder(&own));
        }
        let [cache, home] =
            ["XDG_CACHE_HOME", "HOME"].map(|name| env(name).map(PathBuf::from).filter(|path| path.is_absolute()));
        let cache = cache.or_else(|| Some(home?.join(".cache")))?;
        Some(Self::in_folder(&cache.join("hostir")))
    }

    fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.join("kernels"), warnings: Mutex::default() }
    }

    /// Returns the warnings about entries that could not be used, each once.
    pub fn take_warnings(&self) -> Vec<Diag> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add_warning(&self, path: &Path, problem: &str, repair: &str) {
        let message = message!("the kernel cache `{}` is not used: {}", path.display(), problem);
        let diag = Diag::global_error(errors::KERNEL_CACHE, message).with_note(repair).into_warning();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.iter().all(|known| known.message != diag.message) {
            warnings.push(diag);
        }
    }

    /// Opens the folder if nobody else can write to it; `None` if there is none.
    fn open_folder(&self) -> Result<Option<OwnedFd>, String> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(&self.folder, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err("it is a link or a file".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let stat = rustix::fs::fstat(&folder).map_err(|error| error.to_string())?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(format!("it belongs to user {}", stat.st_uid));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(format!("others may write to it (mode {:03o})", stat.st_mode & 0o777));
        }
        Ok(Some(folder))
    }

    /// Reads an entry of an open folder; `None` if there is none.
    fn read_entry(folder: &OwnedFd, key: &str) -> Result<Option<Vec<u8>>, String> {
        // Without NONBLOCK opening a pipe waits for its writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(folder, key, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err("it is a link".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let found = file.metadata().map_err(|error| error.to_string())?;
        if !found.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(format!("it belongs to user {}", found.uid()));
        }
        if found.len() > MAX_ENTRY_BYTES {
            return Err(format!("it has {} bytes", found.len()));
        }
        let mut bytes = Vec::new();
        let read = file.take(MAX_ENTRY_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        decode_entry(key, &bytes).map(|image| Some(image.to_vec())).ok_or("it is damaged".to_owned())
    }

    fn write_entry(&self, key: &str, image: &[u8]) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        if !matches!(self.open_folder(), Ok(Some(_))) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let mut file =
            tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o600)).tempfile_in(&self.folder)?;
        file.write_all(&encode_entry(key, image))?;
        file.persist(self.folder.join(key))?;
        Ok(())
    }
}

// SAFETY: an entry is taken only if its own digest fits its bytes and it names the key, from a folder that nobody
// but this user can write.
#[allow(unsafe_code, reason = "promises that entries are what was kept")]
unsafe impl ImageStore for KernelCache {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let folder = match self.open_folder() {
            Ok(folder) => folder?,
            Err(problem) => {
                let repair = "kernels are compiled in each run; make the folder your own with mode 0700, or remove it";
                self.add_warning(&self.folder, &problem, repair);
                return None;
            }
        };
        Self::read_entry(&folder, key).unwrap_or_else(|problem| {
            let repair = "the kernel is compiled again and the entry is replaced";
            self.add_warning(&self.folder.join(key), &problem, repair);
            None
        })
    }

    fn put(&self, key: &str, image: &[u8]) {
        // A read-only folder costs a compilation in each run and is no error.
        let _ = self.write_entry(key, image);
    }
}

fn encode_entry(key: &str, image: &[u8]) -> Vec<u8> {
    let length = (image.len() as u64).to_le_bytes();
    [MAGIC, key.as_bytes(), &length, &Sha256::digest(image), image].concat()
}

/// Returns the image of a complete entry for this key.
fn decode_entry<'b>(key: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let (header, image) = bytes.split_at_checked(HEADER_BYTES)?;
    (bytes == encode_entry(key, image)).then_some(image).filter(|_| header.starts_with(MAGIC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn cache(folder: &tempfile::TempDir) -> KernelCache {
        KernelCache::in_folder(&folder.path().join("hostir"))
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    /// Checks that the entry is refused with this problem, and that a new one replaces it.
    fn is_refused(cache: &KernelCache, problem: &str) {
        assert_eq!(cache.get(KEY), None);
        let warnings = cache.take_warnings();
        let [warning] = warnings.as_slice() else { panic!("one warning, not {warnings:?}") };
        assert_eq!(warning.code, "H0657");
        assert!(warning.message.ends_with(problem), "{warning:?}");
        cache.put(KEY, b"new");
        assert_eq!(cache.get(KEY).as_deref(), Some(&b"new"[..]), "{problem}");
        assert!(cache.take_warnings().is_empty());
    }

    #[test]
    fn keeps_images_where_only_the_user_writes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        assert_eq!(cache.get(KEY), None);
        cache.put(KEY, b"\x7fELF rest");
        assert_eq!(cache.get(KEY).unwrap(), b"\x7fELF rest");
        assert_eq!(mode(&cache.folder), 0o700);
        assert_eq!(mode(&cache.folder.join(KEY)), 0o600);
        assert_eq!(std::fs::read_dir(&cache.folder).unwrap().count(), 1, "nothing temporary stays");
        assert!(cache.take_warnings().is_empty());
    }

    #[test]
    fn compiles_again_what_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        cache.put(KEY, b"an image");
        let path = cache.folder.join(KEY);
        let whole = std::fs::read(&path).unwrap();
        let other_key = KEY.replace('0', "f");
        let mut flipped = whole.clone();
        flipped[HEADER_BYTES] ^= 1;
        let damaged: [&[u8]; 6] = [
            b"",
            b"\x7fELF",
            &whole[..HEADER_BYTES],
            &flipped,
            &[&whole[..], b"more"].concat(),
            &encode_entry(&other_key, b"an image of another kernel"),
        ];
        for bytes in damaged {
            std::fs::write(&path, bytes).unwrap();
            is_refused(&cache, "it is damaged");
        }
    }

    #[test]
    fn opens_plain_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        cache.put(KEY, b"an image");
        let path = cache.folder.join(KEY);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        is_refused(&cache, "it is a link");
        assert!(std::fs::read(&elsewhere).unwrap().ends_with(b"an image"), "the link is not followed");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        is_refused(&cache, "it is not a regular file");
    }

    #[test]
    fn leaves_a_folder_alone_that_others_write() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        cache.put(KEY, b"an image");
        let permissions = std::fs::Permissions::from_mode(0o775);
        std::fs::set_permissions(&cache.folder, permissions).unwrap();
        assert_eq!(cache.get(KEY), None);
        assert_eq!(cache.get("other"), None);
        cache.put("other", b"an image");
        let warnings = cache.take_warnings();
        let [warning] = warnings.as_slice() else { panic!("one warning, not {warnings:?}") };
        assert!(warning.message.ends_with("others may write to it (mode 775)"), "{warning:?}");
        assert!(!cache.folder.join("other").exists());
    }

    #[test]
    fn follows_no_link_to_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir_all(folder.path().join("hostir")).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &cache.folder).unwrap();
        cache.put(KEY, b"an image");
        assert_eq!(cache.get(KEY), None);
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
        assert!(cache.take_warnings()[0].message.ends_with("it is a link or a file"));
    }

    #[test]
    fn wants_an_absolute_path() {
        let relative = |name: &str| (name == "XDG_CACHE_HOME").then(|| OsString::from("cache"));
        assert!(KernelCache::locate(relative).is_none());
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/somewhere"));
        let folder = KernelCache::locate(home).unwrap().folder;
        assert_eq!(folder, Path::new("/somewhere/.cache/hostir/kernels"));
    }

    #[test]
    fn a_variable_of_its_own_comes_first() {
        let folder = |env: fn(&str) -> Option<OsString>| KernelCache::locate(env).map(|cache| cache.folder);
        let named = |name: &str| Some(OsString::from(if name == "HOSTIR_CACHE" { "/own" } else { "/other" }));
        assert_eq!(folder(named).unwrap(), Path::new("/own/kernels"));
        let empty = |name: &str| Some(OsString::from(if name == "HOSTIR_CACHE" { "" } else { "/other" }));
        assert_eq!(folder(empty).unwrap(), Path::new("/other/hostir/kernels"));
        for none in ["0", "relative"] {
            let off: fn(&str) -> Option<OsString> = match none {
                "0" => |name| Some(OsString::from(if name == "HOSTIR_CACHE" { "0" } else { "/other" })),
                _ => |name| Some(OsString::from(if name == "HOSTIR_CACHE" { "relative" } else { "/other" })),
            };
            assert_eq!(folder(off), None, "{none}");
        }
    }
}
