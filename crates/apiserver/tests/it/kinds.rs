//! Kind-specific behavior is a row of `src/kinds`.

use std::path::Path;

#[test]
fn handlers_name_no_resource() {
    let resources = kubernetes_api::resources();
    let plurals: Vec<&str> = resources.iter().map(|it| it.info.resource.plural.as_str()).collect();
    assert!(plurals.contains(&"pods"), "{plurals:?}");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/handlers");
    let files = std::fs::read_dir(&directory).expect("the handlers");
    let mut found = Vec::new();
    for file in files {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let named = plurals.iter().filter(|plural| code.contains(&format!("\"{plural}\"")));
        found.extend(named.map(|plural| format!("{} names {plural}", path.display())));
    }
    assert_eq!(found, Vec::<String>::new());
}
