//! The grammar for tree-sitter reads what the parsers of the tools read: every program of the tree that they accept has
//! no error node. Its own tests, of trees and of colours, are below `tools/tree-sitter-hir/test`. Ignored where there is no
//! tree-sitter, no Node.js or no C compiler (`tools/setup --editors`).
#![allow(clippy::unwrap_used, reason = "failures panic")]

#[path = "../library/common/needs.rs"]
mod needs;

use hostir_grammar::{hir2, split_input};
use hostir_test::tree;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::OnceLock;

fn main() -> ExitCode {
    let missing = ["tree-sitter", "node", "cc"].into_iter().find(|tool| !is_there(tool));
    let missing = missing.map(|tool| format!("needs {tool}"));
    let mut tests = needs::tests![
        missing.as_deref();
        programs_have_no_errors,
        damaged_programs_have_errors,
        trees_and_colours_are_as_expected,
    ];
    let without_neovim = (!is_there("nvim")).then_some("needs nvim");
    tests.extend(needs::tests![missing.as_deref().or(without_neovim); neovim_colours_a_program]);
    needs::run(tests)
}

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// The folder with the parser, which is built once.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-sitter-hir");
        let output = Command::new(tree::root().join("tools/tree-sitter-hir/build")).arg(&folder).output().unwrap();
        assert!(output.status.success(), "{}", messages(&output));
        folder
    })
}

/// tree-sitter with a home of its own, where it keeps what it compiles.
fn tree_sitter() -> Command {
    let mut command = Command::new("tree-sitter");
    command.env("HOME", built()).env("XDG_CACHE_HOME", built().join("cache"));
    command
}

fn messages(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// The lines that tree-sitter prints about these files: those with errors. The list of the files has this name.
fn errors_in(files: &[PathBuf], list: &str) -> Vec<String> {
    let list = built().join(list);
    let paths: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    std::fs::write(&list, paths.join("\n")).unwrap();
    let mut command = tree_sitter();
    command.args(["parse", "--quiet", "--lang-name", "hir", "--lib-path"]).arg(built().join("parser/hir.so"));
    let output = command.arg("--paths").arg(&list).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.contains("ERROR") || line.contains("MISSING")).map(str::to_owned).collect()
}

/// True if the tools' parser has no error in a text, or in none of those between lines `// -----`.
fn is_accepted(text: &str) -> bool {
    let parts = if text.contains("--split-input-file") { split_input(text) } else { vec![(0, text)] };
    parts.into_iter().all(|(_, part)| match hir2::is_hir2(part) {
        true => hir2::parse_by_grammar(part).errors.is_empty(),
        false => hostir_grammar::parse(part).errors.is_empty(),
    })
}

/// The programs of the tree that are accepted, and the others.
fn programs() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let files = tree::files(&tree::root(), ".hir").into_iter();
    files.partition(|file| std::fs::read_to_string(file).is_ok_and(|text| is_accepted(&text)))
}

fn programs_have_no_errors() {
    let (accepted, _) = programs();
    assert!(accepted.len() > 1400, "only {} programs", accepted.len());
    let errors = errors_in(&accepted, "accepted");
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

fn damaged_programs_have_errors() {
    let (_, rejected) = programs();
    let errors = errors_in(&rejected, "rejected");
    // What has no place in the tree, as a limit or a misspelt word, is no error here.
    assert!(errors.len() * 3 > rejected.len(), "{} of {} programs", errors.len(), rejected.len());
}

/// Prints the colours that Neovim has for a program.
const COLOURS: &str = "
local function show()
  vim.opt.runtimepath:prepend(vim.env.HIR_VIM)
  vim.opt.runtimepath:append(vim.env.HIR_PARSER)
  vim.cmd('filetype plugin on')
  vim.cmd('edit ' .. vim.env.HIR_FILE)
  assert(require('hir').colour(0))
  local root = vim.treesitter.get_parser(0, 'hir'):parse()[1]:root()
  assert(not root:has_error())
  local get = vim.treesitter.query.get or vim.treesitter.query.get_query
  local query = get('hir', 'highlights')
  for id, node in query:iter_captures(root, 0, 0, -1) do
    local line, column = node:start()
    print(line + 1, column + 1, query.captures[id])
  end
end

local shown, message = pcall(show)
if not shown then
  print(message)
end
vim.cmd(shown and 'quitall!' or 'cquit 1')
";

fn neovim_colours_a_program() {
    let script = built().join("colours.lua");
    std::fs::write(&script, COLOURS).unwrap();
    let mut command = Command::new("nvim");
    command.args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "-S"]).arg(&script);
    command.env("HIR_VIM", tree::root().join("tools/vim")).env("HIR_PARSER", built());
    let output = command.env("HIR_FILE", tree::root().join("docs/tutorial/6_ring.hir")).output().unwrap();
    let text = messages(&output);
    assert!(output.status.success(), "{text}");
    for seen in ["1 1 keyword", "1 5 number", "6 1 function"] {
        assert!(text.contains(seen), "{seen} is not in {text}");
    }
}

fn trees_and_colours_are_as_expected() {
    let output = tree_sitter().arg("test").current_dir(built().join("source")).output().unwrap();
    let text = messages(&output);
    assert!(output.status.success() && text.contains("successful parses"), "{text}");
}
