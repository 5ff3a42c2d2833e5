//! The loop over messages.
//!
//! A change of a document is applied at once; the text is read again when no message is waiting, or when a request is
//! about it. So a burst of changes is read once. Requests that the client cancels before their turn are not answered
//! with results.

use crate::documents::Document;
use crate::proof::ProofResult;
use crate::requests;
use crate::session::{EditorSession, OpenDocument, ProofState};
use crate::settings::ClientSettings;
use crossbeam_channel::{TryRecvError, select};
use hostir::ops::OpRegistry;
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{
    Cancel, DidChangeConfiguration, DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument,
    DidOpenTextDocument, Exit, Notification as _, PublishDiagnostics,
};
use lsp_types::request::{CodeLensRefresh, InlayHintRefreshRequest, Request as _, Shutdown};
use lsp_types::{
    CancelParams, DidChangeConfigurationParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, InitializeParams, NumberOrString, PublishDiagnosticsParams, Uri,
};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;

/// The abilities of the client.
#[derive(Clone, Copy, Default, Debug)]
struct ClientAbilities {
    refreshes_lenses: bool,
    refreshes_hints: bool,
}

/// The state of the loop.
struct Server {
    session: EditorSession,
    /// Messages that were received and not handled.
    waiting: VecDeque<Message>,
    abilities: ClientAbilities,
    /// The number of requests that the server has sent.
    sent: i32,
    is_shut_down: bool,
}

/// The next thing that the loop does.
enum NextEvent {
    Message(Message),
    Proved(ProofResult),
    /// No message is waiting, and texts are to be read.
    Idle,
    Closed,
}

/// Serves a client, whose texts may name these ops, until it asks to exit or closes the connection.
///
/// # Errors
/// A first message that is no request to initialize, and a connection that fails.
pub fn serve(connection: Connection, ops: OpRegistry) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (id, params) = connection.initialize_start()?;
    let params: InitializeParams = serde_json::from_value(params).unwrap_or_default();
    connection.initialize_finish(id, serde_json::to_value(requests::initialize_result())?)?;
    Server::new(connection, &params, ops)?.run()
}

impl Server {
    fn new(connection: Connection, params: &InitializeParams, ops: OpRegistry) -> std::io::Result<Self> {
        let workspace = params.capabilities.workspace.as_ref();
        let lens = workspace.and_then(|workspace| workspace.code_lens.as_ref()?.refresh_support);
        let hints = workspace.and_then(|workspace| workspace.inlay_hint.as_ref()?.refresh_support);
        let abilities =
            ClientAbilities { refreshes_lenses: lens.unwrap_or_default(), refreshes_hints: hints.unwrap_or_default() };
        let settings = params.initialization_options.as_ref().map(ClientSettings::from_value).unwrap_or_default();
        let mut session = EditorSession::new(connection, settings, ops)?;
        let window = params.capabilities.window.as_ref();
        session.shows_documents =
            window.is_some_and(|window| window.show_document.as_ref().is_some_and(|shows| shows.support));
        Ok(Self { session, waiting: VecDeque::new(), abilities, sent: 0, is_shut_down: false })
    }

    fn run(mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        loop {
            match self.next_event() {
                NextEvent::Message(Message::Notification(notice)) if notice.method == Exit::METHOD => return Ok(()),
                NextEvent::Message(Message::Notification(notice)) => self.take_notification(notice),
                NextEvent::Message(Message::Request(request)) => self.take_request(request)?,
                NextEvent::Message(Message::Response(_)) => {}
                NextEvent::Proved(result) => self.take_proof(result)?,
                NextEvent::Idle => self.read_stale()?,
                NextEvent::Closed => return Ok(()),
            }
        }
    }

    fn next_event(&mut self) -> NextEvent {
        if let Some(message) = self.waiting.pop_front() {
            return NextEvent::Message(message);
        }
        if self.session.documents.values().any(|open| open.snapshot.is_none()) {
            return match self.session.connection.receiver.try_recv() {
                Ok(message) => NextEvent::Message(message),
                Err(TryRecvError::Empty) => NextEvent::Idle,
                Err(TryRecvError::Disconnected) => NextEvent::Closed,
            };
        }
        select! {
            recv(self.session.connection.receiver) -> message => message.map_or(NextEvent::Closed, NextEvent::Message),
            recv(self.session.proofs.results) -> result => result.map_or(NextEvent::Closed, NextEvent::Proved),
        }
    }

    // Notifications.

    fn take_notification(&mut self, notice: Notification) {
        match notice.method.as_str() {
            DidOpenTextDocument::METHOD => self.take_params(notice, Self::open_document),
            DidChangeTextDocument::METHOD => self.take_params(notice, Self::change_document),
            DidCloseTextDocument::METHOD => self.take_params(notice, Self::close_document),
            DidChangeConfiguration::METHOD => self.take_params(notice, Self::change_settings),
            DidChangeWatchedFiles::METHOD => self.session.forget_importers(),
            _ => {}
        }
    }

