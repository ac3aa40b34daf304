//! Lua's patterns, with every step metered: some patterns take time polynomial in the length of the text.

use super::meter::Meter;

/// As in Lua 5.1.
const MAX_CAPTURES: usize = 32;
/// The maximum nesting of the matcher: each level takes a few hundred bytes of stack.
const MAX_DEPTH: usize = 200;

/// A captured part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    Text(usize, usize),
    /// `()` captures its position, counted from 1.
    Position(usize),
}

/// The position of a match, counted from 0, the end excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub start: usize,
    pub end: usize,
    pub captures: Vec<Capture>,
}

#[derive(Clone, Copy)]
enum Open {
    /// Starts here; its end is not known yet.
    Started(usize),
    Closed(Capture),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Open>,
    depth: usize,
    meter: &'a Meter,
}

fn malformed<T>(why: &str) -> mlua::Result<T> {
    Err(mlua::Error::runtime(format!("malformed pattern ({why})")))
}

/// The first match at or after `from`.
pub fn find(text: &[u8], pattern: &[u8], from: usize, meter: &Meter) -> mlua::Result<Option<Found>> {
    let (anchored, pattern) = match pattern.split_first() {
        Some((b'^', rest)) => (true, rest),
        _ => (false, pattern),
    };
    let mut start = from;
    while start <= text.len() {
        let mut matcher = Matcher { text, pattern, captures: Vec::new(), depth: 0, meter };
        if let Some(end) = matcher.matches(start, 0)? {
            return Ok(Some(Found { start, end, captures: matcher.closed()? }));
        }
        if anchored {
            break;
        }
        start += 1;
    }
    Ok(None)
}

/// The first occurrence of a text without special characters.
pub fn find_plain(text: &[u8], searched: &[u8], from: usize, meter: &Meter) -> mlua::Result<Option<usize>> {
    if searched.is_empty() {
        return Ok((from <= text.len()).then_some(from));
    }
    let rest = text.get(from..).unwrap_or_default();
    meter.charge(((rest.len() * searched.len().min(64)) / 8) as u64)?;
    Ok(rest.windows(searched.len()).position(|window| window == searched).map(|at| at + from))
}

