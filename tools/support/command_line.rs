//! Command lines: the parts of clap that both tools use.

use crate::events;
use crate::explain::explain_code;
pub use crate::generated::GENERATED;
use crate::generated::{GENERATED_FLAGS, generated_text};
use crate::io::ToolIo;
use crate::render::DiagFormat;
use crate::status::ToolStatus;
use crate::terminal::{ColorMode, help_width};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, Parser};
use hostir::diag::visible;
use hostir::hir2::defaults::dtype_of_word;
use hostir::ir::DType;
use std::ffi::OsString;

/// `--color`.
#[derive(Args)]
pub struct ColorArgument {
    /// The time to colour.
    #[arg(id = "color", long = "color", value_name = "WHEN", default_value = "auto", value_parser = coloring_parser(),
        help = "When to use color; auto follows NO_COLOR, CLICOLOR_FORCE, TERM and the terminal")]
    pub when: ColorMode,
}

fn coloring_parser() -> impl TypedValueParser<Value = ColorMode> {
    PossibleValuesParser::new(["auto", "always", "never"]).map(|text| match text.as_str() {
        "always" => ColorMode::Always,
        "never" => ColorMode::Never,
        _ => ColorMode::Auto,
    })
}

/// Reads the value of `--error-format`.
pub fn format_parser() -> impl TypedValueParser<Value = DiagFormat> {
    PossibleValuesParser::new(["human", "json"]).map(|text| match text.as_str() {
        "json" => DiagFormat::Json,
        _ => DiagFormat::Human,
    })
}

/// Reads the value of `--element-type`: a name of either notation.
///
/// # Errors
/// Another word.
pub fn parse_element_type(text: &str) -> Result<DType, String> {
    let known = DType::parse(text).or_else(|| dtype_of_word(text));
    known.ok_or_else(|| {
        "write an element type of either notation, such as float, double, __bfloat, f32, bf16".to_owned()
    })
}

/// Reads a pair of `--set p=4,q=2`.
///
/// # Errors
/// Another text.
pub fn parse_size(pair: &str) -> Result<(String, i64), String> {
    let size =
        pair.split_once('=').and_then(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)));
    size.ok_or_else(|| "write a name and an integer, `--set p=4`".to_owned())
}

/// The words of a tool beside clap's.
#[derive(Clone, Copy)]
pub struct ToolWords<'a> {
    /// Better messages for some errors.
    pub answer: &'a dyn Fn(&clap::Error) -> Option<String>,
    /// The command with the values of its flags that the tool reads by itself, for shells to complete.
    pub with_values: &'a dyn Fn(Command) -> Command,
}

/// Reads the arguments, the program's name first. Every tool has `--explain`, `--completions` and `--man-page` beside
/// its own.
///
/// # Errors
/// The exit status of an error, which was reported; also for `--help`, `--version` and other texts about the tool.
pub fn match_arguments<A: Parser>(
    args: &[OsString],
    io: &mut ToolIo<'_>,
    words: ToolWords<'_>,
) -> Result<(A, ArgMatches), ToolStatus> {
    let command = A::command().args(GENERATED_FLAGS.map(|flag| flag())).term_width(help_width(io.env, io.columns));
    if events::is_list_wanted(args, &command) {
        return Err(events::list_components(io));
    }
    let matched = command.clone().try_get_matches_from(args);
    if let Some(status) = matched.as_ref().ok().and_then(|found| explain_code(found, io)) {
        return Err(status);
    }
    if let Some(text) = matched.as_ref().ok().and_then(|found| generated_text(found, &command, words.with_values)) {
        return Err(io.print_output(&text));
    }
    match matched.and_then(|matches| Ok((A::from_arg_matches(&matches)?, matches))) {
        Ok(found) => Ok(found),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Err(io.print_output(&visible::escape_block(&error.render().to_string())))
        }
        Err(error) => {
            let mut error = shown_error(error, args, command.clone());
            turn_suggestion(&mut error, &command);
            io.print_message(&match (words.answer)(&error) {
                Some(answer) => format!("error: {answer}"),
                None => error.render().to_string(),
            });
            Err(ToolStatus::Usage)
        }
    }
}

/// Replaces a suggested negation, `--no-check` for `--check`, by the only option that begins so, if there is one.
fn turn_suggestion(error: &mut clap::Error, command: &Command) {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg).cloned() else { return };
    let Some(ContextValue::String(near)) = error.get(ContextKind::SuggestedArg).cloned() else { return };
    if found.starts_with("--no-") || !near.starts_with("--no-") {
        return;
    }
    error.remove(ContextKind::SuggestedArg);
    // It has the suggestion in it.
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    let names = command.get_arguments().filter_map(|argument| argument.get_long());
    let longer: Vec<String> = names.map(|name| format!("--{name}")).filter(|name| name.starts_with(&found)).collect();
    if let [only] = longer.as_slice() {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(only.clone()));
    }
}

/// The error of a command line in safe form: its quotations could contain control characters and line breaks.
fn shown_error(error: clap::Error, args: &[OsString], command: Command) -> clap::Error {
    command
        .try_get_matches_from(args.iter().map(|arg: &OsString| match arg.to_str() {
            Some(text) => OsString::from(&*visible::escape_line(text)),
            None => arg.clone(),
        }))
        .err()
        .unwrap_or(error)
}
