//! The command `filecheck`: compares an input with the directives of a check file.

use std::io::Read as _;
use std::process::ExitCode;

use filecheck_rs::{Failure, FailureKind, Options, parse};

const USAGE: &str = "\
usage: filecheck [options] <check-file>

  --input-file=<file>           input (standard input without it)
  --check-prefix=<prefix>       prefix of directives (default CHECK)
  --check-prefixes=<a,b,...>    several prefixes
  --comment-prefixes=<a,b,...>  prefixes of comments (default COM,RUN)
  -D<NAME>=<VALUE>              define a string variable
  -D#<NAME>=<EXPRESSION>        define a numeric variable
  --implicit-check-not=<pat>    pattern that must not occur between matches
  --strict-whitespace           keep horizontal whitespace as it is
  --match-full-lines            positive patterns cover whole lines
  --ignore-case                 letters match in either case
  --allow-empty                 the input may be empty
  --enable-var-scope            variables without $ end at each LABEL directive
  --allow-unused-prefixes       a prefix without directives is no error
  --allow-deprecated-dag-overlap  matches of a DAG group may overlap

Exit codes: 0 match, 1 mismatch, 2 usage or file problem. Options are also read from the
environment variable FILECHECK_OPTS.
";

fn main() -> ExitCode {
    let environment = std::env::var("FILECHECK_OPTS").unwrap_or_default();
    let mut args: Vec<String> = environment.split_whitespace().map(str::to_owned).collect();
    args.extend(std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()));
    if args.iter().any(|arg| arg == "--help" || arg == "-help") {
        print_usage();
        return ExitCode::SUCCESS;
    }
    match check(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

#[allow(clippy::print_stdout, reason = "the command's help goes to standard output")]
fn print_usage() {
    print!("{USAGE}");
}

#[allow(clippy::print_stderr, reason = "the command's messages go to standard error")]
fn report(failure: &Failure) {
    eprint!("{failure}");
}

fn check(args: &[String]) -> Result<(), Failure> {
    let (options, check_file, input_file) =
        Options::from_args(args).map_err(|message| usage(&message))?;
    let Some(check_file) = check_file else {
        return Err(usage("no check file (see --help)"));
    };
    let checks = parse(&read(&check_file)?, &check_file, &options)?;
    let input_file = input_file.unwrap_or_else(|| "-".to_owned());
    let input = read(&input_file)?;
    let input_name = if input_file == "-" { "<stdin>".to_owned() } else { input_file };
    checks.run(&input, &Options { input_name, ..options })
}

fn usage(message: &str) -> Failure {
    Failure { message: format!("error: {message}\n"), kind: FailureKind::Usage }
}

/// Reads a file, or standard input for `-`.
fn read(path: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|content| bytes = content)
    };
    read.map_err(|error| usage(&format!("cannot read '{path}': {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
