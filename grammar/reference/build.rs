//! Generates the parser from `src/hir2.lalrpop`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=src/hir2.lalrpop");
    lalrpop::Configuration::new().use_cargo_dir_conventions().process()
}
