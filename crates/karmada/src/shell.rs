//! Words of shell commands that users paste.

use std::path::Path;

/// A path as one word of a POSIX shell.
pub(crate) fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_split_or_expand_is_quoted() {
        for (path, expected) in [
            ("karmada-data/karmada-apiserver.config", "karmada-data/karmada-apiserver.config"),
            ("/my data/ü", "'/my data/ü'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("~/x", "'~/x'"),
        ] {
            assert_eq!(word(Path::new(path)), expected);
        }
    }
}
