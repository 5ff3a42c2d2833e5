//! Tests of the files of machines: what is read, and the places of mistakes.

use super::{BUILTIN_NAMES, DEFAULT_NAME, Machine};
use crate::diag::codes;

#[test]
fn builtin_files_are_machines_of_their_names() {
    for name in BUILTIN_NAMES {
        let machine = Machine::find_builtin(name).unwrap();
        assert_eq!(machine.name, name);
        let devices = name.rsplit_once('x').unwrap().1.parse::<u32>().unwrap();
        assert_eq!(machine.devices.get(), devices);
        assert_eq!(Machine::from_toml(&machine.to_toml()).unwrap(), machine);
    }
    assert!(BUILTIN_NAMES.contains(&DEFAULT_NAME));
    assert_eq!(Machine::find_builtin("h100x3"), None);
}

#[test]
fn the_hash_is_that_of_the_values() {
    let file = Machine::builtin_file(DEFAULT_NAME).unwrap();
    let machine = Machine::default_machine();
    let commented = Machine::from_toml(&format!("# another comment\n\n{file}")).unwrap();
    assert_eq!(commented.short_hash(), machine.short_hash());
    let renamed = Machine { name: "other".to_owned(), ..machine.clone() };
    assert_ne!(renamed.short_hash(), machine.short_hash());
    assert_eq!(machine.short_hash().len(), 12);
}

/// The code, the message and the marked text of what is wrong with a file.
fn refusal(text: &str) -> (String, String) {
    let diag = Machine::from_toml(text).unwrap_err();
    assert_eq!(diag.code, codes::MACHINE);
    let span = diag.primary.map(|label| label.span).unwrap();
    (diag.message.to_string(), text[span.start as usize..span.end as usize].to_owned())
}

#[test]
fn what_is_wrong_is_marked() {
    let file = Machine::builtin_file(DEFAULT_NAME).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(file.contains(from), "{from}");
        file.replacen(from, to, 1)
    };
    let (message, place) = refusal(&changed("launch_us", "lunch_us"));
    assert!(message.contains("unknown field `lunch_us`"), "{message}");
    assert_eq!(place, "lunch_us");
    let (message, place) = refusal(&changed("devices = 4", "devices = 0"));
    assert!(message.contains("at least 1"), "{message}");
    assert_eq!(place, "0");
    let (message, place) = refusal(&changed("devices = 4", "devices = -4"));
    assert!(message.contains("-4"), "{message}");
    assert_eq!(place, "-4");
    let (message, place) = refusal(&changed("devices = 4", "devices = \"4\""));
    assert!(message.contains("has the text \"4\""), "{message}");
    assert_eq!(place, "\"4\"");
    for wrong in ["-1.0", "0.0", "nan", "inf", "1e10"] {
        let text = format!("{file}\n[hosts]\ndevices = 8\nnetwork_gb_s = {wrong}\nnetwork_us = 10.0\n");
        let (message, place) = refusal(&text);
        assert!(message.contains("is not above 0"), "{message}");
        assert_eq!(place, wrong);
    }
    let (message, place) = refusal("name = \"a\"\ndevices = 2\n");
    assert!(message.contains("missing field `gemm`"), "{message}");
    assert_eq!(place, "name = \"a\"");
    let (message, _) = refusal("name = \n");
    assert!(message.starts_with("the file is not a machine"), "{message}");
    let (message, _) = refusal("");
    assert!(message.contains("missing field"), "{message}");
}

#[test]
fn ranks_are_numbered_host_by_host() {
    let one = Machine::default_machine();
    assert!(one.hosts.is_none());
    let file = Machine::builtin_file(DEFAULT_NAME).unwrap();
    let text = format!("{file}\n[hosts]\ndevices = 8\nnetwork_gb_s = 50.0\nnetwork_us = 10.0\n");
    let several = Machine::from_toml(&text).unwrap();
    assert!(several.hosts.is_some_and(|hosts| hosts.has_one_host(8, 15)));
    assert!(!several.hosts.is_some_and(|hosts| hosts.has_one_host(7, 8)));
}
