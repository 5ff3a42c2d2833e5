//! Everything that may be at the place of a file: files, links, pipes, devices and folders, of the user and of others.

use super::place::is_trusted;
use super::*;
use rustix::fs::{Gid, Uid};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a link or file to another user, as only root can; returns whether that worked.
fn give_away(path: &Path) -> bool {
    let (user, group) = (Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534)));
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::process::geteuid().is_root() && rustix::fs::chownat(rustix::fs::CWD, path, user, group, flags).is_ok()
}

/// Reports that a test does not run, and why, past the test runner, which captures output of tests.
fn skipped(test: &str) {
    let line = format!("skipped: {test} needs root, who alone can give files to other users\n");
    let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
}

fn write(path: &Path) -> Result<(), Diag> {
    write_whole("it", path.to_path_buf(), b"new")
}

#[test]
fn all_files_or_none() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("a"), "old").unwrap();
    let stage = || {
        let mut staged = StagedFiles::default();
        staged.create_folder("new/inner", &at("new/inner")).unwrap();
        staged.add_file("a", &at("a"), b"new").unwrap();
        staged.add_file("b", &at("new/inner/b"), b"new").unwrap();
        staged
    };
    let staged = stage();
    let [beside] = &names(&at("new/inner"))[..] else { panic!("one file is there") };
    assert!(beside.starts_with(".b.") && beside.ends_with(".tmp"), "{beside}");
    drop(staged);
    assert_eq!(names(scratch.path()), ["a"]);
    assert_eq!(std::fs::read(at("a")).unwrap(), b"old");
    stage().commit().unwrap();
    assert_eq!(names(scratch.path()), ["a", "new"]);
    assert_eq!(std::fs::read(at("a")).unwrap(), b"new");
    assert_eq!(std::fs::read(at("new/inner/b")).unwrap(), b"new");
    assert_eq!(names(&at("new/inner")), ["b"]);
}

#[test]
fn what_could_not_be_moved_is_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let mut staged = StagedFiles::default();
    staged.add_file("a", &at("a"), b"new").unwrap();
    staged.add_file("b", &at("b"), b"new").unwrap();
    std::fs::create_dir(at("a")).unwrap();
    let diag = staged.commit().unwrap_err();
    assert_eq!((diag.code, &diag.notes[0][..]), ("H0602", "1 of 2 files were written before the failure"));
    assert_eq!(names(scratch.path()), ["a", "b"]);
}

#[test]
fn links_are_followed_and_devices_stay() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("real"), "old").unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    symlink("real", at("link")).unwrap();
    symlink("../real", at("folder/up")).unwrap();
    symlink("/dev/null", at("null")).unwrap();
    symlink(scratch.path(), at("round")).unwrap();
    for name in ["link", "folder/up", "null", "round/round/link"] {
        std::fs::write(at("real"), "old").unwrap();
        write(&at(name)).unwrap();
        let expected: &[u8] = if name == "null" { b"old" } else { b"new" };
        assert_eq!(std::fs::read(at("real")).unwrap(), expected, "{name}");
    }
    assert!(at("link").is_symlink() && at("null").is_symlink() && at("folder/up").is_symlink());
    assert_eq!(names(scratch.path()), ["folder", "link", "null", "real", "round"]);
}

#[test]
fn links_to_what_is_not_there_are_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::create_dir(at("folder")).unwrap();
    symlink("folder/first", at("link")).unwrap();
    symlink("second", at("folder/first")).unwrap();
    symlink("round", at("round")).unwrap();
    symlink("missing/file", at("astray")).unwrap();
    write(&at("link")).unwrap();
    assert!(at("link").is_symlink() && at("folder/first").is_symlink());
    assert_eq!(std::fs::read(at("folder/second")).unwrap(), b"new");
    for name in ["round", "astray", "link/below", "folder", "new/", "no/../link", ""] {
        let path = if name.is_empty() { PathBuf::new() } else { at(name) };
        assert_eq!(write(&path).unwrap_err().code, "H0602", "{name}");
    }
    assert_eq!(names(scratch.path()), ["astray", "folder", "link", "round"]);
}

/// Names up to the longest that there are.
#[test]
fn long_names() {
    let scratch = tempfile::tempdir().unwrap();
    let name = "x".repeat(255);
    write(&scratch.path().join(&name)).unwrap();
    assert_eq!(names(scratch.path()), [name]);
}

