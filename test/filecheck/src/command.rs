//! The command as a function, for the program and for runners of tests that call it in their own process.

use crate::checks::parse_checks;
use crate::command_line::{CommandLine, Information};
use crate::failure::Failure;
use crate::options::DumpInput;
use std::io;

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// The exit status: 0 for a match, 1 for a mismatch or a command line that cannot be read, 2 for another misuse.
    pub status: u8,
    /// The command's standard output.
    pub stdout: String,
    /// The command's standard error.
    pub stderr: String,
}

/// Runs the command. `args` are its arguments without its name, after those of the variable `FILECHECK_OPTS`;
/// `read_file` reads a file, or the standard input for `-`.
pub fn run_command(args: &[String], read_file: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>) -> Finished {
    let line = match CommandLine::parse(args) {
        Ok(line) => line,
        Err(failure) => return failed_command(String::new(), &failure),
    };
    let information = match line.information {
        Some(Information::Help) => Some(HELP.to_owned()),
        Some(Information::Version) => Some(format!("{VERSION}\n")),
        None => (line.options.output.dump_input == DumpInput::Help).then(|| DUMP_HELP.to_owned()),
    };
    if let Some(stdout) = information {
        return Finished { stdout, ..Finished::default() };
    }
    let mut stderr = String::new();
    match compare_files(&line, read_file, &mut stderr) {
        Ok(()) => Finished { stderr, ..Finished::default() },
        Err(failure) => failed_command(stderr, &failure),
    }
}

fn failed_command(stderr: String, failure: &Failure) -> Finished {
    Finished { status: failure.exit_code(), stdout: String::new(), stderr: stderr + &failure.message }
}

fn compare_files(
    line: &CommandLine,
    read_file: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>,
    stderr: &mut String,
) -> Result<(), Failure> {
    let usage = |message: String| Failure::usage(format!("error: {message}\n"));
    let Some(check_file) = &line.check_file else {
        return Err(usage("<check-file> not specified (see --help)".to_owned()));
    };
    let text = read_file(check_file);
    let text = text.map_err(|error| usage(format!("could not open check file '{check_file}': {error}")))?;
    let checks = parse_checks(&text, check_file, &line.options)?;
    stderr.push_str(checks.warnings());
    let input_file = line.input_file.as_deref().unwrap_or("-");
    let input = read_file(input_file);
    let name = &line.options.input_name;
    let input = input.map_err(|error| usage(format!("could not open input file '{name}': {error}")))?;
    stderr.push_str(&checks.check_input(&input, &line.options)?);
    Ok(())
}

/// The words of a variable with arguments: blanks part them, quotes and backslashes keep blanks.
pub fn split_arguments(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The text of `--version`.
const VERSION: &str = concat!("filecheck ", env!("CARGO_PKG_VERSION"), ", the language of LLVM's FileCheck 19");

const HELP: &str = "\
usage: filecheck [options] <check-file>

Compares an input with the directives of a check file.

input:
  --input-file=<file>                  input (standard input without it)
  --allow-empty                        the input may be empty
  --strict-whitespace                  keep horizontal whitespace as it is

directives:
  --check-prefix=<prefix>              prefix of directives (default CHECK)
  --check-prefixes=<a,b,...>           several prefixes
  --comment-prefixes=<a,b,...>         prefixes of comments (default COM,RUN)
  --allow-unused-prefixes              prefixes may have no directive
  --implicit-check-not=<pattern>       no match of it between positive matches
  --allow-deprecated-dag-overlap       matches of DAG directives may overlap

patterns:
  --match-full-lines                   positive patterns cover whole lines
  --ignore-case                        letters match in both cases
  -D<name>=<value>                     define a string variable
  -D#[<format>,]<name>=<expression>    define a numeric variable
  --enable-var-scope                   variables without a $ end at LABEL directives

output:
  -v, -vv                              report matches; -vv: all searches
  --dump-input=help|always|fail|never  print the input with notes (default fail)
  --dump-input-filter=all|annotation-full|annotation|error
                                       which of its lines (default error; all for always)
  --dump-input-context=<n>             how many lines around those (default 5)
  --color                              use colours
  --help, --version

FILECHECK_OPTS holds options that come before those of the command line.
Exit status: 0 match; 1 mismatch, or an option that is not known; 2 other problem.
";

const DUMP_HELP: &str = "\
The dump of the input shows lines of the input with notes below them:

  L:     line L of the input; the blank at its end stands for the line break
  T:L    the result for the pattern of type T in line L of the check file;
         \"impN\" in the place of L is the Nth --implicit-check-not
  T:L'N  the Nth result or note for this pattern, from 0
  ^~~    a match (with -v)
  !~~    a match that is an error: of a NOT pattern, or on a wrong line;
         or a match that a DAG group leaves, since it overlaps another (-vv)
  X~~    the part of the input in which nothing matches: an error, or what a
         NOT pattern asks for (with -vv)
  ?      the text that is most like a pattern without a match
  ...    lines that are left out

Options: --dump-input says when it is printed, --dump-input-filter and
--dump-input-context which lines, -v and -vv add notes, --color colours.
";
