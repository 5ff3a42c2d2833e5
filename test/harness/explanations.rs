//! `explain::<code>`: what the pages of docs/errors say is so.
//!
//! A page has its code and meaning, then text and fenced blocks. The first block `hir` is the file `wrong.hir`, the
//! second one `right.hir`; `hir NAME` is another file. The first block `console` has commands, `$ hir-opt wrong.hir`,
//! and the first diagnostic with the code that they print, which `HIR_BLESS=1` writes. Where commands end well, and
//! none prints the code, the program is right: those of a second block `console`, or else the first one's for
//! `right.hir`. A page whose message needs a machine or several processes has it in a block `text`, and is not run.

use hostir_lit::exec::Shell;
use hostir_test::tree;
use libtest_mimic::{Failed, Trial};
use std::ops::Range;
use std::path::Path;

/// A fenced block of a page.
struct PageBlock<'a> {
    /// The words after the opening fence.
    info: &'a str,
    /// Its lines, without the fences.
    lines: Vec<&'a str>,
    /// Their place in the page.
    place: Range<usize>,
}

/// A test for each page.
pub(crate) fn trials() -> Vec<Trial> {
    let pages = tree::files(&tree::root().join("docs/errors"), ".md").into_iter();
    let trials = pages.map(|path| {
        let code = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Trial::test(format!("explain::{code}"), move || check_page(&path, &code))
    });
    trials.collect()
}

fn check_page(path: &Path, code: &str) -> Result<(), Failed> {
    let page = tree::read(path);
    let blocks = read_blocks(&page);
    let consoles: Vec<&PageBlock<'_>> = blocks.iter().filter(|block| block.info == "console").collect();
    let Some(console) = consoles.first() else { return check_quotation(&blocks, code) };
    let folder = tempfile::tempdir()?;
    write_files(&blocks, folder.path())?;
    let (_, errors) = run_commands(commands(console), folder.path());
    let message = first_diagnostic(&errors, code);
    if message.is_empty() {
        return Err(format!("the commands print no `[{code}]`, but:\n{errors}").into());
    }
    compare_message(path, &page, console, &message)?;
    let right = match consoles.get(1) {
        Some(second) => commands(second),
        None if blocks.iter().filter(|block| block.info == "hir").count() < 2 => return Ok(()),
        None => commands(console).into_iter().map(|command| command.replace("wrong.hir", "right.hir")).collect(),
    };
    let (ends_well, errors) = run_commands(right, folder.path());
    let is_right = ends_well && !errors.contains(&format!("[{code}]")) && !errors.contains("error[");
    if is_right { Ok(()) } else { Err(format!("what should be right is not:\n{errors}").into()) }
}

/// The fenced blocks of a page.
fn read_blocks(page: &str) -> Vec<PageBlock<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<PageBlock<'_>> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(PageBlock { info, lines: Vec::new(), place: number + 1..number + 1 }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.lines.push(line);
                block.place.end = number + 1;
            }
            (None, None) => {}
        }
    }
    blocks
}

/// A page that is not run quotes a message with its code.
fn check_quotation(blocks: &[PageBlock<'_>], code: &str) -> Result<(), Failed> {
    let quotations = blocks.iter().filter(|block| block.info == "text").flat_map(|block| &block.lines);
    match quotations.into_iter().any(|line| line.contains(&format!("[{code}]: "))) {
        true => Ok(()),
        false => Err(format!("the page has neither commands nor a message with `[{code}]`").into()),
    }
}

fn write_files(blocks: &[PageBlock<'_>], folder: &Path) -> std::io::Result<()> {
    let mut unnamed = ["wrong.hir", "right.hir"].into_iter();
    for block in blocks {
        let name = match block.info.split_once(' ') {
            Some((_, name)) => name,
            None if block.info == "hir" => unnamed.next().unwrap_or("other.hir"),
            None => continue,
        };
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, format!("{}\n", block.lines.join("\n")))?;
    }
    Ok(())
}

fn commands(console: &PageBlock<'_>) -> Vec<String> {
    console.lines.iter().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// Runs the commands: true if all succeed, and what they print on standard error.
fn run_commands(commands: Vec<String>, folder: &Path) -> (bool, String) {
    let mut shell = Shell::new(tree::context(folder));
    let mut errors = String::new();
    let mut end_well = true;
    for command in commands {
        // Other commands prepare files, and have redirections of their own.
        let is_ours = command.split(' ').any(|word| word == "hir-opt" || word == "hir-run");
        let line = if is_ours { format!("{command} > output.txt 2> errors.txt") } else { command };
        end_well &= shell.run_line(&line).is_ok();
        errors += &if is_ours { tree::read(&folder.join("errors.txt")) } else { shell.take_log() };
    }
    (end_well, errors)
}

/// The first diagnostic with the code; empty if there is none.
fn first_diagnostic(errors: &str, code: &str) -> String {
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
    if wanted == message.lines().collect::<Vec<_>>() {
        return Ok(());
    }
    if std::env::var_os("HIR_BLESS").is_none_or(|value| value != "1") {
        return Err(format!("the message is another one (tools/bless writes it):\n{message}").into());
    }
    let mut lines: Vec<&str> = page.lines().collect();
    let commands = console.lines.iter().copied().filter(|line| line.starts_with("$ "));
    lines.splice(console.place.clone(), commands.chain(message.lines()));
    std::fs::write(path, lines.join("\n") + "\n")?;
    Ok(())
}
