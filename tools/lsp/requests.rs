//! The methods of requests, and the capabilities that announce them.

use crate::features::{actions, completion, formatting, hints, hover, lenses, navigation, outline, tokens};
use crate::model_times::ProgramPlace;
use crate::session::{EditorSession, RequestContext};
use crate::timeline_page::draw_timeline;
use lsp_server::{ErrorCode, Request, RequestId, Response};
use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, Completion, DocumentHighlightRequest, DocumentSymbolRequest, ExecuteCommand,
    FoldingRangeRequest, Formatting, GotoDefinition, HoverRequest, InlayHintRequest, PrepareRenameRequest, References,
    Rename, Request as Method, SemanticTokensFullRequest,
};
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionParams, CodeActionProviderCapability, CodeLensOptions, CodeLensParams,
    CompletionOptions, CompletionParams, DocumentFormattingParams, DocumentHighlightParams, DocumentSymbolParams,
    ExecuteCommandOptions, ExecuteCommandParams, FoldingRangeParams, FoldingRangeProviderCapability,
    GotoDefinitionParams, HoverParams, HoverProviderCapability, InitializeResult, InlayHintParams, OneOf,
    ReferenceParams, RenameOptions, RenameParams, SemanticTokensFullOptions, SemanticTokensOptions,
    SemanticTokensParams, ServerCapabilities, ServerInfo, TextDocumentPositionParams, TextDocumentSyncCapability,
    TextDocumentSyncKind, Uri,
};
use serde::de::DeserializeOwned;

/// The parameters of a request about one document.
trait AboutDocument {
    fn document_uri(&self) -> &Uri;
}

macro_rules! about_documents {
    ($($params:ty: $($field:ident).+;)*) => {$(
        impl AboutDocument for $params {
            fn document_uri(&self) -> &Uri {
                &self.$($field).+.uri
            }
        }
    )*};
}

about_documents! {
    DocumentFormattingParams: text_document;
    CodeActionParams: text_document;
    CodeLensParams: text_document;
    CompletionParams: text_document_position.text_document;
    DocumentHighlightParams: text_document_position_params.text_document;
    DocumentSymbolParams: text_document;
    FoldingRangeParams: text_document;
    GotoDefinitionParams: text_document_position_params.text_document;
    HoverParams: text_document_position_params.text_document;
    InlayHintParams: text_document;
    ReferenceParams: text_document_position.text_document;
    RenameParams: text_document_position.text_document;
    SemanticTokensParams: text_document;
    TextDocumentPositionParams: text_document;
}

/// The answer to `initialize`.
pub fn initialize_result() -> InitializeResult {
    InitializeResult {
        capabilities: ServerCapabilities {
            text_document_sync: Some(TextDocumentSyncCapability::Kind(TextDocumentSyncKind::INCREMENTAL)),
            document_formatting_provider: Some(OneOf::Left(true)),
            code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
                code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
                ..CodeActionOptions::default()
            })),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            definition_provider: Some(OneOf::Left(true)),
            references_provider: Some(OneOf::Left(true)),
            document_highlight_provider: Some(OneOf::Left(true)),
            rename_provider: Some(OneOf::Right(RenameOptions {
                prepare_provider: Some(true),
                work_done_progress_options: Default::default(),
            })),
            document_symbol_provider: Some(OneOf::Left(true)),
            folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
            completion_provider: Some(CompletionOptions::default()),
            semantic_tokens_provider: Some(
                SemanticTokensOptions {
                    legend: tokens::token_legend(),
                    full: Some(SemanticTokensFullOptions::Bool(true)),
                    ..SemanticTokensOptions::default()
                }
                .into(),
            ),
            inlay_hint_provider: Some(OneOf::Left(true)),
            code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
            execute_command_provider: Some(ExecuteCommandOptions {
                commands: vec![lenses::PROVE.to_owned(), lenses::TIMELINE.to_owned()],
                ..ExecuteCommandOptions::default()
            }),
            ..ServerCapabilities::default()
        },
        server_info: Some(ServerInfo {
            name: "hir-lsp".to_owned(),
            version: Some(hostir_tool_support::VERSION.to_owned()),
        }),
    }
}

