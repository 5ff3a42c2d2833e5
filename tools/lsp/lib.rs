//! `hir-lsp`: the language server for host programs, in both notations.
//!
//! One thread ([`server`]) owns the open documents and answers all requests in the order in which they come. Reading and
//! verifying a text is fast enough for each keystroke: a document is read when no message is waiting, or when a request
//! needs it ([`snapshot`]). Its syntax tree is that from before the edit, with the statements around it read again. Names
//! get their meaning, and rules are checked, in the whole text. Proofs take longer; a second thread makes them
//! ([`proof`]), and drops the work on a text that has changed since.
//!
//! The server has no rules of its own: texts are read, verified, proved, repaired and formatted by the library's
//! functions that `hir-opt` and `hir-run` call, and names mean what [`hostir::symbols`] says.
//!
//! | module | |
//! |---|---|
//! | [`server`] | the loop over messages |
//! | [`session`] | the state between messages: open documents, what is known about them, settings |
//! | [`requests`] | the method of each request and its answer |
//! | [`documents`], [`positions`] | texts and their changes; places in UTF-16 |
//! | [`snapshot`] | all that reading says about a text |
//! | [`proof`], [`settings`] | proofs in the background, and the sizes for them |
//! | [`background`] | the threads of the background |
//! | [`model_times`], [`timeline_page`] | times by the cost model, and the page of a timeline |
//! | [`publish`] | diagnostics as the protocol has them |
//! | [`features`] | the answers to requests, a file each |

pub mod background;
pub mod documents;
pub mod features;
pub mod model_times;
pub mod positions;
pub mod proof;
pub mod publish;
pub mod requests;
pub mod server;
pub mod session;
pub mod settings;
pub mod snapshot;
pub mod timeline_page;

use hostir::ops::OpRegistry;
use hostir_tool_support::explain::print_explanation;
use lsp_server::Connection;
use std::io::Write as _;
use std::process::ExitCode;

/// The help of the program.
const HELP: &str = "\
hir-lsp: the language server for host programs

Usage: hir-lsp [--stdio]
       hir-lsp --explain [CODE]

An editor starts it and talks to it on standard input and output, in the Language
Server Protocol. docs/editor.md says how to set up Neovim, Vim and VS Code.
--explain prints the page about the code of a diagnostic, such as H0701.
";

/// Serves one client on standard input and output until it asks to exit.
pub fn run_on_stdio(arguments: impl Iterator<Item = String>) -> ExitCode {
    run_with_ops(arguments, OpRegistry::OURS)
}

/// Serves as [`run_on_stdio`] does a client whose texts may name these ops.
pub fn run_with_ops(mut arguments: impl Iterator<Item = String>, ops: OpRegistry) -> ExitCode {
    while let Some(argument) = arguments.next() {
        if let Some(asked) = argument.strip_prefix("--explain=") {
            return print_explanation("hir-lsp", asked).into();
        }
        let (text, status) = match argument.as_str() {
            "--stdio" => continue,
            "--help" | "-h" => (HELP.to_owned(), ExitCode::SUCCESS),
            "--explain" => return print_explanation("hir-lsp", &arguments.next().unwrap_or_default()).into(),
            "--version" | "-V" => (format!("hir-lsp {}\n", hostir_tool_support::VERSION), ExitCode::SUCCESS),
            other => {
                let text = format!("hir-lsp: unknown option `{other}`; `hir-lsp --help` says how it is used\n");
                let _ = std::io::stderr().write_all(text.as_bytes());
                return ExitCode::from(2);
            }
        };
        let _ = std::io::stdout().write_all(text.as_bytes());
        return status;
    }
    let (connection, threads) = Connection::stdio();
    let served = server::serve(connection, ops);
    // The threads end with the streams; a client that closed them early is no failure of the server.
    let joined = threads.join();
    match served {
        Ok(()) => joined.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hir-lsp: {error}");
            ExitCode::FAILURE
        }
    }
}
