//! Compiles `knowledge/*.toml` and `profiles/*.toml` into static tables: parsing them at start-up
//! would be too slow.
//!
//! The schema is described in `knowledge/README.md`. A mistake in an entry stops the build with
//! the file and the entry's name.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/flagline.rs"]
mod flagline;
#[path = "build/profiles.rs"]
mod profiles;
#[path = "build/schema.rs"]
mod schema;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use emit::Pools;
use schema::File;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=knowledge");
    println!("cargo::rerun-if-changed=profiles");
    println!("cargo::rerun-if-changed=build");
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("cargo::error={problem}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir("knowledge")
        .map_err(|e| format!("reading the folder knowledge: {e}"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    files.sort();

    let mut all = File::default();
    let mut owners: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in &files {
        let file = read(path)?;
        for program in &file.program {
            for name in program.name.iter() {
                if let Some(first) = owners.insert(name.to_owned(), path.clone()) {
                    return Err(format!(
                        "{}: program `{name}` is described twice (also in {})",
                        path.display(),
                        first.display()
                    ));
                }
            }
        }
        all.absorb(file);
    }
    let mut pools = Pools::default();
    write(
        "profiles.rs",
        profiles::tables(Path::new("profiles"), &mut pools)?,
    )?;
    write("knowledge.rs", emit::tables(&all, pools)?)
}

fn write(name: &str, code: String) -> Result<(), String> {
    let out = std::env::var("OUT_DIR").map_err(|e| format!("OUT_DIR: {e}"))?;
    std::fs::write(Path::new(&out).join(name), code).map_err(|e| format!("writing {name}: {e}"))
}

fn read(path: &Path) -> Result<File, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    let mut file: File = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    file.remember_origin(&path.display().to_string());
    Ok(file)
}
