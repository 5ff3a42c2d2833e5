//! The page of a program's timeline: `hir-run` draws it into a temporary folder, and the client shows it.
//!
//! `hir-run` is the one beside the server, else that of the search path. It works in the background, so that the server
//! goes on answering.

use crate::model_times::ProgramPlace;
use crate::session::EditorSession;
use crate::settings::RunValues;
use crossbeam_channel::Sender;
use hostir::ir::Program;
use hostir::machine::Machine;
use lsp_server::{Message, Notification, Request};
use lsp_types::notification::{Notification as _, ShowMessage};
use lsp_types::request::{Request as _, ShowDocument};
use lsp_types::{MessageType, ShowDocumentParams, ShowMessageParams, Uri};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Starts to draw a program's timeline.
///
/// # Errors
/// If there is no such program.
pub fn draw_timeline(session: &mut EditorSession, uri: &Uri, place: ProgramPlace) -> Result<(), String> {
    let (_, snapshot) = session.read_document(uri).ok_or("the document is not open")?;
    let section = snapshot.sections.get(place.section).ok_or("there is no such text")?;
    let program = section.programs.get(place.program).ok_or("there is no such program")?;
    let drawing = PageDrawing {
        text: section.text.clone(),
        command: session.settings.run.clone().map_or_else(hir_run, PathBuf::from),
        arguments: run_arguments(&snapshot.values, program, place.program),
        machine: snapshot.values.machine.as_ref().map(Machine::to_toml),
        sender: session.connection.sender.clone(),
        is_shown: session.shows_documents,
    };
    let builder = std::thread::Builder::new().name("timeline".to_owned());
    builder.spawn(move || drawing.run()).map(drop).map_err(|error| error.to_string())
}

/// The options of `hir-run` for the values of a text. A program gets the sizes that it names.
fn run_arguments(values: &RunValues, program: &Program, number: usize) -> Vec<String> {
    let mut words = vec![format!("--container={}", number + 1)];
    let integers = values.set.iter().filter(|(name, _)| program.names().find_symbol(name).is_some());
    words.extend(integers.map(|(name, value)| format!("--set={name}={value}")));
    words.extend(values.reals.iter().map(|(name, value)| format!("--set={name}={value}")));
    words.extend(values.every.map(|value| format!("--set=*={value}")));
    words.extend(values.ranks.map(|ranks| format!("--devices={ranks}")));
    words.extend(values.streams.map(|streams| format!("--streams={streams}")));
    words
}

/// The work of the thread.
struct PageDrawing {
    text: Arc<str>,
    command: PathBuf,
    arguments: Vec<String>,
    /// The file of the machine, if the settings or the text name one.
    machine: Option<String>,
    sender: Sender<Message>,
    /// True if the client shows the page; else it hears where it is.
    is_shown: bool,
}

impl PageDrawing {
    fn run(self) {
        let message = match self.draw_page() {
            Ok(page) if self.is_shown => show_request(&page).into(),
            Ok(page) => show_text(MessageType::INFO, format!("the timeline is in {}", page.display())),
            Err(why) => show_text(MessageType::ERROR, format!("no timeline: {why}")),
        };
        // A client that is gone needs no page.
        let _ = self.sender.send(message);
    }

    /// Draws the page; returns its file, which stays.
    fn draw_page(&self) -> Result<PathBuf, String> {
        let folder = tempfile::Builder::new().prefix("hir-timeline-").tempdir().map_err(|error| error.to_string())?;
        let folder = folder.keep();
        std::fs::write(folder.join("program.hir"), self.text.as_bytes()).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.command);
        command.args(["program.hir", "--check-only", "--quiet", "--timeline=timeline.html"]).args(&self.arguments);
        if let Some(machine) = &self.machine {
            std::fs::write(folder.join("machine.toml"), machine).map_err(|error| error.to_string())?;
            command.arg("--machine=machine.toml");
        }
        command.current_dir(&folder).stdin(Stdio::null());
        let output =
            command.output().map_err(|error| format!("`{}` cannot be started: {error}", self.command.display()))?;
        if output.status.success() {
            return Ok(folder.join("timeline.html"));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(errors.lines().next().unwrap_or("hir-run failed").to_owned())
    }
}

/// The program of that name beside the server, else of the search path.
fn hir_run() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join("hir-run"))).filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from("hir-run"))
}

/// Shows a line of text.
fn show_text(typ: MessageType, message: String) -> Message {
    Notification::new(ShowMessage::METHOD.to_owned(), ShowMessageParams { typ, message }).into()
}

/// Asks the client to show a file, outside of the editor if it can.
fn show_request(page: &std::path::Path) -> Request {
    let uri: Option<Uri> = format!("file://{}", page.display()).parse().ok();
    let params =
        uri.map(|uri| ShowDocumentParams { uri, external: Some(true), take_focus: Some(true), selection: None });
    Request::new(format!("timeline {}", page.display()).into(), ShowDocument::METHOD.to_owned(), params)
}