pub fn is_special(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

impl Matcher<'_> {
    fn closed(&self) -> mlua::Result<Vec<Capture>> {
        let close = |open: &Open| match open {
            Open::Closed(capture) => Ok(*capture),
            Open::Started(_) => Err(mlua::Error::runtime("unfinished capture")),
        };
        self.captures.iter().map(close).collect()
    }

    /// The end of a match of the rest of the pattern.
    fn matches(&mut self, at: usize, p: usize) -> mlua::Result<Option<usize>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(mlua::Error::runtime("pattern too complex"));
        }
        let end = self.matches_here(at, p);
        self.depth -= 1;
        end
    }

    fn matches_here(&mut self, mut at: usize, mut p: usize) -> mlua::Result<Option<usize>> {
        loop {
            self.meter.charge(1)?;
            let Some(&byte) = self.pattern.get(p) else { return Ok(Some(at)) };
            let after = self.pattern.get(p + 1).copied();
            match (byte, after) {
                (b'(', Some(b')')) => {
                    return self.capturing(Open::Closed(Capture::Position(at + 1)), at, p + 2);
                }
                (b'(', _) => return self.capturing(Open::Started(at), at, p + 1),
                (b')', _) => return self.closing(at, p + 1),
                (b'%', Some(b'b')) => match self.balanced(at, p + 2)? {
                    Some(end) => (at, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(at, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                (b'%', Some(digit @ b'0'..=b'9')) => match self.same_again(at, digit)? {
                    Some(end) => (at, p) = (end, p + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                _ => {
                    let class_end = self.class_end(p)?;
                    match self.pattern.get(class_end) {
                        Some(b'?') => {
                            if self.single(at, p, class_end)
                                && let Some(end) = self.matches(at + 1, class_end + 1)?
                            {
                                return Ok(Some(end));
                            }
                            p = class_end + 1;
                        }
                        Some(b'*') => return self.longest(at, p, class_end, 0),
                        Some(b'+') => return self.longest(at, p, class_end, 1),
                        Some(b'-') => return self.shortest(at, p, class_end),
                        _ if self.single(at, p, class_end) => (at, p) = (at + 1, class_end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn capturing(&mut self, capture: Open, at: usize, p: usize) -> mlua::Result<Option<usize>> {
        if self.captures.len() >= MAX_CAPTURES {
            return Err(mlua::Error::runtime("too many captures"));
        }
        self.captures.push(capture);
        let end = self.matches(at, p)?;
        if end.is_none() {
            self.captures.pop();
        }
        Ok(end)
    }

    fn closing(&mut self, at: usize, p: usize) -> mlua::Result<Option<usize>> {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Open::Started(_)));
        let Some(index) = open else { return Err(mlua::Error::runtime("invalid pattern capture")) };
        let before = self.captures[index];
        if let Open::Started(from) = before {
            self.captures[index] = Open::Closed(Capture::Text(from, at));
        }
        let end = self.matches(at, p)?;
        if end.is_none() {
            self.captures[index] = before;
        }
        Ok(end)
    }

    fn longest(&mut self, at: usize, p: usize, class_end: usize, least: usize) -> mlua::Result<Option<usize>> {
        let mut count = 0;
        while self.single(at + count, p, class_end) {
            count += 1;
        }
        self.meter.charge(count as u64)?;
        while count >= least {
            if let Some(end) = self.matches(at + count, class_end + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    fn shortest(&mut self, mut at: usize, p: usize, class_end: usize) -> mlua::Result<Option<usize>> {
        loop {
            if let Some(end) = self.matches(at, class_end + 1)? {
                return Ok(Some(end));
            }
            if !self.single(at, p, class_end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    /// `%bxy`: from an x to the matching y.
    fn balanced(&self, at: usize, p: usize) -> mlua::Result<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return malformed("missing arguments to '%b'");
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1usize;
        for (index, byte) in self.text.iter().enumerate().skip(at + 1) {
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    self.meter.charge((index - at) as u64)?;
                    return Ok(Some(index + 1));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        self.meter.charge((self.text.len() - at) as u64)?;
        Ok(None)
    }

    /// `%f[set]`: the position between a byte outside the set and one inside. Returns where the pattern continues.
    fn frontier(&self, at: usize, p: usize) -> mlua::Result<Option<usize>> {
        if self.pattern.get(p) != Some(&b'[') {
            return malformed("missing '[' after '%f'");
        }
        let end = self.class_end(p)?;
        let before = at.checked_sub(1).and_then(|index| self.text.get(index)).copied().unwrap_or(0);
        let here = self.text.get(at).copied().unwrap_or(0);
        let fits = !self.in_set(before, p, end - 1) && self.in_set(here, p, end - 1);
        Ok(fits.then_some(end))
    }

    /// `%1`: the text of a capture again.
    fn same_again(&self, at: usize, digit: u8) -> mlua::Result<Option<usize>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let Some(Open::Closed(Capture::Text(from, to))) = index.and_then(|index| self.captures.get(index)).copied()
        else {
            return Err(mlua::Error::runtime("invalid capture index"));
        };
        self.meter.charge((to - from) as u64 / 8)?;
        let fits = self.text[at..].starts_with(&self.text[from..to]);
        Ok(fits.then_some(at + to - from))
    }

    /// The end of the single-character class that starts at `p`.
    fn class_end(&self, p: usize) -> mlua::Result<usize> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => malformed("ends with '%'"),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut end = p + 1;
                if self.pattern.get(end) == Some(&b'^') {
                    end += 1;
                }
                loop {
                    // The first byte of a set is a member of it even if it is `]`.
                    match self.pattern.get(end) {
                        None => return malformed("missing ']'"),
                        Some(b'%') if end + 1 >= self.pattern.len() => return malformed("missing ']'"),
                        Some(b'%') => end += 2,
                        Some(_) => end += 1,
                    }
                    if self.pattern.get(end) == Some(&b']') {
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&self, at: usize, p: usize, class_end: usize) -> bool {
        let Some(&byte) = self.text.get(at) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, class_end - 1),
            literal => literal == byte,
        }
    }

    /// `p` is at `[`, `last` at `]`.
    fn in_set(&self, byte: u8, p: usize, last: usize) -> bool {
        let mut p = p + 1;
        let negated = self.pattern[p] == b'^';
        if negated {
            p += 1;
        }
        while p < last {
            if self.pattern[p] == b'%' {
                if in_class(byte, self.pattern[p + 1]) {
                    return !negated;
                }
                p += 2;
            } else if p + 2 < last && self.pattern[p + 1] == b'-' {
                if (self.pattern[p]..=self.pattern[p + 2]).contains(&byte) {
                    return !negated;
                }
                p += 3;
            } else {
                if self.pattern[p] == byte {
                    return !negated;
                }
                p += 1;
            }
        }
        negated
    }
}

fn in_class(byte: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    found != class.is_ascii_uppercase()
}
