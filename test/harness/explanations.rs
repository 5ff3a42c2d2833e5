//! `explain::<code>`: what the pages of docs/errors say is so.
//!
//! A page has its code and meaning, then text and fenced blocks. The first block `hir` is the file `wrong.hir`, the
//! second one `right.hir`; `hir NAME` is another file. The first block `console` has commands, `$ hir-opt wrong.hir`,
//! and the first diagnostic with the code that they print, which `HIR_BLESS=1` writes; `...` stands for any text, such
//! as a time, and as the last line for any lines. Where commands end well, and none prints the code, the program is
//! right: those of a second block `console`, or else the first one's for `right.hir`, which is proved, too.
//!
//! The commands of `console sh` are lines of the system's shell, in which the tools are processes; those of
//! `console gpus=N` see N stand-ins for GPUs, those of `console root` run only where the tests belong to root, and those
//! of `console passes` have the passes of [`examples`]. A page without commands has code in Rust, in blocks `rust`, that
//! prints the message of its first block `text`.
//!
//! A page whose message no test can cause quotes it in a block `text`: [`QUOTED`] has each, with the reason.

mod commands;
mod examples;
mod page;

pub(crate) use commands::run_as_tool;

use commands::{CommandsEnd, EXAMPLE, run_commands};
use hostir_test::tree;
use libtest_mimic::{Completion, Failed, Trial};
use page::{PageBlock, Setting, write_files};
use std::path::Path;

/// The pages that only quote their message, and the reason.
const QUOTED: &[(&str, &str)] = &[
    ("H0634", "only a defect of the tools causes it"),
    ("H0670", "it needs somebody who changes messages on the way: `attacks.rs` of hir-run's tests does"),
    ("H0673", "it needs a process of another user that listens: `attacks.rs` of hir-run's tests has one"),
];

/// The pages whose right programs are not proved beside their commands, and the reason.
const UNPROVED: &[(&[&str], &str)] = &[
    (&["H0257", "H0328"], "an input of the program is a scalar, which has no value"),
    (&["H0316", "H0317", "H0318"], "the program has an error, as a comment in it says"),
    (&["H0347"], "it is about thousands of devices"),
    (&["H0410"], "it is right for other sizes, which its command gives"),
];

/// A test for each page.
pub(crate) fn trials() -> Vec<Trial> {
    // The panics that a page is about are contained, and not told on standard error.
    hostir_tool_support::panics::set_panic_hook(std::panic::take_hook());
    let pages = tree::files(&tree::root().join("docs/errors"), ".md").into_iter();
    let trials = pages.map(|path| {
        let code = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Trial::ignorable_test(format!("explain::{code}"), move || check_page(&path, &code))
    });
    trials.collect()
}

fn check_page(path: &Path, code: &str) -> Result<Completion, Failed> {
    let page = tree::read(path);
    let blocks = PageBlock::read_all(&page);
    check_rust(&blocks)?;
    let is_listed = QUOTED.iter().any(|(listed, _)| *listed == code);
    let Some(runs) = PageRuns::of_page(&blocks, code)? else { return check_quotation(&blocks, code, is_listed) };
    if is_listed {
        return Err("the page runs its message, so it need not be in the list `QUOTED`".into());
    }
    if let Some(missing) = runs.missing_condition() {
        return Ok(Completion::ignored_with(missing));
    }
    let folder = tempfile::tempdir()?;
    write_files(&blocks, folder.path())?;
    let CommandsEnd { errors, .. } = run_commands(&runs.wrong, runs.wrong_setting, folder.path())?;
    let message = first_diagnostic(&errors, code);
    if message.is_empty() {
        return Err(format!("the commands print no `[{code}]`, but:\n{errors}").into());
    }
    compare_message(path, &page, runs.message, &message)?;
    let CommandsEnd { end_well, errors } = run_commands(&runs.right, runs.right_setting, folder.path())?;
    let is_right = end_well && !errors.contains(&format!("[{code}]")) && !errors.contains("error[");
    if !is_right {
        return Err(format!("what should be right is not:\n{errors}").into());
    }
    prove_right_program(folder.path(), code)?;
    Ok(Completion::Completed)
}

/// Proves the right program of a page; all sizes that the text leaves open are 4.
fn prove_right_program(folder: &Path, code: &str) -> Result<(), Failed> {
    let is_listed = UNPROVED.iter().any(|(codes, _)| codes.contains(&code));
    if is_listed || !folder.join("right.hir").exists() {
        return Ok(());
    }
    let command = "hir-run right.hir --check-only --container=all --set '*=4'".to_owned();
    let CommandsEnd { end_well, errors } = run_commands(&[command], Setting::Inside, folder)?;
    let is_proved = end_well && !errors.contains("error[");
    if is_proved { Ok(()) } else { Err(format!("the right program is not proved:\n{errors}").into()) }
}

/// The commands of a page: those that print its message, and those that are right.
struct PageRuns<'a> {
    wrong: Vec<String>,
    wrong_setting: Setting,
    /// The block with the message.
    message: &'a PageBlock<'a>,
    right: Vec<String>,
    right_setting: Setting,
}

