//! The client: it opens and changes documents, and waits for what the server says about them.

use hostir::ops::OpRegistry;
use lsp_server::{Connection, Message, Notification, Request, Response, ResponseError};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, Notification as Notice, PublishDiagnostics,
};
use lsp_types::request::{CodeLensRefresh, Request as Method, ShowDocument, Shutdown};
use lsp_types::{
    Diagnostic, DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams, Position,
    PublishDiagnosticsParams, Range, TextDocumentContentChangeEvent, TextDocumentIdentifier, TextDocumentItem,
    TextDocumentPositionParams, TextEdit, Uri, VersionedTextDocumentIdentifier,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time after which the server counts as stalled.
const STALLED: Duration = Duration::from_secs(120);

/// A client and the server that it talks to.
pub(crate) struct Client {
    connection: Connection,
    server: Option<JoinHandle<bool>>,
    requests: i32,
    published: BTreeMap<Uri, PublishDiagnosticsParams>,
    /// Results of proofs that the server has announced.
    proofs: usize,
    /// The files that the server has asked to show.
    shown: Vec<String>,
}

impl Client {
    /// A server with these settings.
    pub(crate) fn start(settings: &Value) -> Self {
        Self::start_with_ops(settings, OpRegistry::OURS)
    }

    /// A server with these settings, whose texts may name these ops.
    pub(crate) fn start_with_ops(settings: &Value, ops: OpRegistry) -> Self {
        let (connection, other) = Connection::memory();
        let server = std::thread::spawn(move || hostir_lsp::server::serve(other, ops).is_ok());
        let (published, shown) = (BTreeMap::new(), Vec::new());
        let mut client = Self { connection, server: Some(server), requests: 0, published, proofs: 0, shown };
        let abilities = json!({
            "workspace": { "codeLens": { "refreshSupport": true } },
            "window": { "showDocument": { "support": true } },
        });
        let answer = client.ask("initialize", json!({ "capabilities": abilities, "initializationOptions": settings }));
        assert!(answer.unwrap()["capabilities"].is_object());
        client.notify("initialized", json!({}));
        client
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.connection.sender.send(Notification::new(method.to_owned(), params).into()).unwrap();
    }

    /// Sends a request without waiting for its answer; returns its number.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> i32 {
        self.requests += 1;
        let request = Request { id: self.requests.into(), method: method.to_owned(), params };
        self.connection.sender.send(request.into()).unwrap();
        self.requests
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, number: i32) -> Result<Value, ResponseError> {
        loop {
            if let Some(response) = self.receive()
                && response.id == number.into()
            {
                return response.response_result;
            }
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Result<Value, ResponseError> {
        let number = self.send(method, params);
        self.answer(number)
    }

    /// Asks what must have an answer.
    pub(crate) fn request<M: Method>(&mut self, params: M::Params) -> M::Result {
        let answer = self.ask(M::METHOD, serde_json::to_value(params).unwrap());
        serde_json::from_value(answer.unwrap()).unwrap()
    }

    /// Takes the next message; returns it if it is an answer.
    fn receive(&mut self) -> Option<Response> {
        match self.connection.receiver.recv_timeout(STALLED).expect("the server answers") {
            Message::Response(response) => Some(response),
            Message::Request(request) => {
                self.proofs += usize::from(request.method == CodeLensRefresh::METHOD);
                if request.method == ShowDocument::METHOD {
                    self.shown.push(request.params["uri"].as_str().unwrap().to_owned());
                }
                self.connection.sender.send(Response::new_ok(request.id, ()).into()).unwrap();
                None
            }
            Message::Notification(notice) => {
                assert_eq!(notice.method, PublishDiagnostics::METHOD);
                let params: PublishDiagnosticsParams = serde_json::from_value(notice.params).unwrap();
                self.published.insert(params.uri.clone(), params);
                None
            }
        }
    }

    // Documents.

    pub(crate) fn open(&self, uri: &Uri, text: &str) {
        let item = TextDocumentItem::new(uri.clone(), "hir".to_owned(), 0, text.to_owned());
        self.notify_about::<DidOpenTextDocument>(DidOpenTextDocumentParams { text_document: item });
    }

    /// Replaces a range; the document gets this version.
    pub(crate) fn change(&self, uri: &Uri, version: i32, range: Option<Range>, text: &str) {
        let change = TextDocumentContentChangeEvent { range, range_length: None, text: text.to_owned() };
        let text_document = VersionedTextDocumentIdentifier::new(uri.clone(), version);
        self.notify_about::<DidChangeTextDocument>(DidChangeTextDocumentParams {
            text_document,
            content_changes: vec![change],
        });
    }

    pub(crate) fn close(&self, uri: &Uri) {
        let text_document = TextDocumentIdentifier::new(uri.clone());
        self.notify_about::<DidCloseTextDocument>(DidCloseTextDocumentParams { text_document });
    }

    fn notify_about<N: Notice>(&self, params: N::Params) {
        self.notify(N::METHOD, serde_json::to_value(params).unwrap());
    }

    /// The diagnostics of a version of a document, as reading it gives them or the proof.
    pub(crate) fn diagnostics(&mut self, uri: &Uri, version: i32) -> Vec<Diagnostic> {
        loop {
            if let Some(params) = self.published.get(uri)
                && params.version == Some(version)
            {
                return params.diagnostics.clone();
            }
            self.receive();
        }
    }

    /// The diagnostics of a document after the next proof.
    pub(crate) fn proved_diagnostics(&mut self, uri: &Uri) -> Vec<Diagnostic> {
        let before = self.proofs;
        while self.proofs == before {
            self.receive();
        }
        self.published[uri].diagnostics.clone()
    }

    /// The next file that the server asks to show.
    pub(crate) fn shown_file(&mut self) -> PathBuf {
        while self.shown.is_empty() {
            self.receive();
        }
        self.shown.remove(0).strip_prefix("file://").unwrap().into()
    }

    /// The diagnostics of a document that were published last.
    pub(crate) fn published(&self, uri: &Uri) -> Option<&PublishDiagnosticsParams> {
        self.published.get(uri)
    }

    /// Ends the server, which must have no failure.
    pub(crate) fn finish(mut self) {
        assert_eq!(self.ask(Shutdown::METHOD, Value::Null).unwrap(), Value::Null);
        self.notify("exit", Value::Null);
        assert!(self.server.take().unwrap().join().unwrap());
    }
}

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A file of the repository: its URI and its text.
pub(crate) fn file(path: &str) -> (Uri, String) {
    let file = root().join(path);
    let text = std::fs::read_to_string(&file).unwrap();
    (format!("file://{}", file.display()).parse().unwrap(), text)
}

/// A document that is no file.
pub(crate) fn untitled() -> Uri {
    "untitled:one".parse().unwrap()
}

/// The position of a byte, as the protocol counts: in UTF-16.
pub(crate) fn position_of(text: &str, byte: usize) -> Position {
    let before = &text[..byte];
    let column = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
    Position::new(before.matches('\n').count() as u32, column as u32)
}

/// The position of a part of a text.
pub(crate) fn start_of(text: &str, part: &str) -> Position {
    position_of(text, text.find(part).unwrap())
}

/// The position of the end of a part of a text.
pub(crate) fn end_of(text: &str, part: &str) -> Position {
    position_of(text, text.find(part).unwrap() + part.len())
}

/// The range of a part of a text.
pub(crate) fn range_of(text: &str, part: &str) -> Range {
    Range::new(start_of(text, part), end_of(text, part))
}

/// A position in a document, for requests.
pub(crate) fn place(uri: &Uri, position: Position) -> TextDocumentPositionParams {
    TextDocumentPositionParams::new(TextDocumentIdentifier::new(uri.clone()), position)
}

/// The byte of a position, counted slowly.
pub(crate) fn byte_of(text: &str, position: Position) -> usize {
    let line: usize = text.split_inclusive('\n').take(position.line as usize).map(str::len).sum();
    let mut units = 0;
    for (at, char) in text[line..].char_indices() {
        if units >= position.character as usize || char == '\n' {
            return line + at;
        }
        units += char.len_utf16();
    }
    text.len()
}

/// A text with edits, which must not overlap.
pub(crate) fn with_edits(text: &str, edits: &[TextEdit]) -> String {
    let mut edits: Vec<&TextEdit> = edits.iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.range.start));
    let mut text = text.to_owned();
    for edit in edits {
        text.replace_range(byte_of(&text, edit.range.start)..byte_of(&text, edit.range.end), &edit.new_text);
    }
    text
}
