//! The command line, in the syntax that LLVM's programs have: one dash or two, `--name=value` or `--name value`.

use crate::failure::Failure;
use crate::options::{DumpFilter, DumpInput, Options, Verbosity};

/// A command line that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// The options.
    pub options: Options,
    /// The check file, where it is named.
    pub check_file: Option<String>,
    /// The file of `--input-file`.
    pub input_file: Option<String>,
    /// A text that is asked for in the place of a comparison.
    pub information: Option<Information>,
}

/// A text about the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Information {
    /// The options (`--help`).
    Help,
    /// The version (`--version`).
    Version,
}

impl CommandLine {
    /// Reads a command line without the command's name.
    ///
    /// # Errors
    /// An argument that is not known, a value that does not fit its option, a prefix that is not valid.
    pub fn parse(args: &[String]) -> Result<CommandLine, Failure> {
        let mut reader = LineReader::default();
        reader.read_arguments(args).map_err(|message| Failure::command_line(&message))?;
        let mut line = reader.line;
        let output = &mut line.options.output;
        output.dump_input = reader.dump_input.unwrap_or(output.dump_input);
        output.dump_context = reader.dump_context.unwrap_or(output.dump_context);
        if let Some(input) = line.input_file.as_ref().filter(|input| *input != "-") {
            line.options.input_name.clone_from(input);
        }
        if line.information.is_none() && line.options.output.dump_input != DumpInput::Help {
            line.options.validate().map_err(|message| Failure::usage(format!("error: {message}\n")))?;
        }
        Ok(line)
    }
}

/// A command line so far.
#[derive(Debug, Default)]
struct LineReader {
    line: CommandLine,
    dump_input: Option<DumpInput>,
    dump_context: Option<usize>,
}

/// Gives an option its value.
type SetValue = fn(reader: &mut LineReader, value: &str) -> Result<(), String>;

const VALUE_OPTIONS: [(&str, SetValue); 8] = [
    ("check-prefix", |reader, value| {
        reader.line.options.prefixes.push(value.to_owned());
        Ok(())
    }),
    ("check-prefixes", |reader, value| add_list(&mut reader.line.options.prefixes, value)),
    ("comment-prefixes", |reader, value| add_list(&mut reader.line.options.comment_prefixes, value)),
    ("dump-input", set_dump_input),
    ("dump-input-context", set_dump_context),
    ("dump-input-filter", set_dump_filter),
    ("implicit-check-not", |reader, value| {
        reader.line.options.implicit_check_nots.push(value.to_owned());
        Ok(())
    }),
    ("input-file", |reader, value| {
        reader.line.input_file = Some(value.to_owned());
        Ok(())
    }),
];

/// Sets an option that is on or off.
type SetFlag = fn(line: &mut CommandLine, on: bool);

const FLAG_OPTIONS: [(&str, SetFlag); 13] = [
    ("allow-deprecated-dag-overlap", |line, on| line.options.allow_dag_overlap = on),
    ("allow-empty", |line, on| line.options.allow_empty = on),
    ("allow-unused-prefixes", |line, on| line.options.allow_unused_prefixes = on),
    ("color", |line, on| line.options.output.color = on),
    ("enable-var-scope", |line, on| line.options.enable_var_scope = on),
    ("h", |line, on| line.information = on.then_some(Information::Help)),
    ("help", |line, on| line.information = on.then_some(Information::Help)),
    ("ignore-case", |line, on| line.options.ignore_case = on),
    ("match-full-lines", |line, on| line.options.match_full_lines = on),
    ("strict-whitespace", |line, on| line.options.strict_whitespace = on),
    ("v", |line, on| raise_verbosity(line, on, Verbosity::Matches)),
    ("version", |line, on| line.information = on.then_some(Information::Version)),
    ("vv", |line, on| raise_verbosity(line, on, Verbosity::Everything)),
];

fn add_list(list: &mut Vec<String>, value: &str) -> Result<(), String> {
    list.extend(value.split(',').map(str::to_owned));
    Ok(())
}

