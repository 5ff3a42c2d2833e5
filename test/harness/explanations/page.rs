//! The text of a page: its fenced blocks, and how the commands of a block are run.

use std::ops::Range;
use std::path::Path;

/// A fenced block of a page.
pub(super) struct PageBlock<'a> {
    /// The words after the opening fence.
    pub(super) info: &'a str,
    /// Its lines, without the fences.
    pub(super) lines: Vec<&'a str>,
    /// Their place in the page.
    pub(super) place: Range<usize>,
}

/// The setting in which the commands of a block run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    /// The tools are functions of this process, and the shell is that of hir-lit.
    Inside,
    /// The same with the passes of pages ([`super::examples`]).
    OwnPasses,
    /// The tools are processes that `sh` starts, on this number of stand-ins for GPUs.
    Processes { gpus: u32 },
}

impl<'a> PageBlock<'a> {
    /// The fenced blocks of a page.
    pub(super) fn read_all(page: &'a str) -> Vec<Self> {
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

    /// The setting of a block of commands; `None` for other blocks.
    pub(super) fn setting(&self) -> Option<Setting> {
        match self.info.strip_prefix("console")? {
            "" => Some(Setting::Inside),
            " passes" => Some(Setting::OwnPasses),
            " sh" | " root" => Some(Setting::Processes { gpus: 0 }),
            more => Some(Setting::Processes { gpus: more.strip_prefix(" gpus=")?.parse().ok()? }),
        }
    }

    /// The lines of a block that are commands.
    pub(super) fn commands(&self) -> Vec<String> {
        self.lines.iter().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
    }

    /// The name of the file that the block is: of the blocks `hir` without a name, `unnamed` has the next one's.
    fn file_name(&self, unnamed: &mut impl Iterator<Item = &'static str>) -> Option<&'a str> {
        match self.info.split_once(' ') {
            Some(("console" | "rust", _)) => None,
            Some((_, name)) => Some(name),
            None => (self.info == "hir").then(|| unnamed.next().unwrap_or("other.hir")),
        }
    }
}

/// Writes the files of a page.
pub(super) fn write_files(blocks: &[PageBlock<'_>], folder: &Path) -> std::io::Result<()> {
    let mut unnamed = ["wrong.hir", "right.hir"].into_iter();
    for block in blocks {
        let Some(name) = block.file_name(&mut unnamed) else { continue };
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, format!("{}\n", block.lines.join("\n")))?;
    }
    Ok(())
}
