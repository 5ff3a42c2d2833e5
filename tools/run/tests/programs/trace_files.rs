//! JSON: the file of `--trace`, whose spans do not nest and whose flow events have two ends, and plans.

use hostir_tool_support::io::ToolIo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

const PIPELINE: &str = include_str!("../../../../docs/examples/printed/ag_matmul_p2p.hir");

/// Runs `hir-run - ARGS` on a text in a folder: exit status, standard output and error.
fn run(folder: &Path, text: &str, args: &[&str]) -> (i32, String, String) {
    let words: Vec<OsString> = ["hir-run", "-"].iter().chain(args).map(Into::into).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = ToolIo {
        stdin: &mut text.as_bytes(),
        stdout: &mut out,
        stderr: &mut err,
        cwd: folder.to_path_buf(),
        color: false,
        terminal: false,
        columns: Some(80),
        error_columns: None,
        exe: None,
        gpus: hostir_tool_support::SharedState::default(),
        env: |name| (name == "TERM").then(|| "xterm".into()),
    };
    let status = hostir_run::run::main_with(&words, &mut io);
    (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// The events of a trace of the pipeline.
fn events(args: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["--set", "i1=64", "--set", "i2=128", "--set", "i3=32", "-q", "--trace", "t.json"];
    let all: Vec<&str> = sizes.iter().chain(args).copied().collect();
    let (status, _, err) = run(folder.path(), PIPELINE, &all);
    assert_eq!(status, 0, "{err}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let text = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(whole["otherData"]["program"], "<stdin>");
    match whole["traceEvents"].take() {
        Value::Array(events) => events,
        other => vec![other],
    }
}

fn number(event: &Value, key: &str) -> f64 {
    event[key].as_f64().unwrap()
}

/// Nanoseconds, which JSON holds as microseconds.
fn ns(event: &Value, key: &str) -> i64 {
    (number(event, key) * 1e3).round() as i64
}

fn phase<'e>(events: &'e [Value], phase: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// The span that began last on a flow event's track before it, in the order of the file; it has to contain the event's
/// time.
fn around(events: &[Value], at: usize) -> &Value {
    let flow = &events[at];
    let same = |event: &&Value| event["ph"] == "X" && event["pid"] == flow["pid"] && event["tid"] == flow["tid"];
    let slice = events[..at].iter().rev().find(same).unwrap();
    let (start, length) = (ns(slice, "ts"), ns(slice, "dur"));
    assert!((start..=start + length).contains(&ns(flow, "ts")), "{slice} {flow}");
    slice
}

fn check(events: &[Value]) {
    let timed: Vec<i64> = events.iter().filter(|event| event["ph"] != "M").map(|event| ns(event, "ts")).collect();
    assert!(timed.is_sorted());
    let mut ends: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for slice in phase(events, "X") {
        let track = (slice["pid"].as_i64().unwrap(), slice["tid"].as_i64().unwrap());
        let end = ends.entry(track).or_insert(0);
        assert!(*end <= ns(slice, "ts"), "{slice}");
        *end = ns(slice, "ts") + ns(slice, "dur");
        assert!(slice["args"]["line"].as_str().unwrap().starts_with("<stdin>:"));
    }
    let mut open: BTreeMap<i64, &Value> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let id = event["id"].as_i64();
        if event["ph"] == "s" {
            let from = around(events, at);
            assert!(["mark", "communication"].contains(&from["cat"].as_str().unwrap()), "{from}");
            assert!(open.insert(id.unwrap(), event).is_none());
        } else if event["ph"] == "f" {
            assert_eq!(around(events, at)["cat"], "wait");
            assert!(open.remove(&id.unwrap()).is_some(), "an arrow ends before it starts");
        }
    }
    assert!(open.is_empty(), "arrows without an end: {open:?}");
}

/// Each of 4 ranks: a copy, 3 groups, 4 GEMMs, 11 waits with a flow event each.
#[test]
fn traces_of_a_pipeline() {
    for args in [&["--backend=cpu"] as &[&str], &["--check-only"]] {
        let events = events(args);
        check(&events);
        for rank in 0..4 {
            let of = |kind: &str| {
                let slices = phase(&events, "X").into_iter();
                slices.filter(|event| event["pid"] == rank && event["cat"] == kind).count()
            };
            assert_eq!((of("copy"), of("communication"), of("compute")), (1, 3, 4));
            assert_eq!(of("wait"), 11);
        }
        assert_eq!(phase(&events, "s").len(), 44);
        assert_eq!(phase(&events, "f").len(), 44);
        let product = |event: &&Value| event["name"] == "T6 = matmul(T4, T1)  StreamIdx=3";
        let products: Vec<&Value> = events.iter().filter(product).collect();
        assert_eq!(products.len(), 4);
        let args = &products[0]["args"];
        assert_eq!((&args["iteration"], &args["line"]), (&"StreamIdx=3".into(), &"<stdin>:37".into()));
        // 2 * 64 * 128 * 32 operations; 64 x 128, 128 x 32 and 64 x 32 floats.
        assert_eq!(args["flop"], 524_288);
        assert_eq!(args["bytes"], 4 * (64 * 128 + 128 * 32 + 64 * 32));
        let group = phase(&events, "X").into_iter().find(|event| event["cat"] == "communication");
        assert_eq!(group.unwrap()["args"]["with"].as_array().unwrap().len(), 2);
    }
}

/// A failed run leaves no trace file, and neither does one that cannot be written.
#[test]
fn failures_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["--backend=cpu", "--set", "i1=4", "--set", "i2=4", "--set", "i3=4"];
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--trace", "t.json", "--expect", "T2=x.npy"], 3, "H0601"),
        (&["--trace", "no/t.json"], 3, "H0602"),
        (&["--trace", "."], 3, "H0602"),
        (&["--trace", "t.json", "--bench"], 2, "H0614"),
        (&["--timeline", "--graph"], 2, "H0614"),
        (&["--timeline=t.svg", "--print-plan"], 2, "H0614"),
        (&["--timeline=t.png"], 2, "H0610"),
    ];
    for (args, expected, code) in cases {
        let all: Vec<&str> = sizes.iter().chain(args).copied().collect();
        let (status, out, err) = run(folder.path(), PIPELINE, &all);
        assert_eq!((status, out.as_str()), (expected, ""), "{args:?}: {err}");
        assert!(err.contains(code), "{args:?}: {err}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?}");
    }
}

