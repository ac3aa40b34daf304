//! Circles of imports among the modules of a crate: `use crate::a` in `b` and `use crate::b` in `a`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The imports of the top-level modules of a crate, by module.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// Crates whose modules still import each other in a circle.
pub const CIRCULAR: &[&str] = &["controllers", "karmada", "simulator"];

/// Reads the sources of a crate. `lib.rs` and `main.rs` are no modules: they may import any.
///
/// # Errors
/// If a file cannot be read.
pub fn read(src: &Path) -> std::io::Result<Imports> {
    let mut sources = Vec::new();
    walk(src, src, &mut sources)?;
    let modules: BTreeSet<String> = sources.iter().map(|(module, _)| module.clone()).collect();
    let mut imports = Imports::new();
    for (module, text) in sources.iter().filter(|(module, _)| module != "lib" && module != "main") {
        let found = imported(text).into_iter().filter(|name| name != module && modules.contains(name));
        imports.entry(module.clone()).or_default().extend(found);
    }
    Ok(imports)
}

fn walk(root: &Path, folder: &Path, into: &mut Vec<(String, String)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(root, &path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let first = path.strip_prefix(root).ok().and_then(|inside| inside.components().next());
            let module = first.map(|part| part.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned());
            into.push((module.unwrap_or_default(), std::fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// The names after `crate::`, alone or in braces. Comments may name any module.
fn imported(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect();
    let code = code.join("\n");
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            names.extend(name(after));
            continue;
        };
        let mut depth = 0;
        let mut item = String::new();
        for character in group.chars() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => names.extend(name(&std::mem::take(&mut item))),
                _ if depth == 0 => item.push(character),
                _ => {}
            }
        }
        names.extend(name(&item));
    }
    names
}

fn name(text: &str) -> Option<String> {
    let name: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The modules that reach themselves through their imports.
pub fn circular(imports: &Imports) -> Vec<&str> {
    imports.keys().map(String::as_str).filter(|module| reachable(imports, module).contains(module)).collect()
}

fn reachable<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let direct = |module: &str| imports.get(module).into_iter().flatten().map(String::as_str);
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = direct(from).collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(direct(module));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        let row = |module: &str, text: &str| (module.to_owned(), imported(text));
        let imports = Imports::from([
            row("a", "use crate::{b::{self, d}, c};"),
            row("b", "// crate::a\nfn f() { crate::e::g() }"),
            row("c", "use crate::e;"),
            row("e", "use crate::b::h;"),
        ]);
        assert_eq!(imports["a"], BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert_eq!(circular(&imports), ["b", "e"]);
    }
}
