//! References of container images, as the container runtimes read them.

/// Whether an image has the tag `latest`, or neither a tag nor a digest. An invalid reference has neither.
pub(super) fn is_moving(image: &str) -> bool {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    let file = rest.rfind('/').map_or(0, |slash| slash + 1);
    let colon = rest[file..].find(':').map(|at| file + at);
    let (name, tag) = colon.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
    let is_reference = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest) && !is_identifier(image);
    is_reference && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

/// A registry's host, if the first part looks like one, and a path.
fn is_name(name: &str) -> bool {
    let is_host = |part: &str| part == "localhost" || part.contains(['.', ':']) || part.chars().any(char::is_uppercase);
    let (host, path) = match name.split_once('/').filter(|(first, _)| is_host(first)) {
        Some((host, path)) => (Some(host), path),
        None => (None, name),
    };
    host.is_none_or(is_domain) && path.split('/').all(is_path_component)
}

fn is_domain(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.starts_with('-')
            && !label.ends_with('-')
            && !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_address = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
        return is_address && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port));
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    name.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Lowercase words, separated by a dot, one or two underscores, or dashes.
fn is_path_component(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins_and_ends = part.bytes().next().is_some_and(is_word) && part.bytes().next_back().is_some_and(is_word);
    let mut separators = part.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    begins_and_ends && separators.all(is_separator)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let length =
        |algorithm: &str| [("sha256", 64), ("sha384", 96), ("sha512", 128)].into_iter().find(|it| it.0 == algorithm);
    let Some((algorithm, hash)) = digest.split_once(':') else { return false };
    length(algorithm).is_some_and(|(_, length)| hash.len() == length && is_hash(hash))
}

/// An image ID is no reference.
fn is_identifier(image: &str) -> bool {
    image.len() == 64 && is_hash(image)
}

fn is_hash(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_tags_are_pulled_always() {
        let (digest, short) = (format!("sha256:{}", "0a".repeat(32)), "sha256:0000");
        for (image, moving) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.19.0", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:1", false),
            ("registry.example.com/a/b__c-d.e", true),
            ("[2001:db8::1]:5000/a", true),
            ("HOST/a", true),
            (&format!("nginx@{digest}"), false),
            (&format!("nginx:latest@{digest}"), true),
            (&format!("nginx:1@{digest}"), false),
            // Invalid references.
            (&format!("nginx:latest@{short}"), false),
            ("Nginx", false),
            ("docker.io/library/Nginx", false),
            ("nginx:", false),
            ("-nginx", false),
            ("a..b", false),
            ("a b", false),
            ("", false),
            (&"0a".repeat(32), false),
        ] {
            assert_eq!(is_moving(image), moving, "{image}");
        }
    }
}