/// The names of the elements of an XML text in order, with their classes; the reader checks that they are nested well.
fn xml_elements(text: &str) -> Vec<(String, String)> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut elements = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Eof => return elements,
            quick_xml::events::Event::Start(element) | quick_xml::events::Event::Empty(element) => {
                let class = element.attributes().map(Result::unwrap).find(|one| one.key.as_ref() == b"class");
                let class = class.map(|one| String::from_utf8(one.value.into_owned()).unwrap());
                let name = String::from_utf8(element.name().as_ref().to_vec()).unwrap();
                elements.push((name, class.unwrap_or_default()));
            }
            _ => {}
        }
    }
}

/// Four equal ranks are drawn once: a copy, 3 groups and 4 GEMMs, whatever the statements have for characters.
#[test]
fn pictures_and_pages_of_a_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["--set", "i1=64", "--set", "i2=128", "--set", "i3=32", "-q", "--check-only"];
    let forms = ["--timeline=t.svg", "--timeline=t.html"];
    let (status, _, err) = run(folder.path(), PIPELINE, &sizes.iter().chain(&forms).copied().collect::<Vec<_>>());
    assert_eq!(status, 0, "{err}");
    let picture = std::fs::read_to_string(folder.path().join("t.svg")).unwrap();
    let elements = xml_elements(&picture);
    assert_eq!(elements[0], ("svg".to_owned(), String::new()));
    let names: Vec<&str> = elements[1..4].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["title", "desc", "style"]);
    // One box of each is in the legend.
    let counts = ["compute", "copy"].map(|wanted| elements.iter().filter(|(_, class)| class == wanted).count() - 1);
    assert_eq!(counts, [4, 1]);
    let page = std::fs::read_to_string(folder.path().join("t.html")).unwrap();
    let data = page.split_once("id=\"timeline-data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["groups"].as_array().unwrap().len(), 1);
    assert_eq!(data["groups"][0]["ranks"], serde_json::json!([0, 1, 2, 3]));
    // Each rank sends one message to each other one.
    let messages = data["messages"].as_array().unwrap();
    let ends = messages.iter().map(|one| (one["from"].as_u64().unwrap(), one["to"].as_u64().unwrap()));
    let ends: std::collections::BTreeSet<(u64, u64)> = ends.filter(|(from, to)| from != to).collect();
    assert_eq!((messages.len(), ends.len()), (12, 12));
    let lines: Vec<&str> = PIPELINE.lines().collect();
    assert_eq!(data["source"].as_array().unwrap().len(), lines.len());
    for op in data["ops"].as_array().unwrap() {
        let line = lines[op["lines"][0].as_u64().unwrap() as usize - 1].trim();
        let start = line.split([' ', '(']).next().unwrap();
        assert!(op["text"].as_str().unwrap().contains(start), "{op} is at {line}");
    }
}

