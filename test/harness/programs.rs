//! The programs a test may call: the tools and FileCheck, in process, and a few of a shell's own.

mod builtin;
mod inside;
mod process;

use crate::exec::Context;

/// Exit status of a program that panicked or was killed; `not` does not accept it.
pub const CRASHED: i32 = 134;
/// Exit status of a program that does not exist; `not` does not accept it either.
pub const NOT_FOUND: i32 = 127;

/// Words of RUN lines that are not run again on devices: they expect a failure, run nothing, or choose a backend.
pub const NOT_ON_DEVICES: [&str; 10] = [
    "not ",
    "! ",
    "--print-plan",
    "--print-calls",
    "--check-only",
    "%dumps",
    "--help",
    "--backend",
    "--version",
    "--permute-schedule",
];

/// The call of a program.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Whether standard error goes where standard output goes (`2>&1`).
    pub merge: bool,
    /// Changes to the environment: name and value, or `None` to unset.
    pub env: Vec<(String, Option<String>)>,
    /// The test's.
    pub context: &'a Context,
}

/// The end of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Exit status.
    pub code: i32,
    /// Standard output, with standard error among it if that was asked for.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: Vec<u8>,
}

impl Finished {
    /// Success with an output.
    pub fn success(out: Vec<u8>) -> Self {
        Self { code: 0, out, err: Vec::new() }
    }
    /// A failure with a message.
    pub fn failure(code: i32, message: &str) -> Self {
        Self { code, out: Vec::new(), err: format!("{message}\n").into_bytes() }
    }
    /// With the standard error in the output if `merge`.
    fn merged(mut self, merge: bool) -> Self {
        if merge {
            self.out.append(&mut self.err);
        }
        self
    }
}

/// Runs `words[0]` with the arguments after it.
pub fn run(words: &[String], mut invocation: Invocation<'_>) -> Finished {
    let Some((program, args)) = words.split_first() else {
        return Finished::failure(NOT_FOUND, "an empty command");
    };
    let merge = invocation.merge;
    match program.as_str() {
        "not" | "!" => negate(args, invocation),
        "env" => {
            let rest = builtin::environment(args, &mut invocation.env);
            run(rest, invocation)
        }
        "diff" => builtin::diff(args, &invocation).merged(merge),
        "sed" => builtin::sed(args, &invocation).merged(merge),
        "cat" => builtin::cat(args, &invocation).merged(merge),
        "rm" => builtin::remove(args, invocation.context).merged(merge),
        "mkdir" => builtin::make_folders(args, invocation.context).merged(merge),
        "cp" => builtin::copy(args, invocation.context).merged(merge),
        "echo" => Finished::success(format!("{}\n", args.join(" ")).into_bytes()),
        "true" | ":" => Finished::success(Vec::new()),
        "false" => Finished { code: 1, out: Vec::new(), err: Vec::new() },
        "hir-opt" | "hir-run" => {
            let args = on_the_cpu(program, args, invocation.context);
            let process = invocation.context.spawn || !invocation.env.is_empty();
            let run = if process { process::run } else { inside::tool };
            run(program, &args, invocation)
        }
        "FileCheck" if !invocation.context.flags.is_empty() => Finished::success(Vec::new()),
        "FileCheck" if invocation.context.spawn => process::run("filecheck", args, invocation),
        "FileCheck" => inside::file_check(args, &invocation).merged(merge),
        _ => Finished::failure(NOT_FOUND, &format!("`{program}` is not a program that tests may call")).merged(merge),
    }
}

/// The arguments of a tool. Left to itself, `hir-run` takes the GPUs that a machine has; a test that names no
/// backend is about the CPU's, wherever it runs.
fn on_the_cpu(program: &str, args: &[String], context: &Context) -> Vec<String> {
    let mut args = args.to_vec();
    let named = args.iter().any(|arg| arg.starts_with("--backend"));
    if program == "hir-run" && context.flags.is_empty() && !named {
        args.push("--backend=cpu".to_owned());
    }
    args
}

/// `not` and `!`: success becomes failure; a crash or a missing program stays a failure.
fn negate(args: &[String], invocation: Invocation<'_>) -> Finished {
    let mut finished = run(args, invocation);
    finished.code = match finished.code {
        CRASHED | NOT_FOUND => finished.code,
        0 => 1,
        _ => 0,
    };
    finished
}
