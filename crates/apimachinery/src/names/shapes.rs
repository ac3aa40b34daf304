//! Whether names have the shape of their kind, without the complaints about those that have not.

use super::{LABEL_MAX, SUBDOMAIN_MAX};

const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DASH: u8 = 4;
const OTHER: u8 = 8;

/// What names may hold, by byte: every write validates dozens of names.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'-' => DASH,
            b'_' | b'.' => OTHER,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

fn shaped(text: &[u8], edges: u8, inside: u8) -> bool {
    let is = |byte: u8, classes: u8| CLASSES[usize::from(byte)] & classes != 0;
    match (text.first(), text.last()) {
        (Some(first), Some(last)) => is(*first, edges) && is(*last, edges) && text.iter().all(|byte| is(*byte, inside)),
        _ => false,
    }
}

pub(super) fn label_shaped(text: &[u8]) -> bool {
    shaped(text, LOWER, LOWER | DASH)
}

pub(super) fn subdomain_shaped(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'.').all(label_shaped)
}

pub(super) fn name_shaped(text: &[u8]) -> bool {
    shaped(text, LOWER | UPPER, LOWER | UPPER | DASH | OTHER)
}

/// Nearly all names are valid, and no complaint about them need be built.
pub(super) fn is_valid_qualified_name(text: &[u8]) -> bool {
    let (prefix, name) = match text.iter().position(|byte| *byte == b'/') {
        Some(at) => (Some(&text[..at]), &text[at + 1..]),
        None => (None, text),
    };
    let is_prefix = |prefix: &[u8]| prefix.len() <= SUBDOMAIN_MAX && subdomain_shaped(prefix);
    prefix.is_none_or(is_prefix) && name.len() <= LABEL_MAX && name_shaped(name)
}
