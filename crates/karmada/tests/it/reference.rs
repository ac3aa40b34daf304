//! The pages of `docs/reference` match the program's data. `UPDATE_DOCS=1` writes them.

use std::path::Path;

use karmada::flags;

#[test]
fn the_pages_are_up_to_date() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let pages = [
        ("flags.md", flags::flags_page()),
        ("feature-gates.md", flags::gates_page()),
        ("metrics.md", flags::metrics_page()),
        ("karmadactl.md", karmadactl::reference_page()),
    ];
    for (name, page) in pages {
        let path = directory.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(&directory).expect("the documentation is writable");
            std::fs::write(&path, &page).expect("the documentation is writable");
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(known == page, "{name} differs from the data; UPDATE_DOCS=1 cargo test -p karmada reference");
    }
}
