//! Crates, their module trees and their parsed files.

use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item};

/// A parsed source file.
pub struct File {
    /// Path below the repository's root, with forward slashes.
    pub path: String,
    /// The text.
    pub text: String,
}

/// A module with its items; those of `mod name;` and `mod name { }` inside are modules of their own.
pub struct Module {
    /// The crate's number.
    pub krate: usize,
    /// Names from the crate's root to it; empty for the root.
    pub path: Vec<String>,
    /// The module around it.
    pub parent: Option<usize>,
    /// Its file's number.
    pub file: usize,
    /// Its items, unit tests left out.
    pub items: Vec<Item>,
}

/// A library or program.
pub struct Crate {
    /// Its name in paths: `hostir_grammar`.
    pub name: String,
    /// Its root module's number.
    pub root: usize,
    /// Whether it is shipped: it is not below `test/`, and no example or test program.
    pub shipped: bool,
}

/// All shipped crates of a repository.
#[derive(Default)]
pub struct Sources {
    /// Libraries and programs.
    pub crates: Vec<Crate>,
    /// Modules of all crates.
    pub modules: Vec<Module>,
    /// Files of all modules.
    pub files: Vec<File>,
}

impl Sources {
    /// Reads all shipped crates below a repository's root.
    ///
    /// # Errors
    /// Fails if a file cannot be read or parsed.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut sources = Self::default();
        for manifest in files_below(root, "Cargo.toml") {
            let folder = manifest.parent().unwrap_or(root);
            // The test runner, whose programs call each other.
            if folder == root.join("test") {
                continue;
            }
            let shipped = !relative(root, folder).starts_with("test/");
            for (name, file) in targets(folder, &manifest) {
                let krate = sources.crates.len();
                let number = sources.modules.len();
                sources.crates.push(Crate { name, root: number, shipped });
                sources.load(root, &file, ModulePlace { krate, path: Vec::new(), parent: None })?;
            }
        }
        Ok(sources)
    }

    /// Parses a module's file and the files of the modules in it.
    fn load(&mut self, root: &Path, path: &Path, place: ModulePlace) -> Result<usize, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = self.files.len();
        self.files.push(File { path: relative(root, path), text });
        let folder = module_folder(path, place.parent.is_none());
        self.module(root, file, &folder, place, parsed.items)
    }

    fn module(
        &mut self,
        root: &Path,
        file: usize,
        folder: &Path,
        place: ModulePlace,
        items: Vec<Item>,
    ) -> Result<usize, String> {
        let number = self.modules.len();
        let ModulePlace { krate, path, parent } = place;
        let (children, items): (Vec<Item>, Vec<Item>) =
            items.into_iter().filter(|item| !is_test(attributes(item))).flat_map(declared_items).partition(is_module);
        self.modules.push(Module { krate, path: path.clone(), parent, file, items });
        for child in children {
            let Item::Mod(child) = child else { continue };
            let name = child.ident.to_string();
            let mut path = path.clone();
            path.push(name.clone());
            let place = ModulePlace { krate, path, parent: Some(number) };
            match child.content {
                Some((_, items)) => {
                    self.module(root, file, &folder.join(&name), place, items)?;
                }
                None => {
                    let found = module_file(folder, &name)
                        .ok_or_else(|| format!("no file of `mod {name}` in {}", folder.display()))?;
                    self.load(root, &found, place)?;
                }
            }
        }
        Ok(number)
    }

    /// Whether a module belongs to a shipped crate.
    pub fn is_shipped(&self, module: &Module) -> bool {
        self.crates[module.krate].shipped
    }

    /// The modules of shipped crates.
    pub fn shipped(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter().filter(|module| self.is_shipped(module))
    }
}

fn is_module(item: &Item) -> bool {
    matches!(item, Item::Mod(_))
}

/// An item; of a macro whose tokens are modules (`pass_table! { mod dce; }`), these too.
fn declared_items(item: Item) -> Vec<Item> {
    let Item::Macro(call) = &item else { return vec![item] };
    let declared = syn::parse2::<syn::File>(call.mac.tokens.clone()).map_or(Vec::new(), |file| file.items);
    let modules: Vec<Item> = declared.into_iter().filter(is_module).collect();
    std::iter::once(item).chain(modules).collect()
}

/// The place of a module in its crate.
struct ModulePlace {
    krate: usize,
    path: Vec<String>,
    parent: Option<usize>,
}

/// The libraries and programs of a package, by the names that paths use.
fn targets(folder: &Path, manifest: &Path) -> Vec<(String, PathBuf)> {
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let package = text.split("[package]").nth(1).unwrap_or_default();
    let name = package.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.unwrap_or_default().trim_matches('"').replace('-', "_");
    let mut found = Vec::new();
    let mut add = |name: &str, file: PathBuf| {
        if file.is_file() {
            found.push((name.to_owned(), file));
        }
    };
    let lib = text.split("[lib]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or_default();
    let path = lib.lines().find_map(|line| line.strip_prefix("path = ")).unwrap_or("src/lib.rs");
    add(&name, folder.join(path.trim_matches('"')));
    add("main", folder.join("main.rs"));
    add("main", folder.join("src/main.rs"));
    for file in files_below(&folder.join("src/bin"), ".rs") {
        add("main", file);
    }
    found
}

/// The folder of the files of a file's modules.
fn module_folder(path: &Path, is_root: bool) -> PathBuf {
    let folder = path.parent().unwrap_or(path);
    let stem = path.file_stem().unwrap_or_default();
    if is_root || stem == "mod" { folder.to_path_buf() } else { folder.join(stem) }
}

fn module_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let candidates = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
    candidates.into_iter().find(|file| file.is_file())
}

/// Whether attributes leave something out of the shipped code.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name of an item; empty if it has none.
pub fn item_name(item: &Item) -> String {
    match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref().map_or_else(String::new, ToString::to_string),
        _ => String::new(),
    }
}

/// All files below a folder whose names end so, sorted; build outputs and hidden folders left out.
pub fn files_below(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(files_below(&path, suffix));
            }
        } else if name.ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A path below a root, with forward slashes.
pub fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
