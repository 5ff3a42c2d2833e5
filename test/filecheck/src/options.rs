//! The options, from a command line or set one by one.

/// The options of FileCheck's command line, apart from the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Prefixes of directives (`--check-prefix`, `--check-prefixes`).
    pub prefixes: Vec<String>,
    /// Keep horizontal whitespace as it is (`--strict-whitespace`).
    pub strict_whitespace: bool,
    /// Positive patterns cover whole lines (`--match-full-lines`).
    pub match_full_lines: bool,
    /// The input may be empty (`--allow-empty`).
    pub allow_empty: bool,
    /// The name of the input in messages.
    pub input_name: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            prefixes: vec!["CHECK".to_owned()],
            strict_whitespace: false,
            match_full_lines: false,
            allow_empty: false,
            input_name: "<input>".to_owned(),
        }
    }
}

/// A command line that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// The options.
    pub options: Options,
    /// The check file, where it is named.
    pub check_file: Option<String>,
    /// The file of `--input-file`.
    pub input_file: Option<String>,
}

impl Options {
    /// Reads a command line without the command's name: a check file and the options `--check-prefix`,
    /// `--check-prefixes`, `--input-file`, `--strict-whitespace`, `--match-full-lines` and `--allow-empty`.
    ///
    /// # Errors
    /// A line that says which argument is not supported, or which prefix is not valid.
    pub fn from_args(args: &[String]) -> Result<CommandLine, String> {
        let mut line = CommandLine::default();
        let mut prefixes = Vec::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "-" || !arg.starts_with('-') {
                if let Some(first) = line.check_file.replace(arg.clone()) {
                    return Err(format!("two check files: '{first}' and '{arg}'"));
                }
                continue;
            }
            let name = arg.trim_start_matches('-');
            match name {
                "strict-whitespace" => line.options.strict_whitespace = true,
                "match-full-lines" => line.options.match_full_lines = true,
                "allow-empty" => line.options.allow_empty = true,
                _ => {
                    let (name, value) = match name.split_once('=') {
                        Some((name, value)) => (name, Some(value.to_owned())),
                        None => (name, None),
                    };
                    if !["check-prefix", "check-prefixes", "input-file"].contains(&name) {
                        return Err(format!("the argument '{arg}' is not supported"));
                    }
                    let value = value.or_else(|| rest.next().cloned());
                    let value = value.ok_or_else(|| format!("the option '{name}' requires a value"))?;
                    match name {
                        "check-prefix" => prefixes.push(value),
                        "check-prefixes" => prefixes.extend(value.split(',').map(str::to_owned)),
                        _ => line.input_file = Some(value),
                    }
                }
            }
        }
        if !prefixes.is_empty() {
            line.options.prefixes = prefixes;
        }
        line.options.check_prefixes()?;
        if let Some(input) = &line.input_file {
            line.options.input_name.clone_from(input);
        }
        Ok(line)
    }

    /// Refuses prefixes that are not well formed or not different.
    ///
    /// # Errors
    /// A description of the first one.
    pub(crate) fn check_prefixes(&self) -> Result<(), String> {
        for (index, prefix) in self.prefixes.iter().enumerate() {
            if prefix.is_empty() {
                return Err("supplied check prefix must not be the empty string".to_owned());
            }
            if !prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
                return Err(format!(
                    "supplied check prefix must contain only alphanumeric characters, hyphens \
                     and underscores: '{prefix}'"
                ));
            }
            let is_comment = COMMENT_PREFIXES.contains(&prefix.as_str());
            if is_comment || self.prefixes[..index].contains(prefix) {
                return Err(format!(
                    "supplied check prefix must be unique among check and comment prefixes: \
                     '{prefix}'"
                ));
            }
        }
        Ok(())
    }
}

/// Prefixes of comments, in which no directive is seen.
pub(crate) const COMMENT_PREFIXES: [&str; 2] = ["COM", "RUN"];