/// Answers a request; one that cannot be answered with an error.
pub(crate) fn answer_request(session: &mut EditorSession, request: Request) -> Response {
    match request.method.as_str() {
        Formatting::METHOD => answer::<Formatting>(session, request, formatting::format_document),
        CodeActionRequest::METHOD => answer::<CodeActionRequest>(session, request, actions::list_actions),
        HoverRequest::METHOD => answer::<HoverRequest>(session, request, hover::show_hover),
        GotoDefinition::METHOD => answer::<GotoDefinition>(session, request, navigation::find_definition),
        References::METHOD => answer::<References>(session, request, navigation::find_references),
        DocumentHighlightRequest::METHOD => {
            answer::<DocumentHighlightRequest>(session, request, navigation::find_highlights)
        }
        PrepareRenameRequest::METHOD => answer::<PrepareRenameRequest>(session, request, navigation::prepare_rename),
        Rename::METHOD => answer::<Rename>(session, request, navigation::rename),
        DocumentSymbolRequest::METHOD => answer::<DocumentSymbolRequest>(session, request, outline::list_symbols),
        FoldingRangeRequest::METHOD => answer::<FoldingRangeRequest>(session, request, outline::list_folds),
        Completion::METHOD => answer::<Completion>(session, request, completion::list_completions),
        SemanticTokensFullRequest::METHOD => answer::<SemanticTokensFullRequest>(session, request, tokens::list_tokens),
        InlayHintRequest::METHOD => answer::<InlayHintRequest>(session, request, hints::list_hints),
        CodeLensRequest::METHOD => answer::<CodeLensRequest>(session, request, lenses::list_lenses),
        ExecuteCommand::METHOD => execute_command(session, request),
        method => {
            let message = format!("there is no method `{method}`");
            Response::new_err(request.id, ErrorCode::MethodNotFound as i32, message)
        }
    }
}

/// Answers a request about a document from what is known about it.
fn answer<M: Method>(
    session: &mut EditorSession,
    request: Request,
    find: fn(&RequestContext<'_>, M::Params) -> Result<M::Result, String>,
) -> Response
where
    M::Params: AboutDocument + DeserializeOwned,
{
    let (id, params) = match parameters::<M::Params>(request) {
        Ok(found) => found,
        Err(response) => return response,
    };
    let settings = session.settings.clone();
    let Some((open, snapshot)) = session.read_document(params.document_uri()) else {
        let message = format!("the document {} is not open", params.document_uri().as_str());
        return Response::new_err(id, ErrorCode::InvalidParams as i32, message);
    };
    let context = RequestContext { open, snapshot: &snapshot, settings: &settings };
    match find(&context, params) {
        Ok(result) => Response::new_ok(id, result),
        Err(message) => Response::new_err(id, ErrorCode::InvalidParams as i32, message),
    }
}

/// Carries out the commands of code lenses.
fn execute_command(session: &mut EditorSession, request: Request) -> Response {
    let (id, params) = match parameters::<ExecuteCommandParams>(request) {
        Ok(found) => found,
        Err(response) => return response,
    };
    let uri: Option<Uri> = params.arguments.first().and_then(|uri| uri.as_str()?.parse().ok());
    let done = match (params.command.as_str(), uri, program_place(&params.arguments)) {
        (lenses::PROVE, Some(uri), _) if session.prove_again(&uri) => Ok(()),
        (lenses::TIMELINE, Some(uri), Some(place)) => draw_timeline(session, &uri, place),
        (lenses::TIMELINE, ..) => Err("it needs a document and the numbers of its text and program".to_owned()),
        _ => Err("it needs an open document".to_owned()),
    };
    match done {
        Ok(()) => Response::new_ok(id, ()),
        Err(why) => {
            let message = format!("the command `{}` failed: {why}", params.command);
            Response::new_err(id, ErrorCode::InvalidParams as i32, message)
        }
    }
}

/// The place of a program in the arguments of a command, after the URI.
fn program_place(arguments: &[serde_json::Value]) -> Option<ProgramPlace> {
    let [_, section, program] = arguments else { return None };
    Some(ProgramPlace { section: section.as_u64()?.try_into().ok()?, program: program.as_u64()?.try_into().ok()? })
}

fn parameters<P: DeserializeOwned>(request: Request) -> Result<(RequestId, P), Response> {
    match serde_json::from_value(request.params) {
        Ok(params) => Ok((request.id, params)),
        Err(error) => {
            let message = format!("wrong parameters of `{}`: {error}", request.method);
            Err(Response::new_err(request.id, ErrorCode::InvalidParams as i32, message))
        }
    }
}
