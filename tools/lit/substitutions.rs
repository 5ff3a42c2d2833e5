//! Substitutions: the texts that RUN lines get in the place of `%s`, `%t`, `%{name}` and others.

use crate::nearest::did_you_mean;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Substitutions in the text of another one are followed this deep.
const DEPTH: usize = 10;

/// The folders and the file that a test's substitutions name.
#[derive(Clone, Debug)]
pub struct TestPlace {
    /// The test's file, absolute.
    pub source: PathBuf,
    /// The folder for its temporary files.
    pub scratch: PathBuf,
}

/// The substitutions of a folder's tests beside the ones that all tests have.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Substitutions {
    /// Texts by their whole names, as `%{name}` or `%name`.
    texts: BTreeMap<String, String>,
}

impl Substitutions {
    /// Defines a substitution: `name` and `%{name}` are the same, `%name` is another spelling of its own.
    pub fn define(&mut self, name: &str, text: &str) {
        let whole = if name.starts_with('%') { name.to_owned() } else { format!("%{{{name}}}") };
        self.texts.insert(whole, text.to_owned());
    }

    /// Replaces the substitutions of a command.
    ///
    /// # Errors
    /// An unknown `%{name}`, a variable of the environment that is not set, or a substitution that needs itself.
    pub fn expand(&self, command: &str, place: &TestPlace) -> Result<String, String> {
        self.expand_within(command, place, DEPTH)
    }

    fn expand_within(&self, command: &str, place: &TestPlace, depth: usize) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = command;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let own = self.texts.iter().filter(|(name, _)| rest.starts_with(name.as_str()));
            if let Some((name, text)) = own.max_by_key(|(name, _)| name.len()) {
                let deeper = depth.checked_sub(1).ok_or_else(|| format!("the substitution `{name}` needs itself"))?;
                out.push_str(&self.expand_within(text, place, deeper)?);
                rest = &rest[name.len()..];
                continue;
            }
            let (text, len) = self.built_in(rest, place)?;
            out.push_str(&text);
            rest = &rest[len..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The text for the substitution at the start of `rest`, and how many bytes it replaces.
    fn built_in(&self, rest: &str, place: &TestPlace) -> Result<(String, usize), String> {
        let name = place.source.file_name().unwrap_or_default().to_string_lossy();
        let temporary = format!("{name}.tmp");
        if rest.starts_with("%{") {
            return self.in_braces(rest, place);
        }
        if rest.starts_with("%basename_t") {
            return Ok((temporary, "%basename_t".len()));
        }
        let path = |path: &Path| (path.to_string_lossy().into_owned(), 2);
        Ok(match rest.as_bytes().get(1) {
            Some(b's') => path(&place.source),
            Some(b'S' | b'p') => path(place.source.parent().unwrap_or(&place.source)),
            Some(b't') => path(&place.scratch.join(temporary)),
            Some(b'T') => path(&place.scratch),
            Some(b'%') => ("%".to_owned(), 2),
            Some(_) | None => ("%".to_owned(), 1),
        })
    }

    fn in_braces(&self, rest: &str, place: &TestPlace) -> Result<(String, usize), String> {
        let end = rest.find('}').ok_or("`%{` without `}`")?;
        let name = &rest[2..end];
        let text = match name {
            "s:basename" => place.source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            "pathsep" => ":".to_owned(),
            _ => match name.strip_prefix("env:") {
                Some(variable) => std::env::var(variable)
                    .map_err(|_| format!("{variable} is not set: `REQUIRES:` a feature that says whether it is"))?,
                None => {
                    let known = self.texts.keys().map(|name| name.trim_matches(['%', '{', '}']));
                    let hint = did_you_mean(name, known.chain(["s:basename", "pathsep"]));
                    return Err(format!("unknown substitution `%{{{name}}}`{hint}"));
                }
            },
        };
        Ok((text, end + 1))
    }
}
