//! `--completions` and `--man-page`: texts that clap makes of a command line.

use crate::explain::{EXPLAIN, explain_flag};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;

/// The flags of every tool for its generated texts. As with `--help`, other arguments do not matter then: a required
/// one says `required_unless_present_any = GENERATED`.
pub(crate) const GENERATED_FLAGS: [fn() -> Arg; 3] = [explain_flag, completions_flag, man_page_flag];

const COMPLETIONS: &str = "completions";
const MAN_PAGE: &str = "man_page";

/// The ids of these flags.
pub const GENERATED: [&str; 3] = [EXPLAIN, COMPLETIONS, MAN_PAGE];

fn completions_flag() -> Arg {
    Arg::new(COMPLETIONS)
        .long("completions")
        .value_name("SHELL")
        .value_parser(shell_parser())
        .help("Print a script by which a shell completes command lines")
}

fn man_page_flag() -> Arg {
    Arg::new(MAN_PAGE).long("man-page").action(ArgAction::SetTrue).help("Print the manual page")
}

fn shell_parser() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).map(|text| match text.as_str() {
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => Shell::Bash,
    })
}

/// The text that is asked for, if one is.
pub(crate) fn generated_text(
    matches: &ArgMatches,
    command: &Command,
    with_values: &dyn Fn(Command) -> Command,
) -> Option<String> {
    match matches.get_one::<Shell>(COMPLETIONS) {
        Some(shell) => Some(completion_script(*shell, with_values(command.clone()))),
        None => matches.get_flag(MAN_PAGE).then(|| man_page(command)),
    }
}

/// The line of clap's script for bash that reads the word in front of the one to complete.
const BASH_WORDS: &str = "    prev=\"$3\"\n";

/// Bash takes the `=` of `--flag=value` for a word of its own, which clap's script does not expect.
const BASH_VALUES: &str = r#"    prev="$3"
    if [[ "${cur}" == "=" ]]; then
        cur=""
    elif [[ "${prev}" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    fi
"#;

fn completion_script(shell: Shell, mut command: Command) -> String {
    let mut out = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut out);
    let text = String::from_utf8_lossy(&out);
    match shell {
        Shell::Bash => text.replacen(BASH_WORDS, BASH_VALUES, 1),
        _ => text.into_owned(),
    }
}

/// The manual page: clap's sections, and the text below the options with its lines as they are.
fn man_page(command: &Command) -> String {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let page = Man::new(command.clone());
    let mut out = Vec::new();
    // Writing to a vector cannot fail.
    let _ = page.render_title(&mut out);
    let _ = page.render_name_section(&mut out);
    let _ = page.render_synopsis_section(&mut out);
    let _ = page.render_options_section(&mut out);
    let mut text = String::from_utf8_lossy(&out).into_owned();
    text += ".SH NOTES\n.nf\n";
    for line in notes.lines() {
        text += &format!("{}\n", roff_line(line));
    }
    text + ".fi\n"
}

/// A line of text for roff, which takes a dot or an apostrophe at its start for a command.
fn roff_line(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}
