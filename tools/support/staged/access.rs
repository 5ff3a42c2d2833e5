//! Access to a file that replaces another one: mode, owner, group and ACL.

use super::place::ReplacedFile;
use rustix::fs::{Gid, Mode, Uid, XattrFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

const ACL: &str = "system.posix_acl_access";
/// The maximum size of an access control list that Linux writes.
const MAX_ACL: usize = 64 << 10;

/// Gives a new file the owner, group, mode and ACL of the file that it replaces.
///
/// Attributes that the user may not set stay; nobody gets access who had none before. The attributes of a stranger's
/// file, which may have been put there to read the new one, restrict access but do not grant it.
///
/// # Errors
/// If the mode cannot be set.
pub(super) fn copy_access(old: &ReplacedFile, new: &File) -> io::Result<()> {
    let permissions = old.stat.st_mode & 0o777;
    if !old.trusted {
        let made = rustix::fs::fstat(new)?.st_mode;
        return set_mode(new, made & (permissions | 0o600));
    }
    let made = rustix::fs::fstat(new)?;
    let (owner, group) = (Uid::from_raw(old.stat.st_uid), Gid::from_raw(old.stat.st_gid));
    let group_kept = made.st_gid == old.stat.st_gid || rustix::fs::fchown(new, None, Some(group)).is_ok();
    let acl_kept = copy_acl(&old.node, new);
    set_mode(new, if group_kept && acl_kept { permissions } else { without_group(permissions) })?;
    // Last: after giving a file away the user may not change it. Only root may do that.
    if made.st_uid != old.stat.st_uid {
        let _ = rustix::fs::fchown(new, Some(owner), None);
    }
    Ok(())
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// A mode in which the group gets no more than the others, if it was among the others or an ACL narrowed its rights.
fn without_group(mode: u32) -> u32 {
    let group = (mode & 0o007) << 3;
    mode & 0o707 | mode & 0o070 & group
}

/// Copies the access control list; returns true if the new file has none or the right one.
fn copy_acl(old: &OwnedFd, new: &File) -> bool {
    // A path-only descriptor has no attributes itself.
    let path = format!("/proc/self/fd/{}", old.as_raw_fd());
    let mut list = vec![0; MAX_ACL];
    match rustix::fs::getxattr(path, ACL, &mut list) {
        Ok(length) => rustix::fs::fsetxattr(new, ACL, &list[..length], XattrFlags::empty()).is_ok(),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => {
            // A folder's default list is for new files, not for those that replace others.
            let _ = rustix::fs::fremovexattr(new, ACL);
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_group_gets_what_others_have() {
        let cases = [(0o660, 0o600), (0o644, 0o644), (0o664, 0o644), (0o640, 0o600), (0o606, 0o606)];
        for (mode, kept) in cases {
            assert_eq!(without_group(mode), kept, "{mode:o}");
        }
    }
}
