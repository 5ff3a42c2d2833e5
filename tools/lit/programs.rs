//! The programs a test may call: the tools and FileCheck, in process, a few of a shell's own, and those of the system.

mod builtin;
mod call;
mod inside;
mod process;
mod sed;

pub use call::{CRASHED, Finished, Invocation, NOT_FOUND, TIMED_OUT};
pub(crate) use inside::collect_tool_panics;

use crate::context::{Checks, Context};
use call::find_program;
use std::path::PathBuf;
use std::sync::Arc;

/// The names of FileCheck in RUN lines.
pub(crate) const FILE_CHECK: [&str; 2] = ["FileCheck", "filecheck"];
/// Programs of this project, which end with 101 where they panic.
const OWN_TOOLS: [&str; 4] = ["hir-opt", "hir-run", "filecheck", "FileCheck"];

/// Runs `words[0]` with the arguments after it.
pub fn run_program(words: &[String], mut invocation: Invocation<'_>) -> Finished {
    let Some((program, args)) = words.split_first() else {
        return Finished::failure(NOT_FOUND, "an empty command");
    };
    match program.as_str() {
        "not" | "!" => negate(args, invocation),
        "env" if builtin::sets_variables(args) => {
            let rest = builtin::environment(args, Arc::make_mut(&mut invocation.env));
            run_program(rest, invocation)
        }
        name if FILE_CHECK.contains(&name) => check(program, args, invocation),
        name if invocation.context.tools.iter().any(|tool| tool.name == name) => run_tool(program, args, invocation),
        _ => {
            let merge = invocation.merge;
            let done = builtin::run_builtin(program, args, &invocation).or_else(|| match program.as_str() {
                "sed" => sed::substitute_lines(args, &invocation),
                _ => None,
            });
            done.map_or_else(|| start(program, args, invocation), |finished| finished.merged(merge))
        }
    }
}

/// Runs a tool in this process, or as a process if that was asked for or if its environment is changed.
fn run_tool(program: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    let context = invocation.context;
    let changed = *invocation.env != *context.environment;
    if context.spawn || (changed && find_own(program, &invocation).is_some()) {
        return start(program, args, invocation);
    }
    let args = with_options(program, args, context);
    let Some(tool) = context.tools.iter().find(|tool| tool.name == program) else {
        return start(program, &args, invocation);
    };
    inside::run_tool(*tool, &args, invocation)
}

fn check(program: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    if !matches!(invocation.context.checks, Checks::Compare) {
        let input = inside::checked_input(args, &invocation).unwrap_or_default();
        invocation.context.checks.take_call(args, input);
        return Finished::success(Vec::new());
    }
    if invocation.context.spawn {
        return start(program, args, invocation);
    }
    let merge = invocation.merge;
    inside::file_check(args, &invocation).merged(merge)
}

/// Runs a program as a process.
fn start(program: &str, args: &[String], invocation: Invocation<'_>) -> Finished {
    let args = with_options(program, args, invocation.context);
    match find_own(program, &invocation) {
        Some(path) => process::run_file(&path, program, &args, invocation),
        None => not_found(program, &invocation).merged(invocation.merge),
    }
}

/// The file of a program. Those of this project are beside this one, or on the path.
fn find_own(program: &str, invocation: &Invocation<'_>) -> Option<PathBuf> {
    let Invocation { cwd, context, .. } = invocation;
    let mut names = vec![program];
    if FILE_CHECK.contains(&program) {
        names = vec!["filecheck", "FileCheck"];
    }
    let beside = if OWN_TOOLS.contains(&program) { folders_beside() } else { Vec::new() };
    let paths = names.iter().find_map(|name| find_program(name, cwd, &beside));
    paths.or_else(|| names.iter().find_map(|name| find_program(name, cwd, &context.search)))
}

/// The folder of this program, and the one above it: test programs are in `target/<profile>/deps`.
fn folders_beside() -> Vec<PathBuf> {
    let this = std::env::current_exe().unwrap_or_default();
    this.ancestors().skip(1).take(2).map(PathBuf::from).collect()
}

fn not_found(program: &str, invocation: &Invocation<'_>) -> Finished {
    let message = match OWN_TOOLS.contains(&program) {
        true => format!("`{program}` is neither built into hir-lit, nor beside it, nor on the PATH"),
        false if program.contains('/') => format!("there is no file `{}`", invocation.cwd.join(program).display()),
        false => format!("there is no program `{program}` on the PATH"),
    };
    Finished::failure(NOT_FOUND, &message)
}

/// The arguments of a program, with the options that `lit.toml` gives it and its command line does not.
fn with_options(program: &str, args: &[String], context: &Context) -> Vec<String> {
    let mut args = args.to_vec();
    for option in context.default_options.get(program).into_iter().flatten() {
        let name = option.split('=').next().unwrap_or(option);
        if !args.iter().any(|arg| arg.starts_with(name)) {
            args.push(option.clone());
        }
    }
    if program == "hir-run" {
        args.extend(context.flags.iter().cloned());
    }
    args
}

/// `not` and `!`: success becomes failure; a crash or a missing program stays a failure, but for `not --crash`.
fn negate(args: &[String], invocation: Invocation<'_>) -> Finished {
    let (crash, args) = match args.split_first() {
        Some((first, rest)) if first == "--crash" => (true, rest),
        _ => (false, args),
    };
    let mut finished = run_program(args, invocation);
    finished.code = match finished.code {
        TIMED_OUT | NOT_FOUND => finished.code,
        code if crash => i32::from(code >= 0),
        code if code < 0 => code,
        0 => 1,
        _ => 0,
    };
    finished
}