    /// Handles a notification, if it has the parameters that it needs; nobody hears of one that has not.
    fn take_params<P: DeserializeOwned>(&mut self, notice: Notification, handle: fn(&mut Self, P)) {
        if let Ok(params) = serde_json::from_value(notice.params) {
            handle(self, params);
        }
    }

    fn open_document(&mut self, params: DidOpenTextDocumentParams) {
        let item = params.text_document;
        let document = Document::new(item.uri.clone(), item.version, item.text);
        if let Some(mut before) = self.session.documents.insert(item.uri, OpenDocument::new(document)) {
            before.forget();
        }
        self.session.forget_importers();
    }

    fn change_document(&mut self, params: DidChangeTextDocumentParams) {
        let Some(open) = self.session.documents.get_mut(&params.text_document.uri) else { return };
        open.document.apply_changes(params.text_document.version, params.content_changes);
        open.forget();
        self.session.forget_importers();
    }

    fn close_document(&mut self, params: DidCloseTextDocumentParams) {
        let uri = params.text_document.uri;
        if let Some(mut open) = self.session.documents.remove(&uri) {
            open.forget();
            self.session.forget_importers();
            let params = PublishDiagnosticsParams::new(uri, Vec::new(), None);
            // A client that is gone needs no diagnostics.
            let _ = self.session.notify::<PublishDiagnostics>(params);
        }
    }

    fn change_settings(&mut self, params: DidChangeConfigurationParams) {
        self.session.change_settings(ClientSettings::from_value(&params.settings));
    }

    // Requests.

    fn take_request(&mut self, request: Request) -> Result<(), Box<dyn Error + Send + Sync>> {
        let answer = if self.is_cancelled(&request.id) {
            Response::new_err(request.id, ErrorCode::RequestCanceled as i32, "the client cancelled it".to_owned())
        } else if self.is_shut_down {
            Response::new_err(request.id, ErrorCode::InvalidRequest as i32, "the server is shut down".to_owned())
        } else if request.method == Shutdown::METHOD {
            self.is_shut_down = true;
            Response::new_ok(request.id, ())
        } else {
            self.answer_safely(request)
        };
        Ok(self.session.connection.sender.send(answer.into())?)
    }

    /// Answers a request; one that meets a bug of the server is answered with an error, and the server goes on.
    fn answer_safely(&mut self, request: Request) -> Response {
        let id = request.id.clone();
        let answer = std::panic::AssertUnwindSafe(|| requests::answer_request(&mut self.session, request));
        std::panic::catch_unwind(answer).unwrap_or_else(|_| {
            Response::new_err(id, ErrorCode::InternalError as i32, "the server has a bug here".to_owned())
        })
    }

    /// Returns true if a notice that cancels the request is among the messages that have arrived.
    fn is_cancelled(&mut self, id: &RequestId) -> bool {
        self.waiting.extend(self.session.connection.receiver.try_iter());
        self.waiting.iter().any(|message| match message {
            Message::Notification(notice) if notice.method == Cancel::METHOD => {
                let params = CancelParams::deserialize_from(&notice.params);
                params.is_some_and(|params| request_id(params.id) == *id)
            }
            _ => false,
        })
    }

    // Reading and proving.

    fn read_stale(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let stale = self.session.documents.iter().filter(|(_, open)| open.snapshot.is_none());
        let stale: Vec<Uri> = stale.map(|(uri, _)| uri.clone()).collect();
        stale.iter().try_for_each(|uri| self.session.read_text(uri))
    }

    fn take_proof(&mut self, result: ProofResult) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Some(open) = self.session.documents.get_mut(&result.uri) else { return Ok(()) };
        let is_current = open.snapshot.as_ref().is_some_and(|snapshot| Arc::ptr_eq(snapshot, &result.snapshot));
        if !is_current {
            return Ok(());
        }
        let shown = open.diags() == result.diags;
        open.proof = Some(ProofState { diags: result.diags, outcomes: result.outcomes });
        if !shown {
            self.session.publish_diags(&result.uri)?;
        }
        if self.abilities.refreshes_lenses {
            self.ask::<CodeLensRefresh>()?;
        }
        if self.abilities.refreshes_hints {
            self.ask::<InlayHintRefreshRequest>()?;
        }
        Ok(())
    }

    /// Sends a request without parameters, whose answer does not matter.
    fn ask<R: lsp_types::request::Request>(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.sent += 1;
        let request = Request::new(self.sent.into(), R::METHOD.to_owned(), serde_json::Value::Null);
        Ok(self.session.connection.sender.send(request.into())?)
    }
}

/// Reads parameters without taking them.
trait DeserializeFrom: Sized {
    fn deserialize_from(value: &serde_json::Value) -> Option<Self>;
}

impl<T: DeserializeOwned> DeserializeFrom for T {
    fn deserialize_from(value: &serde_json::Value) -> Option<Self> {
        T::deserialize(value).ok()
    }
}

fn request_id(id: NumberOrString) -> RequestId {
    match id {
        NumberOrString::Number(number) => number.into(),
        NumberOrString::String(text) => text.into(),
    }
}
