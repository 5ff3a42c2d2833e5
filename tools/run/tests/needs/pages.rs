//! Pages of timelines in a browser without a window: what a reader sees, and what the page does when it is clicked. Where
//! no Chromium is installed, they are reported as ignored.
//!
//! A test appends a script of its own to the page, which clicks and writes what it found into the page; the browser
//! prints the page when all scripts have run.

use crate::needs;
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Stdio};

/// Two ranks: rank 1 copies first, so that rank 0 waits for it, then they gather and multiply.
const PROGRAM: &str = "hir 2
mesh d = 0..2

// <script>document.title = 'of the program'</script> @DATA@
late(A: f32[1000000], x: f32[x:2, 45], B: f32[100, 100]) -> (y: f32[2, 45], C: f32[4, 100, 100]) on d:
  D: f32[1000000] = alloc
  y = alloc
  C = alloc
  if rank == 1: D = Set(A)
  wait allgather(x -> y)
  for s in 4 on streams:
    C[s] = matmul(B, B)
";

/// Reads the page: helpers, then a test's own lines, which call `say`.
const HELPERS: &str = "
const said = [];
const say = (...words) => said.push(words.join(' '));
const all = (selector) => [...document.querySelectorAll(selector)];
const click = (target) => target.dispatchEvent(new MouseEvent('click', { bubbles: true }));
const span = (text) => all('.span').find((span) => span.getAttribute('aria-label').includes(text));
const selected = () => all('#lines .selected code').map((line) => line.textContent.trim());
";

/// The tests.
pub(crate) fn tests() -> Vec<Trial> {
    needs::tests![
        missing();
        spans_and_lines_are_joined,
        the_chart_zooms_and_folds,
        pages_load_nothing,
    ]
}

fn missing() -> Option<&'static str> {
    find_browser().is_none().then_some("no Chromium is installed (Debian's package `chromium`)")
}

/// The browser that can be started.
fn find_browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let version = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// A machine of round figures.
const ROUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test/machines/round.toml");

/// The page of the program's timeline.
fn draw_page(folder: &Path) -> String {
    std::fs::write(folder.join("late.hir"), PROGRAM).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hir-run"));
    let machine = format!("--machine={ROUND}");
    command.args(["late.hir", "-q", "--check-only", "--timeline=late.html", &machine]).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.join("late.html")).unwrap()
}

/// What a script says that runs in the page after its own.
fn said_in_page(script: &str, fragment: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let page = draw_page(folder.path());
    let end = "document.body.innerHTML = ''; document.body.append('SAID', JSON.stringify(said), 'END');";
    let script = format!("<script>{{{HELPERS}{script}{end}}}</script>\n</body>");
    let file = folder.path().join("test.html");
    std::fs::write(&file, page.replace("</body>", &script)).unwrap();
    let mut command = Command::new(find_browser().unwrap());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1400,900"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg("--dump-dom").arg(format!("file://{}{fragment}", file.display()));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.split_once("SAID").and_then(|(_, rest)| rest.split_once("END"));
    let said = said.unwrap_or_else(|| panic!("the script did not run:\n{text}")).0;
    serde_json::from_str(&said.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")).unwrap()
}

fn spans_and_lines_are_joined() {
    let said = said_in_page(
        "
        say(document.title);
        say(...selected());
        click(span('matmul'));
        say(...selected());
        say(location.hash.startsWith('#span='));
        say(document.getElementById('details').textContent.split('\\n')[1].split(',')[0]);
        click(document.getElementById('L10'));
        say(all('.of-line').length, ...new Set(all('.of-line').map((span) => span.getAttribute('aria-label').split(',')[0])));
        picture.dispatchEvent(new PointerEvent('pointermove', { bubbles: true }));
        say(document.getElementById('tip').hidden);
        span('NCCL 0 1: ').dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: 300, clientY: 200 }));
        say(document.getElementById('tip').hidden, document.getElementById('tip').textContent.includes('5.000 us waiting for a peer'));
        say(all('#program code')[3].textContent);
        ",
        "#L10",
    );
    let expected = [
        "late.hir: timeline of 2 ranks,",
        "wait allgather(x -> y)",
        "C[s] = matmul(B, B)",
        "true",
        "late.hir:12",
        "",
        "true",
        "false true",
        "// <script>document.title = 'of the program'</script> @DATA@",
    ];
    assert!(said[0].starts_with(expected[0]), "{said:?}");
    assert_eq!(said[1..5], expected[1..5], "{said:?}");
    // The communication and the wait for it, on both ranks.
    assert!(said[5].starts_with("4 rank 0  caller: wait allgather(x -> y)"), "{said:?}");
    assert_eq!(said[6..], expected[6..], "{said:?}");
}

fn the_chart_zooms_and_folds() {
    let said = said_in_page(
        "
        const width = () => Number(span('matmul').querySelector('.edge').getAttribute('width'));
        const first = width();
        click(document.getElementById('zoom-in'));
        click(document.getElementById('zoom-all'));
        say(Math.round(width() / first * 10));
        span('matmul').dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));
        say(width() > 3 * first);
        window.dispatchEvent(new KeyboardEvent('keydown', { key: '0' }));
        say(width() === first);
        say(all('.message-end').length);
        say(getComputedStyle(document.body).backgroundColor !== getComputedStyle(document.body).color);
        const reached = all('.span[tabindex=\"0\"]');
        say(reached.length, all('.span:not([role=button])').length, all('.span:not([aria-label])').length);
        ",
        "",
    );
    assert_eq!(said, ["10", "true", "true", "0", "true", "1 0 0"], "{said:?}");
}

/// Nothing outside of the page is named, and its policy would stop it.
fn pages_load_nothing() {
    let said = said_in_page(
        "
        const outside = all('[src], link[href], use, image, iframe, object').map((node) => node.outerHTML);
        say(...outside);
        say(performance.getEntriesByType('resource').filter((entry) => !entry.name.startsWith('data:')).length);
        say(document.querySelector('meta[http-equiv]').content.startsWith(\"default-src 'none'\"));
        ",
        "",
    );
    assert_eq!(said, ["<link rel=\"icon\" href=\"data:,\">", "0", "true"], "{said:?}");
}
