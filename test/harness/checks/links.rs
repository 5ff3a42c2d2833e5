//! Links of Markdown pages lead to files and headings that exist.

use hostir_test::tree;
use std::collections::BTreeSet;
use std::path::Path;

/// Relative links whose file, or whose heading in it, does not exist.
pub(crate) fn broken_links() -> Vec<String> {
    let mut broken = Vec::new();
    for path in tree::files(&tree::root(), ".md") {
        let text = tree::read(&path);
        for target in link_targets(&text) {
            if !link_resolves(&path, &text, &target) {
                broken.push(format!("{}: {target}", tree::relative(&path)));
            }
        }
    }
    broken
}

/// Folders whose `README.md` lists each of their pages.
const LISTED: [&str; 2] = ["docs/decisions", "docs/measurements"];

/// Pages of these folders that their `README.md` does not list.
pub(crate) fn unlisted_pages() -> Vec<String> {
    let mut unlisted = Vec::new();
    for folder in LISTED.map(|folder| tree::root().join(folder)) {
        let listed: BTreeSet<String> = link_targets(&tree::read(&folder.join("README.md"))).into_iter().collect();
        let pages = tree::files(&folder, ".md");
        let names = pages.iter().filter_map(|page| page.file_name()?.to_str().map(|name| (page, name)));
        let missing = names.filter(|(_, name)| *name != "README.md" && !listed.contains(*name));
        unlisted.extend(missing.map(|(page, _)| tree::relative(page)));
    }
    unlisted
}

/// Folders of `test/` that no row of `test/README.md` names.
pub(crate) fn unlisted_test_folders() -> Vec<String> {
    let folder = tree::root().join("test");
    let text = tree::read(&folder.join("README.md"));
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut unlisted: Vec<String> = names.filter(|name| !text.contains(&format!("| `{name}/` |"))).collect();
    unlisted.retain(|name| !name.starts_with(['_', '.']));
    unlisted.sort();
    unlisted
}

fn link_resolves(page: &Path, text: &str, target: &str) -> bool {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().unwrap_or(Path::new("."));
    let linked = if file.is_empty() { page.to_path_buf() } else { folder.join(file) };
    if !linked.exists() {
        return false;
    }
    if heading.is_empty() || linked.extension().is_none_or(|extension| extension != "md") {
        return true;
    }
    let anchors = if linked == page { heading_anchors(text) } else { heading_anchors(&tree::read(&linked)) };
    anchors.contains(heading)
}

/// Targets of `[text](target)` outside of code, without those that have a scheme.
fn link_targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines_outside_fences(text) {
        for after in line.split("](").skip(1) {
            let target = after.split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.contains(' ') {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// Anchors that GitHub gives the headings of a page: lower case, blanks as `-`, other punctuation dropped, and
/// `-1`, `-2` after repetitions.
fn heading_anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in lines_outside_fences(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = heading_anchor(title.trim());
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(repeated).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn heading_anchor(title: &str) -> String {
    let letters = title.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => letter.to_lowercase().next(),
        _ => None,
    });
    letters.collect()
}

fn lines_outside_fences(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

#[test]
fn anchors_follow_github() {
    let anchors = heading_anchors("# A `b` & C\n## Run\n```\n# no\n```\n## Run\n");
    let expected = ["a-b--c", "run", "run-1"].map(str::to_owned);
    assert_eq!(anchors, BTreeSet::from(expected));
}
