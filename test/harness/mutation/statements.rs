//! Printed programs as lists of statements.

/// The sort of a statement, by which mutations are named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum StatementSort {
    /// The first or last line of a program, of a block, or a branch.
    Structure,
    /// `Synchronize`.
    Synchronize,
    /// `Wait`.
    Wait,
    /// `SetCurrentStream` and `GetCurrentStream`.
    StreamSwitch,
    /// `HirAliasSelect` and other views.
    Slice,
    /// `ALLOCATE`.
    Allocation,
    /// `Deallocate`.
    Free,
    /// Collectives, sends and receives, and the ends of groups.
    Communication,
    /// Anything else.
    Compute,
}

impl StatementSort {
    /// The word for it in the names of operators.
    pub(crate) fn sort_name(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Synchronize => "synchronization",
            Self::Wait => "wait",
            Self::StreamSwitch => "stream switch",
            Self::Slice => "slice",
            Self::Allocation => "allocation",
            Self::Free => "free",
            Self::Communication => "communication",
            Self::Compute => "computation",
        }
    }
}

/// A statement: its lines without their common indentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PrintedStatement {
    /// The indentation of its first line.
    pub(crate) indent: usize,
    /// The lines; those after the first keep their indentation relative to the first.
    pub(crate) lines: Vec<String>,
    /// The sort.
    pub(crate) sort: StatementSort,
}

/// Splits a printed program into its statements.
pub(crate) fn split_statements(text: &str) -> Vec<PrintedStatement> {
    let mut statements: Vec<PrintedStatement> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with("//")) {
        let indent = line.len() - line.trim_start().len();
        match statements.last_mut() {
            Some(last) if is_continued(last, line) => {
                last.lines.push(line.get(last.indent..).unwrap_or(line.trim_start()).to_owned());
            }
            _ => {
                let lines = vec![line.trim_start().to_owned()];
                statements.push(PrintedStatement { indent, lines, sort: StatementSort::Structure });
            }
        }
    }
    for statement in &mut statements {
        statement.sort = sort_of(&statement.lines.join(" "));
    }
    statements
}

/// Whether a line belongs to the statement before it.
fn is_continued(last: &PrintedStatement, line: &str) -> bool {
    let text = last.lines.concat();
    let is_open = text.matches('(').count() > text.matches(')').count();
    let is_free = text.starts_with("Deallocate {") && !text.ends_with('}');
    is_open || is_free || line.trim_start().starts_with(['=', '+', '-', '*', '/', '<', '>', '&', '|', '^', '?', ':'])
}

fn sort_of(text: &str) -> StatementSort {
    let first = text.split([' ', ':']).next().unwrap_or_default();
    match first {
        "Synchronize" => StatementSort::Synchronize,
        "Wait" => StatementSort::Wait,
        "SetCurrentStream" | "GetCurrentStream" => StatementSort::StreamSwitch,
        "Deallocate" => StatementSort::Free,
        "Communication" | "P2PCommunication" | "StartCoalescing" | "EndCoalescing" => StatementSort::Communication,
        "FOR" | "IF" | "ELSE" | "}" | "%HostIrContainer" => StatementSort::Structure,
        _ if text.ends_with(':') || text.ends_with('{') || first.starts_with('%') => StatementSort::Structure,
        _ if text.contains("ALLOCATE(") => StatementSort::Allocation,
        _ if text.contains("HirAliasSelect(") => StatementSort::Slice,
        _ => StatementSort::Compute,
    }
}

/// Puts a program together again.
pub(crate) fn join_statements(statements: &[PrintedStatement]) -> String {
    let mut text = String::new();
    for statement in statements {
        for line in &statement.lines {
            text.extend(std::iter::repeat_n(' ', statement.indent));
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The statement after a statement and all that is inside of it.
pub(crate) fn block_end(statements: &[PrintedStatement], at: usize) -> usize {
    let indent = statements[at].indent;
    let inside = statements[at + 1..].iter().take_while(|other| other.indent > indent);
    at + 1 + inside.count()
}
