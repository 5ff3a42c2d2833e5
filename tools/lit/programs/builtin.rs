//! `diff`, `cat`, `rm`, `mkdir`, `cp`, `echo` and `env`, in the forms that tests use most. With other options the
//! system's programs run.

use super::call::{Finished, Invocation};
use crate::context::Environment;
use similar::TextDiff;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs a program of a shell; `None` if it is none of these, or if its options are for the system's program.
pub(super) fn run_builtin(program: &str, args: &[String], invocation: &Invocation<'_>) -> Option<Finished> {
    let options: Vec<&str> = args.iter().map(String::as_str).filter(|arg| arg.len() > 1 && is_option(arg)).collect();
    match program {
        "diff" if options.iter().all(|option| ["-u", "-U3"].contains(option)) => Some(diff(args, invocation)),
        "cat" if options.is_empty() => Some(cat(args, invocation)),
        "rm" if options.iter().all(|option| ["-r", "-f", "-rf", "-fr"].contains(option)) => {
            Some(remove(args, invocation))
        }
        "mkdir" if options.iter().all(|option| *option == "-p") => Some(make_folders(args, invocation)),
        "cp" if options.is_empty() => copy(args, invocation),
        "echo" if options.is_empty() => Some(Finished::success(format!("{}\n", args.join(" ")).into_bytes())),
        "true" | ":" => Some(Finished::success(Vec::new())),
        "false" => Some(Finished { code: 1, out: Vec::new(), err: Vec::new() }),
        "env" if args.is_empty() => Some(Finished::success(list_variables(&invocation.env).into_bytes())),
        _ => None,
    }
}

fn is_option(arg: &str) -> bool {
    arg.starts_with('-')
}

fn list_variables(env: &Environment) -> String {
    env.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// True if the arguments of `env` begin with variables, and not with options that are not known here.
pub(super) fn sets_variables(args: &[String]) -> bool {
    match args {
        [flag, _, rest @ ..] if flag == "-u" => !rest.is_empty(),
        [first, rest @ ..] if first == "-i" || first.contains('=') => !rest.is_empty(),
        [first, ..] => !is_option(first),
        [] => false,
    }
}

/// Takes `-i`, `NAME=value` and `-u NAME` off the front of `args`; returns the rest.
pub(super) fn environment<'a>(args: &'a [String], env: &mut BTreeMap<String, String>) -> &'a [String] {
    let mut rest = args;
    loop {
        match rest {
            [flag, after @ ..] if flag == "-i" => {
                env.clear();
                rest = after;
            }
            [flag, name, after @ ..] if flag == "-u" => {
                env.remove(name);
                rest = after;
            }
            [first, after @ ..] if first.contains('=') => {
                let (name, value) = first.split_once('=').unwrap_or((first, ""));
                env.insert(name.to_owned(), value.to_owned());
                rest = after;
            }
            _ => return rest,
        }
    }
}

/// `cat FILE...`; `-` or nothing is the standard input.
fn cat(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let mut finished = Finished::success(Vec::new());
    let input = ["-".to_owned()];
    for arg in if args.is_empty() { &input } else { args } {
        match invocation.load(arg) {
            Ok(bytes) => finished.out.extend(bytes),
            Err(error) => {
                finished.code = 1;
                finished.err.extend(format!("cat: {error}\n").into_bytes());
            }
        }
    }
    finished
}

/// `diff EXPECTED FOUND`; one of them may be `-`. With `--bless` an expectation of the suite is rewritten instead.
fn diff(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let files: Vec<&String> = args.iter().filter(|arg| *arg == "-" || !is_option(arg)).collect();
    let [expected, found] = files[..] else {
        return Finished::failure(2, "diff needs two files");
    };
    let right = match invocation.load(found) {
        Ok(bytes) => bytes,
        Err(error) => return Finished::failure(2, &error),
    };
    let left = invocation.load(expected);
    if left.as_ref() == Ok(&right) {
        return Finished::success(Vec::new());
    }
    let path = invocation.cwd.join(expected);
    if invocation.context.bless.as_ref().is_some_and(|folder| expected != "-" && path.starts_with(folder)) {
        return match std::fs::write(&path, &right) {
            Ok(()) => Finished::success(Vec::new()),
            Err(error) => Finished::failure(2, &format!("{}: {error}", path.display())),
        };
    }
    match left {
        Ok(left) => {
            let (left, right) = (String::from_utf8_lossy(&left), String::from_utf8_lossy(&right));
            let difference = TextDiff::from_lines(&*left, &right);
            let text = difference.unified_diff().header(expected, found).to_string();
            Finished { code: 1, out: text.into_bytes(), err: Vec::new() }
        }
        Err(error) => Finished::failure(2, &format!("{error} (`hir-lit --bless` writes it)")),
    }
}

/// `rm [-r] [-f] PATH...`, below the test's temporary folder only.
fn remove(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let has = |letter| args.iter().any(|arg| is_option(arg) && arg.contains(letter));
    for path in paths(args, invocation) {
        if !path.starts_with(&invocation.context.scratch) {
            return Finished::failure(1, &format!("rm: {} is outside of the test's folder", path.display()));
        }
        let folder = path.is_dir() && has('r');
        let result = if folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        if let Err(error) = result
            && !has('f')
        {
            return Finished::failure(1, &format!("rm: {}: {error}", path.display()));
        }
    }
    Finished::success(Vec::new())
}

/// `mkdir [-p] PATH...`
fn make_folders(args: &[String], invocation: &Invocation<'_>) -> Finished {
    let parents = args.iter().any(|arg| arg == "-p");
    for path in paths(args, invocation) {
        let made = if parents { std::fs::create_dir_all(&path) } else { std::fs::create_dir(&path) };
        if let Err(error) = made {
            return Finished::failure(1, &format!("mkdir: {}: {error}", path.display()));
        }
    }
    Finished::success(Vec::new())
}

/// `cp FROM TO`; `None` for other numbers of files.
fn copy(args: &[String], invocation: &Invocation<'_>) -> Option<Finished> {
    let files: Vec<PathBuf> = paths(args, invocation).collect();
    let [from, to] = &files[..] else {
        return None;
    };
    let target = if to.is_dir() { to.join(from.file_name().unwrap_or_default()) } else { to.clone() };
    Some(match std::fs::copy(from, &target) {
        Ok(_) => Finished::success(Vec::new()),
        Err(error) => Finished::failure(1, &format!("cp: {}: {error}", from.display())),
    })
}

fn paths<'a>(args: &'a [String], invocation: &'a Invocation<'_>) -> impl Iterator<Item = PathBuf> + 'a {
    args.iter().filter(|arg| !is_option(arg)).map(|arg| invocation.cwd.join(arg))
}