fn raise_verbosity(line: &mut CommandLine, on: bool, to: Verbosity) {
    let verbosity = &mut line.options.output.verbosity;
    *verbosity = if on { to.max(*verbosity) } else { *verbosity };
}

fn set_dump_input(reader: &mut LineReader, value: &str) -> Result<(), String> {
    let wanted = match value {
        "help" => DumpInput::Help,
        "always" => DumpInput::Always,
        "fail" => DumpInput::Fail,
        "never" => DumpInput::Never,
        _ => return Err(format!("'{value}' is none of help, always, fail, never")),
    };
    reader.dump_input = reader.dump_input.max(Some(wanted));
    Ok(())
}

fn set_dump_filter(reader: &mut LineReader, value: &str) -> Result<(), String> {
    let wanted = match value {
        "all" => DumpFilter::All,
        "annotation-full" => DumpFilter::AnnotationFull,
        "annotation" => DumpFilter::Annotation,
        "error" => DumpFilter::Error,
        _ => return Err(format!("'{value}' is none of all, annotation-full, annotation, error")),
    };
    let filter = &mut reader.line.options.output.dump_filter;
    *filter = (*filter).max(Some(wanted));
    Ok(())
}

fn set_dump_context(reader: &mut LineReader, value: &str) -> Result<(), String> {
    let lines: u32 = value.parse().map_err(|_| format!("'{value}' is not a number of lines"))?;
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    reader.dump_context = reader.dump_context.max(Some(lines));
    Ok(())
}

impl LineReader {
    fn read_arguments(&mut self, args: &[String]) -> Result<(), String> {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                return rest.by_ref().try_for_each(|file| self.add_file(file));
            }
            match arg.strip_prefix('-').filter(|name| !name.is_empty()) {
                None => self.add_file(arg)?,
                Some(name) => self.read_option(arg, name.strip_prefix('-').unwrap_or(name), &mut rest)?,
            }
        }
        Ok(())
    }

    fn add_file(&mut self, file: &str) -> Result<(), String> {
        match self.line.check_file.replace(file.to_owned()) {
            Some(first) => Err(format!("two check files: '{first}' and '{file}'")),
            None => Ok(()),
        }
    }

    fn read_option(&mut self, arg: &str, text: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<(), String> {
        if let Some(definition) = text.strip_prefix('D') {
            if definition.is_empty() {
                return Err("for the -D option: requires a value".to_owned());
            }
            self.line.options.definitions.push(definition.to_owned());
            return Ok(());
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if let Some((_, set)) = FLAG_OPTIONS.iter().find(|(known, _)| *known == name) {
            set(&mut self.line, flag_value(name, value)?);
            return Ok(());
        }
        let Some((_, set)) = VALUE_OPTIONS.iter().find(|(known, _)| *known == name) else {
            return Err(unknown_option(arg, name));
        };
        let value = value.or_else(|| rest.next().map(String::as_str));
        let value = value.ok_or_else(|| format!("for the --{name} option: requires a value"))?;
        set(self, value).map_err(|message| format!("for the --{name} option: {message}"))
    }
}

fn flag_value(name: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("" | "true" | "TRUE" | "True" | "1") => Ok(true),
        Some("false" | "FALSE" | "False" | "0") => Ok(false),
        Some(other) => Err(format!("for the --{name} option: '{other}' is invalid value for boolean argument")),
    }
}

fn unknown_option(arg: &str, name: &str) -> String {
    let known = VALUE_OPTIONS.iter().map(|(known, _)| *known).chain(FLAG_OPTIONS.iter().map(|(known, _)| *known));
    let nearest = known.min_by_key(|known| strsim::osa_distance(known, name));
    let nearest = nearest.filter(|known| strsim::osa_distance(known, name) <= 3);
    let hint = nearest.map(|known| format!("; did you mean '--{known}'?")).unwrap_or_default();
    format!("unknown command line argument '{arg}'{hint}")
}
