//! Descriptions of the built-in types and their fields, as upstream's API documents them, for `kubectl explain`. The build
//! script collects them; they are read where they lie in the program, so that they take no memory until they are used.

/// Lines `definition<unit separator>field<unit separator>description`, in the order of their bytes.
static LINES: &str = include_str!(concat!(env!("OUT_DIR"), "/descriptions"));

const SEPARATOR: char = '\u{1f}';

/// The description of a type, or, with `field`, of one of its fields.
pub(super) fn of(definition: &str, field: &str) -> Option<String> {
    let text = find(LINES, &format!("{definition}{SEPARATOR}{field}{SEPARATOR}"))?;
    Some(text.replace('\u{1e}', "\n"))
}

/// The description of a field by its type alone. The metadata of custom resources is described as that of built-in kinds.
pub(super) fn of_target(target: &str) -> Option<String> {
    match target {
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => of("io.k8s.api.core.v1.ConfigMap", "metadata"),
        _ => of(target, ""),
    }
}

/// The rest of the line that begins with `prefix`.
fn find<'l>(lines: &'l str, prefix: &str) -> Option<&'l str> {
    let bytes = lines.as_bytes();
    // The line sought begins in `low..high`, and both are beginnings of lines.
    let (mut low, mut high) = (0, bytes.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = bytes[low..middle].iter().rposition(|byte| *byte == b'\n').map_or(low, |at| low + at + 1);
        let end = bytes[start..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| start + at);
        let line = &lines[start..end];
        match line.strip_prefix(prefix) {
            Some(text) => return Some(text),
            None if line < prefix => low = (end + 1).min(bytes.len()),
            None => high = start,
        }
    }
    None
}

/// Part of the build script, for its tests.
#[cfg(test)]
#[path = "../../../build/extract.rs"]
mod extract;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_by_its_key() {
        let mut count = 0;
        for line in LINES.lines() {
            let mut parts = line.splitn(3, SEPARATOR);
            let (Some(definition), Some(field), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
                panic!("{line}");
            };
            assert_eq!(of(definition, field), Some(text.replace('\u{1e}', "\n")), "{definition} {field}");
            count += 1;
        }
        assert!(count > 3_000, "{count} descriptions");
        assert_eq!(of("io.k8s.api.core.v1.Pod", "no"), None);
        assert_eq!(of("", ""), None);
        assert_eq!(of("zz", ""), None);
        assert_eq!(find("", "a"), None);
    }

    #[test]
    fn almost_everything_that_is_served_is_described() {
        let schemas = kubernetes_api::schemas();
        let (mut known, mut unknown) = (0, Vec::new());
        for (_, node) in schemas.iter() {
            let Some(definition) = node.definition.as_deref() else { continue };
            for field in node.properties.keys() {
                // A list is described where it is rendered.
                if definition.ends_with("List") && !definition.contains(".meta.") {
                    continue;
                }
                match of(definition, field) {
                    Some(_) => known += 1,
                    None => unknown.push(format!("{definition}.{field}")),
                }
            }
        }
        // Upstream describes no field of a JSON schema or of a version.
        assert!(known > 2_000 && unknown.len() < 50, "{} of {}: {unknown:#?}", unknown.len(), known + unknown.len());
    }
}
