//! The state between messages: the open documents with what is known about them, and the client's settings.

use crate::documents::{Document, file_of_uri, uri_beside};
use crate::proof::{ProgramOutcomes, ProofJob, ProofThread};
use crate::publish::protocol_diagnostics;
use crate::settings::{ClientSettings, RunValues};
use crate::snapshot::{KnownTree, Snapshot};
use hostir::diag::Diag;
use hostir::machine::Machine;
use hostir::ops::OpRegistry;
use hostir_grammar::MAX_TEXT;
use hostir_grammar::hir2::bundle::imported_paths;
use lsp_server::{Connection, Notification};
use lsp_types::notification::{PublishDiagnostics, ShowMessage};
use lsp_types::{MessageType, PublishDiagnosticsParams, ShowMessageParams, Uri};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open document with what is known about it.
pub struct OpenDocument {
    /// The document.
    pub document: Document,
    /// The text as it was read; `None` until then.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The result of the proof of this snapshot.
    pub proof: Option<ProofState>,
    /// The tree of the text that was read last.
    known: Option<KnownTree>,
    /// The flag of the work in the background.
    cancelled: Arc<AtomicBool>,
}

/// The result of a proof.
pub struct ProofState {
    /// All diagnostics, those of reading included.
    pub diags: Vec<Diag>,
    /// The outcomes of its programs.
    pub outcomes: ProgramOutcomes,
}

impl OpenDocument {
    /// A document whose text is not read.
    pub(crate) fn new(document: Document) -> Self {
        Self { document, snapshot: None, proof: None, known: None, cancelled: Arc::default() }
    }

    /// The diagnostics that are shown now.
    pub fn diags(&self) -> &[Diag] {
        match (&self.proof, &self.snapshot) {
            (Some(proof), _) => &proof.diags,
            (None, Some(snapshot)) => &snapshot.diags,
            (None, None) => &[],
        }
    }

    /// Forgets what was known: the text, or one that it imports, has changed.
    pub(crate) fn forget(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.cancelled = Arc::default();
        // The memory is free before the next text is read, which is as long: clear pages cost more than the freeing.
        (self.snapshot, self.proof) = (None, None);
    }
}

/// The facts that a request is answered from.
pub struct RequestContext<'a> {
    /// The document with its diagnostics and proof.
    pub open: &'a OpenDocument,
    /// Its text as it was read.
    pub snapshot: &'a Snapshot,
    /// The client's settings.
    pub settings: &'a ClientSettings,
}

impl RequestContext<'_> {
    /// The document.
    pub fn document(&self) -> &Document {
        &self.open.document
    }
}

/// A client with its documents, and the thread that proves them.
pub struct EditorSession {
    /// The messages from and to the client.
    pub(crate) connection: Connection,
    /// The open documents by name.
    pub(crate) documents: BTreeMap<Uri, OpenDocument>,
    /// The client's settings.
    pub settings: ClientSettings,
    /// The machine that they name.
    machine: Option<Machine>,
    /// The ops that texts may name.
    ops: OpRegistry,
    /// The thread that proves them.
    pub(crate) proofs: ProofThread,
    /// True if the client shows files on request.
    pub(crate) shows_documents: bool,
}

impl EditorSession {
    /// A session without documents. It starts the thread of proofs.
    pub(crate) fn new(connection: Connection, settings: ClientSettings, ops: OpRegistry) -> std::io::Result<Self> {
        let (documents, proofs) = (BTreeMap::new(), ProofThread::spawn()?);
        let (machine, shows_documents) = (None, false);
        let mut session =
            Self { connection, documents, settings: ClientSettings::default(), machine, ops, proofs, shows_documents };
        session.change_settings(settings);
        Ok(session)
    }

    /// Takes new settings; the client hears of a machine that there is not. Every document is read again.
    pub(crate) fn change_settings(&mut self, settings: ClientSettings) {
        self.settings = settings;
        self.machine = self.settings.read_machine().unwrap_or_else(|message| {
            // An error of the connection is met again when something else is sent.
            let _ = self.notify::<ShowMessage>(ShowMessageParams { typ: MessageType::WARNING, message });
            None
        });
        self.documents.values_mut().for_each(OpenDocument::forget);
    }

    /// An open document with its text read; `None` if no such document is open.
    pub fn read_document(&mut self, uri: &Uri) -> Option<(&OpenDocument, Arc<Snapshot>)> {
        if self.documents.get(uri)?.snapshot.is_none() {
            // An error of the connection is met again when the answer is sent.
            let _ = self.read_text(uri);
        }
        let open = self.documents.get(uri)?;
        Some((open, open.snapshot.clone()?))
    }

    /// Reads and proves a document again; false if no such document is open.
    pub(crate) fn prove_again(&mut self, uri: &Uri) -> bool {
        let found = self.documents.get_mut(uri);
        found.map(OpenDocument::forget).is_some()
    }

    /// Documents that import others are read again.
    pub(crate) fn forget_importers(&mut self) {
        let importers = self.documents.values_mut().filter(|open| imported_paths(&open.document.text).next().is_some());
        importers.for_each(OpenDocument::forget);
    }

    /// Reads a document, publishes what reading says, and lets its programs be proved.
    pub(crate) fn read_text(&mut self, uri: &Uri) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Some(open) = self.documents.get_mut(uri) else { return Ok(()) };
        let (text, mut known) = (open.document.text.clone(), open.known.take());
        let mut values = RunValues { ops: self.ops, ..RunValues::of_text(&text, &self.settings) };
        values.machine = self.machine.clone().or(values.machine);
        let snapshot = Snapshot::from_text(&text, values, &mut |path| self.imported_text(uri, path), &mut known);
        let snapshot = Arc::new(snapshot);
        let Some(open) = self.documents.get_mut(uri) else { return Ok(()) };
        (open.snapshot, open.known) = (Some(snapshot.clone()), known);
        let cancelled = open.cancelled.clone();
        self.publish_diags(uri)?;
        if self.settings.proof {
            self.proofs.add_job(ProofJob { uri: uri.clone(), snapshot, cancelled });
        }
        Ok(())
    }

    /// The text of a file that a document imports: as the client has it, else as it is on disk.
    fn imported_text(&self, importer: &Uri, path: &str) -> Result<String, String> {
        let uri = uri_beside(importer, path).ok_or("the importing document is no file")?;
        if let Some(open) = self.documents.get(&uri) {
            return Ok(open.document.text.as_ref().to_owned());
        }
        let file = file_of_uri(&uri).ok_or("the importing document is no file")?;
        let found = std::fs::metadata(&file).map_err(|_| "no such file or directory")?;
        if !found.is_file() || found.len() > MAX_TEXT as u64 {
            return Err("it is no plain file, or a very long one".to_owned());
        }
        std::fs::read_to_string(&file).map_err(|_| "it is not valid UTF-8".to_owned())
    }

    /// Sends the diagnostics of a document that are shown now.
    pub(crate) fn publish_diags(&self, uri: &Uri) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Some(open) = self.documents.get(uri) else { return Ok(()) };
        let diags = protocol_diagnostics(&open.document, open.diags(), self.settings.docs.as_deref());
        self.notify::<PublishDiagnostics>(PublishDiagnosticsParams::new(
            uri.clone(),
            diags,
            Some(open.document.version),
        ))
    }

    /// Sends a notification.
    pub(crate) fn notify<N: lsp_types::notification::Notification>(
        &self,
        params: N::Params,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let notice = Notification::new(N::METHOD.to_owned(), params);
        Ok(self.connection.sender.send(notice.into())?)
    }
}
