//! Cases: check files, inputs and options with the verdicts of LLVM's FileCheck, from `test/filecheck/cases`.

use std::path::{Path, PathBuf};

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The check file.
    pub(crate) checks: Vec<u8>,
    /// The input.
    pub(crate) input: Vec<u8>,
    /// The options.
    pub(crate) args: Vec<String>,
}

/// A case with its exit status.
#[derive(Debug, Clone)]
pub(crate) struct JudgedCase {
    pub(crate) case: Case,
    /// Its file and line.
    pub(crate) place: String,
    /// The status that is expected of us.
    pub(crate) ours: i32,
    /// The status of LLVM 19.
    pub(crate) llvm_19: i32,
    /// The status of LLVM 14.
    pub(crate) llvm_14: i32,
}

/// The name of the file whose cases are those that differ from LLVM 19 on purpose.
const DIFFERENCES: &str = "differences.tsv";

/// All cases of the folder.
pub(crate) fn judged_cases() -> Vec<JudgedCase> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of cases")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tsv"))
        .collect();
    files.sort();
    files.iter().flat_map(|file| read_cases(file)).collect()
}

fn read_cases(file: &Path) -> Vec<JudgedCase> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(file).expect("a file of cases");
    let rows = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let cases = rows.map(|(number, line)| {
        let place = format!("{name}:{}", number + 1);
        let mut cells: Vec<&str> = line.split('\t').collect();
        if name == DIFFERENCES {
            assert!(!cells.remove(3).is_empty(), "{place}: no reason");
        } else {
            cells.insert(0, cells[0]);
        }
        let [ours, llvm_19, llvm_14, args, checks, input] = cells.as_slice() else {
            panic!("{place}: a wrong number of columns");
        };
        let status = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{place}: {cell:?} is not a status"));
        let words = args.split(' ').filter(|word| !word.is_empty());
        let args = words.map(|word| String::from_utf8(unescape(word)).expect("an option")).collect();
        let case = Case { checks: unescape(checks), input: unescape(input), args };
        JudgedCase { case, ours: status(ours), llvm_19: status(llvm_19), llvm_14: status(llvm_14), place }
    });
    cases.collect()
}

/// The bytes of a cell, in which `\n`, `\r`, `\t`, `\\` and `\xNN` are escapes.
fn unescape(cell: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = cell.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (byte, length) = match after {
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', digits @ ..] => {
                let digits = std::str::from_utf8(&digits[..2]).expect("two digits");
                (u8::from_str_radix(digits, 16).expect("two digits"), 3)
            }
            _ => panic!("an unknown escape in {cell:?}"),
        };
        out.push(byte);
        rest = &after[length..];
    }
    out
}

/// Runs a case through the library.
pub(crate) fn run_in_process(case: &Case) -> filecheck_rs::Finished {
    let mut args = vec!["case.check".to_owned(), "--input-file=case.input".to_owned()];
    args.extend_from_slice(&case.args);
    filecheck_rs::run_command(&args, &mut |name| match name {
        "case.check" => Ok(case.checks.clone()),
        "case.input" => Ok(case.input.clone()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    })
}

/// The case as a text for people.
pub(crate) fn describe(case: &Case) -> String {
    let (checks, input) = (String::from_utf8_lossy(&case.checks), String::from_utf8_lossy(&case.input));
    format!("{:?}\n{checks}--\n{input}--", case.args)
}
