//! `diff`, `sed`, `cat`, `rm`, `mkdir`, `cp` and `env`.

use super::{Finished, Invocation};
use crate::exec::Context;
use crate::tree;
use std::path::{Path, PathBuf};

/// Takes `NAME=value` and `-u NAME` off the front of `args`; returns the rest.
pub(super) fn environment<'a>(args: &'a [String], env: &mut Vec<(String, Option<String>)>) -> &'a [String] {
    let mut rest = args;
    loop {
        match rest {
            [flag, name, after @ ..] if flag == "-u" => {
                env.push((name.clone(), None));
                rest = after;
            }
            [first, after @ ..] if first.contains('=') => {
                let (name, value) = first.split_once('=').unwrap_or((first, ""));
                env.push((name.to_owned(), Some(value.to_owned())));
                rest = after;
            }
            _ => return rest,
        }
    }
}

/// `cat FILE...`; `-` or nothing is the standard input.
pub(super) fn cat(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let mut out = Vec::new();
    let input = ["-".to_owned()];
    for arg in if args.is_empty() { &input } else { args } {
        match load(arg, invocation) {
            Ok(bytes) => out.extend(bytes),
            Err(error) => return Finished::failure(1, &error),
        }
    }
    Finished::success(out)
}

/// `sed s/REGEX/TEXT/[g] [FILE]`: one substitution, with any character for `/`.
pub(super) fn sed(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let Some((script, files)) = args.split_first() else {
        return Finished::failure(2, "sed needs a script");
    };
    let mut parts = script.strip_prefix('s').into_iter().flat_map(|rest| {
        let mark = rest.chars().next().unwrap_or('/');
        rest.split(mark).skip(1)
    });
    let (Some(pattern), Some(text), Some(flags)) = (parts.next(), parts.next(), parts.next()) else {
        return Finished::failure(2, "sed takes s/REGEX/TEXT/ or s/REGEX/TEXT/g");
    };
    let regex = match regex::Regex::new(pattern) {
        Ok(regex) => regex,
        Err(error) => return Finished::failure(2, &error.to_string()),
    };
    let input = cat(files, invocation);
    let Ok(content) = String::from_utf8(input.out.clone()) else { return input };
    let replace = |line: &str| match flags {
        "g" => regex.replace_all(line, text).into_owned(),
        _ => regex.replace(line, text).into_owned(),
    };
    Finished::success(content.split_inclusive('\n').map(replace).collect::<String>().into_bytes())
}

/// `diff EXPECTED FOUND`; one of them may be `-`. With `HIR_BLESS=1` an expectation inside the
/// repository is rewritten instead.
pub(super) fn diff(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let files: Vec<&String> = args.iter().filter(|arg| *arg == "-" || !arg.starts_with('-')).collect();
    let [expected, found] = files[..] else {
        return Finished::failure(2, "diff needs two files");
    };
    let right = match load(found, invocation) {
        Ok(bytes) => bytes,
        Err(error) => return Finished::failure(2, &error),
    };
    let left = load(expected, invocation);
    if left.as_ref() == Ok(&right) {
        return Finished::success(Vec::new());
    }
    let path = invocation.context.scratch.join(expected);
    if invocation.context.bless && path.starts_with(tree::root()) {
        return match std::fs::write(&path, &right) {
            Ok(()) => Finished::success(Vec::new()),
            Err(error) => Finished::failure(2, &format!("{}: {error}", path.display())),
        };
    }
    match left {
        Ok(left) => Finished { code: 1, out: difference(&left, &right).into_bytes(), err: Vec::new() },
        Err(error) => Finished::failure(2, &format!("{error} (HIR_BLESS=1 writes it)")),
    }
}

/// The lines between the common start and the common end.
fn difference(left: &[u8], right: &[u8]) -> String {
    let (left, right) = (String::from_utf8_lossy(left), String::from_utf8_lossy(right));
    let a: Vec<&str> = left.split_inclusive('\n').collect();
    let b: Vec<&str> = right.split_inclusive('\n').collect();
    let start = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tails = a[start..].iter().rev().zip(b[start..].iter().rev());
    let end = tails.take_while(|(x, y)| x == y).count();
    let mut out = format!("@@ line {} @@\n", start + 1);
    for (sign, lines) in [('-', &a[start..a.len() - end]), ('+', &b[start..b.len() - end])] {
        for line in lines {
            out.push(sign);
            out.push_str(line.trim_end_matches('\n'));
            out.push_str(if line.ends_with('\n') { "\n" } else { "\n\\ no line break at the end\n" });
        }
    }
    out
}

fn load(name: &str, invocation: &Invocation<'_>) -> Result<Vec<u8>, String> {
    if name == "-" {
        return Ok(invocation.stdin.clone());
    }
    let path = invocation.context.scratch.join(name);
    std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// `rm [-r] [-f] PATH...`, below the test's temporary folder only.
pub(super) fn remove(args: &[String], context: &Context) -> Finished {
    let force = args.iter().any(|arg| arg.starts_with('-') && arg.contains('f'));
    for path in paths(args, context) {
        if !path.starts_with(&context.scratch) {
            return Finished::failure(1, &format!("rm: {} is outside of the test's folder", path.display()));
        }
        let result = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        if let Err(error) = result
            && !force
        {
            return Finished::failure(1, &format!("rm: {}: {error}", path.display()));
        }
    }
    Finished::success(Vec::new())
}

/// `mkdir [-p] PATH...`
pub(super) fn make_folders(args: &[String], context: &Context) -> Finished {
    for path in paths(args, context) {
        if let Err(error) = std::fs::create_dir_all(&path) {
            return Finished::failure(1, &format!("mkdir: {}: {error}", path.display()));
        }
    }
    Finished::success(Vec::new())
}

/// `cp FROM TO`
pub(super) fn copy(args: &[String], context: &Context) -> Finished {
    let files: Vec<PathBuf> = paths(args, context).collect();
    let [from, to] = &files[..] else {
        return Finished::failure(1, "cp needs two files");
    };
    let target = if to.is_dir() { to.join(from.file_name().unwrap_or_default()) } else { to.clone() };
    match std::fs::copy(from, &target) {
        Ok(_) => Finished::success(Vec::new()),
        Err(error) => Finished::failure(1, &format!("cp: {}: {error}", from.display())),
    }
}

fn paths<'a>(args: &'a [String], context: &'a Context) -> impl Iterator<Item = PathBuf> + 'a {
    args.iter().filter(|arg| !arg.starts_with('-')).map(|arg| context.scratch.join(Path::new(arg)))
}
