//! Whose rights the processes of a Windows container have.

use apimachinery::field::ErrorList;

use super::at::At;
use super::table::Function;
use super::{Object, invalid};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("windows_options", windows_options)];

const CREDENTIALS_KIB: usize = 64;
/// Letters of a domain, which must be fewer, and of a user, which may be as many.
const DOMAIN: usize = 256;
const USER: usize = 104;

fn windows_options(options: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut refuse = |field: &str, value: &str, detail: &str| invalid(errors, &at.child(field), &value.into(), detail);
    if let Some(spec) = options.get("gmsaCredentialSpec").and_then(|spec| spec.as_str()) {
        if spec.is_empty() {
            refuse("gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIALS_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {CREDENTIALS_KIB} KiB");
            refuse("gmsaCredentialSpec", spec, &detail);
        }
    }
    if let Some(name) = options.get("runAsUserName").and_then(|name| name.as_str()) {
        for detail in user_complaints(name) {
            refuse("runAsUserName", name, &detail);
        }
    }
}

/// `DOMAIN\USER`, or a user alone.
fn user_complaints(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".into()];
    }
    if name.chars().any(|letter| letter.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".into()];
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".into()],
    };
    let mut complaints = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= DOMAIN) {
        complaints.push(format!("runAsUserName's Domain length must be under {DOMAIN} characters"));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        complaints.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".into());
    }
    if user.is_empty() {
        complaints.push("runAsUserName's User cannot be empty".into());
    } else if user.len() > USER {
        complaints.push(format!("runAsUserName's User length must not be longer than {USER} characters"));
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        complaints.push(r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#.into());
    }
    if !user.is_empty() && user.chars().all(|letter| matches!(letter, '.' | ' ')) {
        complaints.push("runAsUserName's User cannot contain only periods or spaces".into());
    }
    complaints
}

fn is_net_bios(domain: &str) -> bool {
    let letters = domain.chars().count();
    (1..=15).contains(&letters)
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_are_validated() {
        let long = |count: usize| "a".repeat(count);
        for (name, expected) in [
            ("ContainerUser".to_owned(), &[][..]),
            ("NT Authority\\NETWORK SERVICE".to_owned(), &[][..]),
            ("a.example\\u".to_owned(), &[]),
            (String::new(), &["runAsUserName cannot be an empty string"]),
            ("a\tb".to_owned(), &["runAsUserName cannot contain control characters"]),
            ("a\\b\\c".to_owned(), &["runAsUserName cannot contain more than one backslash"]),
            ("\\u".to_owned(), &["runAsUserName's Domain doesn't match the NetBios nor the DNS format"]),
            (
                format!("{}\\", long(256)),
                &["runAsUserName's Domain length must be under 256 characters", "runAsUserName's User cannot be empty"],
            ),
            (long(105), &["runAsUserName's User length must not be longer than 104 characters"]),
            ("a:b".to_owned(), &[r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#]),
            (". .".to_owned(), &["runAsUserName's User cannot contain only periods or spaces"]),
        ] {
            assert_eq!(user_complaints(&name), expected, "{name}");
        }
    }
}
