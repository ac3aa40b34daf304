//! Addresses of RFC 5322, as far as Go's package `net/mail` reads them: with display names, comments and groups of one.

use std::net::IpAddr;

/// Whether the text is one address.
pub fn is_email(text: &str) -> bool {
    let mut rest = Rest(text);
    rest.address(true) == Some(1) && rest.comments().is_some() && rest.0.is_empty()
}

/// What is left to read. A method that returns `None` may have read some of it.
#[derive(Clone, Copy)]
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    fn take(&mut self, c: char) -> Option<()> {
        self.0 = self.0.strip_prefix(c)?;
        Some(())
    }

    fn spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    /// The number of its mailboxes.
    fn address(&mut self, may_be_group: bool) -> Option<usize> {
        self.spaces();
        let mut plain = *self;
        if plain.mailbox().is_some() {
            *self = plain;
            self.spaces();
            if self.take('(').is_some() {
                self.comment()?;
            }
            return Some(1);
        }
        if !self.0.starts_with('<') {
            self.phrase()?;
        }
        self.spaces();
        if may_be_group && self.take(':').is_some() {
            return self.group();
        }
        self.take('<')?;
        self.mailbox()?;
        self.take('>')?;
        Some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.spaces();
        let mut count = 0;
        if self.take(';').is_none() {
            loop {
                count += self.address(false)?;
                self.comments()?;
                if self.take(';').is_some() {
                    break;
                }
                self.take(',')?;
            }
        }
        self.comments()?;
        Some(count)
    }

    /// `local@domain`
    fn mailbox(&mut self) -> Option<()> {
        self.spaces();
        match self.0.starts_with('"') {
            true => self.quoted().filter(|text| !text.is_empty())?,
            false => self.atom().filter(|atom| has_single_dots(atom))?,
        };
        self.take('@')?;
        self.spaces();
        match self.0.starts_with('[') {
            true => self.literal(),
            false => self.atom().filter(|atom| has_single_dots(atom)).map(drop),
        }
    }

    /// Words before an address in angles.
    fn phrase(&mut self) -> Option<()> {
        let mut has_word = false;
        loop {
            if has_word {
                self.comments()?;
            }
            self.spaces();
            let mut word = *self;
            let is_word = if word.0.starts_with('"') { word.quoted() } else { word.atom() };
            if is_word.is_none() {
                return has_word.then_some(());
            }
            (*self, has_word) = (word, true);
        }
    }

    fn atom(&mut self) -> Option<&'t str> {
        let is_atom = |c: char| is_visible(c) && !"()<>[]:;@\\,\"".contains(c);
        let end = self.0.find(|c| !is_atom(c)).unwrap_or(self.0.len());
        let (atom, rest) = self.0.split_at(end);
        self.0 = rest;
        (!atom.is_empty()).then_some(atom)
    }

    /// The text between quotes, with its escapes.
    fn quoted(&mut self) -> Option<&'t str> {
        let text = self.0.strip_prefix('"')?;
        let mut is_escaped = false;
        for (at, c) in text.char_indices() {
            match c {
                _ if is_escaped && (is_visible(c) || matches!(c, ' ' | '\t')) => is_escaped = false,
                _ if is_escaped => return None,
                '"' => {
                    self.0 = &text[at + 1..];
                    return Some(&text[..at]);
                }
                '\\' => is_escaped = true,
                _ if is_visible(c) || matches!(c, ' ' | '\t') => {}
                _ => return None,
            }
        }
        None
    }

    /// An address in brackets instead of a domain.
    fn literal(&mut self) -> Option<()> {
        let (address, rest) = self.0.strip_prefix('[')?.split_once(']')?;
        self.0 = rest;
        let is_valid = match address.strip_prefix("IPv6:") {
            Some(address) => address.parse::<IpAddr>().is_ok(),
            None => match address.parse() {
                Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().is_some(),
                Ok(IpAddr::V4(_)) => true,
                Err(_) => false,
            },
        };
        is_valid.then_some(())
    }

    fn comments(&mut self) -> Option<()> {
        self.spaces();
        while self.take('(').is_some() {
            self.comment()?;
            self.spaces();
        }
        Some(())
    }

    /// The rest of a comment, which may contain others.
    fn comment(&mut self) -> Option<()> {
        let mut depth = 1;
        let mut characters = self.0.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => drop(characters.next()),
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.0 = &self.0[at + 1..];
                return Some(());
            }
        }
        None
    }
}

fn has_single_dots(atom: &str) -> bool {
    !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")
}

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}
