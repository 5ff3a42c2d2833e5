//! The command `filecheck`: compares an input with the directives of a check file.

use std::io::Read as _;
use std::process::ExitCode;

use filecheck_rs::{Failure, FailureKind, Options, parse_checks};

const USAGE: &str = "\
usage: filecheck [options] <check-file>

  --input-file=<file>           input (standard input without it)
  --check-prefix=<prefix>       prefix of directives (default CHECK)
  --check-prefixes=<a,b,...>    several prefixes
  --strict-whitespace           keep horizontal whitespace as it is
  --match-full-lines            positive patterns cover whole lines
  --allow-empty                 the input may be empty

Exit codes: 0 match, 1 mismatch, 2 usage or file problem.
";

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
    let args: Vec<String> = args.collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-help") {
        print_usage();
        return ExitCode::SUCCESS;
    }
    match check_files(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

#[allow(clippy::print_stdout, reason = "the command's help goes to standard output")]
fn print_usage() {
    print!("{USAGE}");
}

#[allow(clippy::print_stderr, reason = "the command's messages go to standard error")]
fn print_failure(failure: &Failure) {
    eprint!("{failure}");
}

fn check_files(args: &[String]) -> Result<(), Failure> {
    let line = Options::from_args(args).map_err(|message| usage_failure(&message))?;
    let Some(check_file) = line.check_file else {
        return Err(usage_failure("no check file (see --help)"));
    };
    let checks = parse_checks(&read_text(&check_file)?, &check_file, &line.options)?;
    let input_file = line.input_file.unwrap_or_else(|| "-".to_owned());
    let input = read_text(&input_file)?;
    let input_name = if input_file == "-" { "<stdin>".to_owned() } else { input_file };
    checks.check_input(&input, &Options { input_name, ..line.options })
}

fn usage_failure(message: &str) -> Failure {
    Failure { message: format!("error: {message}\n"), kind: FailureKind::Usage }
}

/// Reads a file, or standard input for `-`.
fn read_text(path: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|content| bytes = content)
    };
    read.map_err(|error| usage_failure(&format!("cannot read '{path}': {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