#[test]
fn modes_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("plain"), "").unwrap();
    let usual = mode(&at("plain"));
    for kept in [0o600, 0o400, 0o640, 0o644, 0o666, 0o755] {
        std::fs::write(at("old"), "old").unwrap();
        set_mode(&at("old"), kept);
        let mut staged = StagedFiles::default();
        staged.add_file("old", &at("old"), b"new").unwrap();
        // Before it is moved it is as restricted as after, and in the same folder.
        assert_eq!(names(scratch.path()).len(), 3);
        for name in names(scratch.path()) {
            assert!(name == "plain" || mode(&at(&name)) == kept, "{name} {kept:o}");
        }
        staged.commit().unwrap();
        assert_eq!((mode(&at("old")), std::fs::read(at("old")).unwrap()), (kept, b"new".to_vec()));
        std::fs::remove_file(at("old")).unwrap();
    }
    write(&at("fresh")).unwrap();
    assert_eq!(mode(&at("fresh")), usual, "a new file follows the umask");
}

/// Only root can make files of others.
#[test]
fn owners_are_kept_as_far_as_they_are_trusted() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::create_dir(at("theirs")).unwrap();
    let (own, theirs) = (at("file"), at("theirs/file"));
    for path in [&own, &theirs] {
        std::fs::write(path, "old").unwrap();
        set_mode(path, 0o666);
        if !give_away(path) {
            return skipped("owners_are_kept_as_far_as_they_are_trusted");
        }
    }
    assert!(give_away(&at("theirs")));
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    // Of the folder's owner: kept. Of a stranger, who may have put it there to read the new content: not.
    write(&theirs).unwrap();
    write(&own).unwrap();
    assert_eq!((owner(&theirs), mode(&theirs)), (65534, 0o666));
    assert_eq!((owner(&own), mode(&own) & 0o022), (0, 0));
}

/// The rule, as a function of owners: user 7 writes to folders of 5, 6 and root.
#[test]
fn whose_links_are_followed() {
    let user = 7;
    for mode in [0o700, 0o755, 0o775, 0o777, 0o1777] {
        assert!(is_trusted(7, 5, mode, user), "his own, {mode:o}");
        assert!(is_trusted(0, 5, mode, user), "root's, {mode:o}");
        assert!(!is_trusted(6, 5, mode, user), "a stranger's, {mode:o}");
        assert!(!is_trusted(6, 7, mode, user), "a stranger's in his own folder, {mode:o}");
        assert!(!is_trusted(6, 0, mode, user), "a stranger's in root's folder, {mode:o}");
        assert!(!is_trusted(6, 5, mode, 0), "root follows no stranger's, {mode:o}");
        // Where all may rename files in the folder, anybody may have put its owner's link there.
        assert_eq!(is_trusted(5, 5, mode, user), mode != 0o777, "the folder's owner's, {mode:o}");
    }
}

/// Files that somebody else plants where all may write: only root can act as somebody else.
#[test]
fn planted_links_are_refused() {
    for folder_mode in [0o777, 0o1777] {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("private")).unwrap();
        std::fs::create_dir(at("shared")).unwrap();
        set_mode(&at("shared"), folder_mode);
        std::fs::write(at("private/precious"), "old").unwrap();
        symlink("../private/precious", at("shared/file")).unwrap();
        symlink("../private/new", at("shared/dangling")).unwrap();
        symlink("../private", at("shared/folder")).unwrap();
        symlink("shared/file", at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("shared/pipe"), Mode::from_raw_mode(0o666)).unwrap();
        let planted = ["file", "dangling", "folder", "pipe"];
        if !planted.iter().all(|name| give_away(&at("shared").join(name))) {
            return skipped("planted_links_are_refused");
        }
        for name in ["shared/file", "shared/dangling", "shared/folder/precious", "link"] {
            let diag = write(&at(name)).unwrap_err();
            assert_eq!(diag.code, "H0660", "{name}");
            assert!(diag.message.contains("/shared/") && diag.message.contains("user 65534"), "{diag:?}");
            assert!(diag.notes[0].contains("/private"), "{diag:?}");
        }
        // The pipe is not opened, which would wait for its reader.
        assert!(write(&at("shared/pipe")).unwrap_err().message.contains("the pipe `"));
        let mut staged = StagedFiles::default();
        assert_eq!(staged.create_folder("x", &at("shared/folder/x")).unwrap_err().code, "H0660");
        drop(staged);
        assert_eq!(names(&at("private")), ["precious"]);
        assert_eq!(std::fs::read(at("private/precious")).unwrap(), b"old");
        assert_eq!(names(&at("shared")), ["dangling", "file", "folder", "pipe"]);
    }
}