impl<'a> PageRuns<'a> {
    /// The commands of a page; `None` for one that only quotes its message.
    fn of_page(blocks: &'a [PageBlock<'a>], code: &str) -> Result<Option<Self>, Failed> {
        let consoles: Vec<(&PageBlock<'_>, Setting)> =
            blocks.iter().filter_map(|block| Some((block, block.setting()?))).collect();
        let Some((message, wrong_setting)) = consoles.first().copied() else { return Ok(Self::of_rust(blocks, code)) };
        let wrong = message.commands();
        let (right, right_setting) = match consoles.get(1) {
            Some((second, setting)) => (second.commands(), *setting),
            None if blocks.iter().filter(|block| block.info == "hir").count() < 2 => {
                return Err("the page has no right program: a second block `hir` or `console`".into());
            }
            None => (wrong.iter().map(|line| line.replace("wrong.hir", "right.hir")).collect(), wrong_setting),
        };
        Ok(Some(Self { wrong, wrong_setting, message, right, right_setting }))
    }

    /// The commands of a page with code in Rust.
    fn of_rust(blocks: &'a [PageBlock<'a>], code: &str) -> Option<Self> {
        blocks.iter().find(|block| block.info == "rust")?;
        let message = blocks.iter().find(|block| block.info == "text")?;
        let [wrong, right] = ["wrong", "right"].map(|side| vec![format!("{EXAMPLE} {code} {side}")]);
        let setting = Setting::Processes { gpus: 2 };
        Some(Self { wrong, wrong_setting: setting, message, right, right_setting: setting })
    }

    /// Something that the commands need and this machine does not have.
    fn missing_condition(&self) -> Option<&'static str> {
        if self.message.info == "console root" && !rustix::process::geteuid().is_root() {
            return Some("needs root, who alone can give files to other users");
        }
        let on_gpus = matches!(self.wrong_setting, Setting::Processes { gpus: 1.. });
        if on_gpus && cfg!(target_env = "musl") {
            return Some("what is linked statically opens no libraries");
        }
        let compiles = self.wrong.iter().chain(&self.right).any(|line| line.contains("--allow-kernels"));
        let needs_compiler = on_gpus && compiles && !finds_compiler();
        needs_compiler.then_some("needs a C++ compiler: g++")
    }
}

/// True if the compiler is here that the stand-ins use for kernels of users.
fn finds_compiler() -> bool {
    std::process::Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Checks that the code in Rust of a page is a part of the examples that are compiled here.
fn check_rust(blocks: &[PageBlock<'_>]) -> Result<(), Failed> {
    let source: Vec<&str> = examples::SOURCE.lines().collect();
    for block in blocks.iter().filter(|block| block.info == "rust") {
        let is_part = source.windows(block.lines.len()).any(|part| {
            let indent = part[0].len() - part[0].trim_start().len();
            block.lines.iter().zip(part).all(|(line, text)| *line == text.get(indent..).unwrap_or_default())
        });
        if !is_part {
            let text = block.lines.join("\n");
            return Err(format!("test/harness/explanations/examples.rs does not have this part:\n{text}").into());
        }
    }
    Ok(())
}

/// A page that is not run quotes a message with its code, and is listed.
fn check_quotation(blocks: &[PageBlock<'_>], code: &str, is_listed: bool) -> Result<Completion, Failed> {
    if !is_listed {
        return Err("the page has no block `console` with a wrong program, and `QUOTED` has no reason for it".into());
    }
    let quotations = blocks.iter().filter(|block| block.info == "text").flat_map(|block| &block.lines);
    match quotations.into_iter().any(|line| line.contains(&format!("[{code}]: "))) {
        true => Ok(Completion::Completed),
        false => Err(format!("the page has neither commands nor a message with `[{code}]`").into()),
    }
}

/// The first diagnostic with the code; empty if there is none.
fn first_diagnostic(errors: &str, code: &str) -> String {
    if let Some(line) = errors.lines().find(|line| line.contains(&format!("{{\"code\":\"{code}\""))) {
        return line.to_owned();
    }
    let mut lines = errors.lines().skip_while(|line| !(is_head(line) && line.contains(&format!("[{code}]: "))));
    let head: Vec<&str> = lines.next().into_iter().collect();
    let rest = lines.take_while(|line| !is_head(line) && line.starts_with(|c: char| c == ' ' || c.is_ascii_digit()));
    head.into_iter().chain(rest).map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// True if a diagnostic begins with the line.
fn is_head(line: &str) -> bool {
    ["error[", "warning[", "note["].iter().any(|word| line.starts_with(word))
}

fn compare_message(path: &Path, page: &str, console: &PageBlock<'_>, message: &str) -> Result<(), Failed> {
    let wanted: Vec<&str> = console.lines.iter().copied().filter(|line| !line.starts_with("$ ")).collect();
    let mut found: Vec<&str> = message.lines().collect();
    if wanted.last() == Some(&"...") {
        found.truncate(wanted.len() - 1);
        found.push("...");
    }
    // Lines that fit stay as they are, with the places where any text may be.
    let kept = found.iter().enumerate().map(|(at, line)| wanted.get(at).filter(|wanted| fits_pattern(wanted, line)));
    let blessed: Vec<&str> = kept.zip(&found).map(|(kept, line)| *kept.unwrap_or(line)).collect();
    if wanted == blessed {
        return Ok(());
    }
    if std::env::var_os("HIR_BLESS").is_none_or(|value| value != "1") {
        return Err(format!("the message is another one (tools/bless writes it):\n{message}").into());
    }
    let mut lines: Vec<&str> = page.lines().collect();
    let commands = console.lines.iter().copied().filter(|line| line.starts_with("$ "));
    lines.splice(console.place.clone(), commands.chain(blessed));
    std::fs::write(path, lines.join("\n") + "\n")?;
    Ok(())
}

/// True if a line is the wanted one, in which `...` stands for any text.
fn fits_pattern(wanted: &str, found: &str) -> bool {
    let parts: Vec<&str> = wanted.split("...").collect();
    let [first, middle @ .., last] = parts.as_slice() else { return wanted == found };
    let Some(mut rest) = found.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