/// On a terminal the chart has its width and colours; the test also sets NO_COLOR.
#[test]
fn a_chart_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["--set", "i1=64", "--set", "i2=128", "--set", "i3=32"];
    let all: Vec<&str> = sizes.iter().chain(&["--check-only", "-q", "--timeline"]).copied().collect();
    let (status, out, err) = run(folder.path(), PIPELINE, &all);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("\x1b[34m#"), "{out}");
    let lanes: Vec<&str> = out.lines().filter(|line| line.starts_with("ranks 0-3 ") && line.ends_with('|')).collect();
    assert!(lanes.len() >= 4, "{out}");
    for line in lanes {
        let mut plain = line.replace("\x1b[0m", "");
        for code in [34, 36, 33, 31, 90] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain.chars().count(), 80, "{plain}");
    }
}

/// Plans are one JSON value; what an instruction names is in the tables of its rank.
#[test]
fn plans_are_json() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--set", "i1=64", "--set", "i2=128", "--set", "i3=32", "-q", "--print-plan=json"];
    let (status, out, err) = run(folder.path(), PIPELINE, &args);
    assert_eq!(status, 0, "{err}");
    let whole: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(whole["version"], 1);
    let ranks = whole["ranks"].as_array().unwrap();
    let mut roles = std::collections::BTreeSet::new();
    for (rank, plan) in ranks.iter().enumerate() {
        assert_eq!(plan["rank"], rank);
        let count = |key: &str| plan[key].as_array().unwrap().len() as u64;
        for instruction in plan["instructions"].as_array().unwrap() {
            roles.insert(instruction["role"].as_str().unwrap().to_owned());
            assert!(instruction["stream"].as_u64().unwrap() < count("streams"), "{instruction}");
            let views = ["reads", "writes"].into_iter().filter_map(|key| instruction[key].as_array()).flatten();
            for view in views {
                assert!(view["buffer"].as_u64().unwrap() < count("buffers"), "{instruction}");
                assert_eq!(view["extents"].as_array().map(Vec::len), view["strides"].as_array().map(Vec::len));
            }
            let peer = instruction.get("peer").map(|peer| peer.as_u64().unwrap());
            assert!(peer.is_none_or(|peer| (peer as usize) < ranks.len() && peer as usize != rank), "{instruction}");
        }
    }
    assert_eq!(roles.into_iter().collect::<Vec<_>>(), ["communication", "compute", "memory", "order"]);
}
