//! Generates the statement parser from `src/hir.lalrpop`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=src/hir.lalrpop");
    lalrpop::Configuration::new().use_cargo_dir_conventions().process()
}
