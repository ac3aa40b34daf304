//! The `Warning` headers of a reply, within kube-apiserver's bounds: headers have little room, and objects, policies and
//! webhooks can cause any number of warnings.

use std::borrow::Cow;
use std::collections::HashSet;

use http::HeaderValue;
use http::header::WARNING;
use transport::Response;

/// Characters of all warnings of a reply.
const MAX_WARNINGS: usize = 4 * 1024;
/// Characters of a warning, if there are more than [`MAX_WARNINGS`] in all.
const MAX_WARNING: usize = 256;
/// What each header has around its text.
const FRAME: usize = "299 - \"\"".len();

/// Different warnings in the order of their arrival; more than a reply may have are dropped.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    known: HashSet<String>,
    /// Characters of the texts, each cut.
    length: usize,
}

impl Warnings {
    pub fn add(&mut self, text: String) {
        // An empty text is one, too.
        if self.length <= MAX_WARNINGS && self.known.insert(text.clone()) {
            self.length += text.chars().take(MAX_WARNING).count().max(1);
            self.texts.push(text);
        }
    }

    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// Adds one `Warning: 299` header per text.
pub fn warn(response: &mut Response, warnings: &[String]) {
    let headers = response.headers_mut();
    let present = headers.get_all(WARNING).iter().map(|value| value.len().saturating_sub(FRAME)).sum();
    for text in bounded(warnings, MAX_WARNINGS.saturating_sub(present)) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(WARNING, value);
        }
    }
}

/// Adds a warning before those that the response has.
pub fn warn_first(response: &mut Response, text: &str) {
    let later: Vec<HeaderValue> = response.headers().get_all(WARNING).iter().cloned().collect();
    response.headers_mut().remove(WARNING);
    warn(response, &[text.to_owned()]);
    for value in later {
        response.headers_mut().append(WARNING, value);
    }
}

/// Cuts warnings that are longer than `most` together, and drops those that still do not fit.
fn bounded(warnings: &[String], most: usize) -> Vec<Cow<'_, str>> {
    let all = warnings.iter().map(|text| Cow::from(text.as_str()));
    if warnings.iter().map(|text| text.chars().count()).sum::<usize>() <= most && warnings.len() <= MAX_WARNINGS {
        return all.collect();
    }
    let mut written = 0;
    all.map(|text| Cow::from(text.chars().take(MAX_WARNING).collect::<String>()))
        .take_while(|text| {
            written += text.chars().count().max(1);
            written <= most
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_warning_precedes_present_ones() {
        let mut response = Response::new(transport::empty());
        warn(&mut response, &["a".to_owned(), "b".to_owned()]);
        warn_first(&mut response, "deprecated");
        let shown: Vec<_> = response.headers().get_all(WARNING).iter().collect();
        assert_eq!(shown, ["299 - \"deprecated\"", "299 - \"a\"", "299 - \"b\""]);
    }

    #[test]
    fn warnings_are_bounded() {
        let of = |count: usize, length: usize| bounded(&vec!["ä".repeat(length); count], MAX_WARNINGS).concat();
        assert_eq!(of(4, 1024), "ä".repeat(4096));
        assert_eq!(of(1, 5000), "ä".repeat(256));
        assert_eq!(of(100, 1000), "ä".repeat(16 * 256));
        assert_eq!(bounded(&vec![String::new(); 1 << 20], MAX_WARNINGS).len(), MAX_WARNINGS);
    }

    #[test]
    fn a_reply_has_room_for_few_warnings() {
        let mut response = Response::new(transport::empty());
        warn(&mut response, &["a \"b\" \\\n".to_owned()]);
        let many: Vec<String> = (0..100_000).map(|n| format!("warning {n}")).collect();
        warn(&mut response, &many);
        warn(&mut response, &many);
        let found: Vec<_> = response.headers().get_all(WARNING).iter().collect();
        assert_eq!(found[0], r#"299 - "a \"b\" \\ ""#);
        assert!(found.len() > 300 && found.iter().map(|value| value.len()).sum::<usize>() < 8 << 10, "{}", found.len());
    }

    #[test]
    fn warnings_are_collected_once_and_while_there_is_room() {
        let mut warnings = Warnings::default();
        (0..1_000_000).for_each(|n| warnings.add(format!("{}", n / 2)));
        let texts = warnings.into_texts();
        assert_eq!(texts[..3], ["0", "1", "2"]);
        assert!(texts.len() < MAX_WARNINGS, "{}", texts.len());
    }
}