/// A link of one's own, to which somebody else gave a second name where everybody may write.
#[test]
fn second_names_of_own_links_are_refused() {
    for folder_mode in [0o777, 0o1777] {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("shared")).unwrap();
        std::fs::write(at("precious"), "old").unwrap();
        symlink(at("precious"), at("link")).unwrap();
        symlink(at("precious"), at("shared/own")).unwrap();
        set_mode(&at("shared"), folder_mode);
        // Alone in its folder a link of one's own is followed.
        write(&at("shared/own")).unwrap();
        assert_eq!(std::fs::read(at("precious")).unwrap(), b"new");
        std::fs::write(at("precious"), "old").unwrap();
        // The link itself, not what it leads to.
        let (here, flags) = (rustix::fs::CWD, rustix::fs::AtFlags::empty());
        rustix::fs::linkat(here, at("link"), here, at("shared/second"), flags).unwrap();
        let diag = write(&at("shared/second")).unwrap_err();
        assert_eq!(diag.code, "H0660");
        assert!(diag.message.contains("a hard link to one of your files"), "{diag:?}");
        assert_eq!(std::fs::read(at("precious")).unwrap(), b"old");
        // Where nobody else writes, both names are the user's.
        set_mode(&at("shared"), 0o755);
        write(&at("shared/second")).unwrap();
    }
}

/// A link that appears after the check is replaced, not followed; so is one in the place of a temporary file.
#[test]
fn links_that_come_late_are_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("precious"), "old").unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let mut staged = StagedFiles::default();
    staged.add_file("file", &at("folder/file"), b"new").unwrap();
    symlink("../precious", at("folder/file")).unwrap();
    // The folder is the opened one, whatever has its name now.
    std::fs::rename(at("folder"), at("moved")).unwrap();
    symlink(scratch.path(), at("folder")).unwrap();
    staged.commit().unwrap();
    assert_eq!(names(&at("moved")), ["file"]);
    assert!(!at("moved/file").is_symlink());
    assert_eq!(std::fs::read(at("precious")).unwrap(), b"old");
}

#[test]
fn streams_are_written_to() {
    use std::os::fd::AsRawFd as _;
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    for name in ["/dev/null", "/dev/stderr", "/proc/self/fd/2"] {
        write_whole(name, name.into(), b"").unwrap();
    }
    assert!(std::fs::read("/dev/null").unwrap().is_empty());
    // An open file is written by its number, also without a name.
    let (mut reader, writer) = std::io::pipe().unwrap();
    symlink(format!("/dev/fd/{}", writer.as_raw_fd()), at("link")).unwrap();
    write(&at("link")).unwrap();
    drop(writer);
    let mut found = Vec::new();
    io::Read::read_to_end(&mut reader, &mut found).unwrap();
    assert_eq!(found, b"new");
    let pipe = at("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).unwrap()
    });
    write(&pipe).unwrap();
    assert_eq!(reader.join().unwrap(), b"new");
    assert_eq!(names(scratch.path()), ["link", "pipe"]);
}

/// Places are the same however they are spelled, whether a file exists or not.
#[test]
fn places_by_their_keys() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| PlaceKey::for_path(&scratch.path().join(name));
    std::fs::create_dir(scratch.path().join("folder")).unwrap();
    symlink("folder/a", scratch.path().join("link")).unwrap();
    symlink("/dev/null", scratch.path().join("null")).unwrap();
    for _ in 0..2 {
        assert_eq!(at("folder/a"), at("./folder/../link"));
        assert_ne!(at("folder/a"), at("a"));
        std::fs::write(scratch.path().join("folder/a"), "").unwrap();
    }
    assert_eq!(at("new/a"), at("./new/./a"));
    assert_ne!(at("new/a"), at("new/b"));
    assert_eq!(at("null"), None);
}
