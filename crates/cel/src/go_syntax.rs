//! Go's error messages for invalid patterns: the order of the checks and the messages are those of `regexp/syntax`.

/// Go's limit for repetitions, multiplied over nested ones.
pub(crate) const MAX_REPEAT: u32 = 1_000;

/// Go's error for a pattern; `None` if Go accepts it.
pub(crate) fn fault(pattern: &str) -> Option<String> {
    let mut parser = Parser { whole: pattern, level: Level::default(), outer: Vec::new() };
    parser.run().err().map(|(why, part)| format!("error parsing regexp: {why}: `{part}`"))
}

const BAD_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_CAPTURE: &str = "invalid named capture";
const BAD_PERL: &str = "invalid or unsupported Perl syntax";
const BAD_STACK: &str = "invalid nested repetition operator";
const BAD_COUNT: &str = "invalid repeat count";
const NO_BRACKET: &str = "missing closing ]";
const NO_PAREN: &str = "missing closing )";
const NO_ARGUMENT: &str = "missing argument to repetition operator";
const TRAILING: &str = "trailing backslash at end of expression";
const UNEXPECTED: &str = "unexpected )";

/// The error and the part of the pattern that causes it.
type Fault<'p> = (&'static str, &'p str);

/// The state of an open group, or of the whole pattern.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The largest repetition within the parts so far.
    repeats: u32,
    /// The same for the last part; `None` at the start and after a bar.
    last: Option<u32>,
}

struct Parser<'p> {
    whole: &'p str,
    /// The innermost group.
    level: Level,
    /// The enclosing groups.
    outer: Vec<Level>,
}

impl<'p> Parser<'p> {
    fn run(&mut self) -> Result<(), Fault<'p>> {
        let mut rest = self.whole;
        let mut repeated: Option<&'p str> = None;
        while let Some(first) = rest.chars().next() {
            let before = rest;
            let stacked = repeated.take();
            rest = match first {
                '(' if rest.starts_with("(?") => self.flags(rest)?,
                '(' => {
                    self.open();
                    &rest[1..]
                }
                '|' => {
                    self.atom_ends();
                    &rest[1..]
                }
                ')' => {
                    self.atom_ends();
                    let outer = self.outer.pop().ok_or((UNEXPECTED, self.whole))?;
                    let inner = std::mem::replace(&mut self.level, outer);
                    self.atom(inner.repeats);
                    &rest[1..]
                }
                '[' => {
                    let after = class(rest)?;
                    self.atom(1);
                    after
                }
                '*' | '+' | '?' => {
                    let after = self.repeat(before, &rest[1..], None, stacked)?;
                    repeated = Some(before);
                    after
                }
                '{' => match count(rest) {
                    None => {
                        self.atom(1);
                        &rest[1..]
                    }
                    Some((least, most, after)) => {
                        let limit = i64::from(MAX_REPEAT);
                        if least < 0 || least > limit || most > limit || most >= 0 && least > most {
                            return Err((BAD_COUNT, upto(before, after)));
                        }
                        let after = self.repeat(before, after, Some((least, most)), stacked)?;
                        repeated = Some(before);
                        after
                    }
                },
                '\\' => self.escape(rest)?,
                _ => {
                    self.atom(1);
                    &rest[first.len_utf8()..]
                }
            };
        }
        if self.outer.is_empty() { Ok(()) } else { Err((NO_PAREN, self.whole)) }
    }

    fn open(&mut self) {
        self.outer.push(std::mem::take(&mut self.level));
    }

    fn atom(&mut self, repeats: u32) {
        self.atom_ends();
        self.level.last = Some(repeats);
    }

    fn atom_ends(&mut self) {
        let level = &mut self.level;
        level.repeats = level.repeats.max(level.last.take().unwrap_or(1));
    }

    fn repeat(
        &mut self,
        before: &'p str,
        mut after: &'p str,
        times: Option<(i64, i64)>,
        stacked: Option<&'p str>,
    ) -> Result<&'p str, Fault<'p>> {
        after = after.strip_prefix('?').unwrap_or(after);
        if let Some(first) = stacked {
            return Err((BAD_STACK, upto(first, after)));
        }
        let level = &mut self.level;
        let inner = level.last.ok_or((NO_ARGUMENT, upto(before, after)))?;
        let Some((least, most)) = times else { return Ok(after) };
        let times = if most < 0 { least } else { most };
        let total = match u32::try_from(times) {
            Ok(0) if most == 0 => 1,
            Ok(0) | Err(_) => inner,
            Ok(times) => inner.saturating_mul(times),
        };
        if times >= 2 && total > MAX_REPEAT {
            return Err((BAD_COUNT, upto(before, after)));
        }
        level.last = Some(total);
        Ok(after)
    }

    /// `(?`: a named group, or flags.
    fn flags(&mut self, rest: &'p str) -> Result<&'p str, Fault<'p>> {
        let start = if rest.len() > 4 && rest.starts_with("(?P<") {
            Some(4)
        } else if rest.len() > 3 && rest.starts_with("(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(start) = start {
            let end = rest.find('>').ok_or((BAD_CAPTURE, rest))?;
            let name = &rest[start..end];
            if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                return Err((BAD_CAPTURE, &rest[..=end]));
            }
            self.open();
            return Ok(&rest[end + 1..]);
        }
        let (mut negated, mut seen) = (false, false);
        for (at, flag) in rest.char_indices().skip(2) {
            let after = &rest[at + flag.len_utf8()..];
            match flag {
                'i' | 'm' | 's' | 'U' => seen = true,
                '-' if !negated => (negated, seen) = (true, false),
                ':' | ')' if !negated || seen => {
                    if flag == ':' {
                        self.open();
                    }
                    return Ok(after);
                }
                _ => return Err((BAD_PERL, upto(rest, after))),
            }
        }
        Err((BAD_PERL, rest))
    }

    fn escape(&mut self, rest: &'p str) -> Result<&'p str, Fault<'p>> {
        let next = rest[1..].chars().next();
        if next == Some('C') {
            return Err((BAD_ESCAPE, &rest[..2]));
        }
        if next == Some('Q') {
            let quoted = &rest[2..];
            let end = quoted.find("\\E");
            if !quoted[..end.unwrap_or(quoted.len())].is_empty() {
                self.atom(1);
            }
            return Ok(end.map_or("", |end| &quoted[end + 2..]));
        }
        self.atom(1);
        if matches!(next, Some('A' | 'b' | 'B' | 'z')) || is_perl(next) {
            return Ok(&rest[2..]);
        }
        if let Some(after) = property(rest)? {
            return Ok(after);
        }
        character(rest).map(|(_, after)| after)
    }
}

fn upto<'p>(from: &'p str, after: &str) -> &'p str {
    &from[..from.len() - after.len()]
}

fn is_perl(letter: Option<char>) -> bool {
    matches!(letter, Some('d' | 'D' | 's' | 'S' | 'w' | 'W'))
}

/// `{2}`, `{2,}`, `{2,3}`: minimum, maximum (-1 for no limit), and the rest; a number that is too large is -1 as well.
fn count(rest: &str) -> Option<(i64, i64, &str)> {
    let (least, rest) = number(rest.strip_prefix('{')?)?;
    let Some(after) = rest.strip_prefix(',') else { return Some((least, least, rest.strip_prefix('}')?)) };
    if let Some(after) = after.strip_prefix('}') {
        return Some((least, -1, after));
    }
    let (most, after) = number(after)?;
    // Upstream treats a maximum that is too large like a minimum of -1.
    let least = if most < 0 { -1 } else { least };
    Some((least, most, after.strip_prefix('}')?))
}

fn number(rest: &str) -> Option<(i64, &str)> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let text = &rest[..digits];
    if digits == 0 || digits > 1 && text.starts_with('0') {
        return None;
    }
    let number = text.parse().ok().filter(|number| *number < 1_000_000_000).unwrap_or(-1);
    Some((number, &rest[digits..]))
}

/// One escaped character and the rest.
fn character(rest: &str) -> Result<(char, &str), Fault<'_>> {
    let mut after = &rest[1..];
    let mut take = || {
        let next = after.chars().next();
        after = &after[next.map_or(0, char::len_utf8)..];
        next
    };
    let Some(letter) = take() else { return Err((TRAILING, "")) };
    let found = match letter {
        'x' => match take() {
            Some('{') => {
                let mut code = None::<u32>;
                loop {
                    match take() {
                        Some('}') => break code.and_then(char::from_u32),
                        Some(digit) if digit.is_ascii_hexdigit() => {
                            let sum = code.unwrap_or(0) * 16 + digit.to_digit(16).unwrap_or(0);
                            if sum > u32::from(char::MAX) {
                                break None;
                            }
                            code = Some(sum);
                        }
                        _ => break None,
                    }
                }
            }
            first => {
                let digits = (first.and_then(|c| c.to_digit(16)), take().and_then(|c| c.to_digit(16)));
                if let (Some(first), Some(second)) = digits { char::from_u32(first * 16 + second) } else { None }
            }
        },
        '0'..='7' => {
            let more = after.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let code = format!("{letter}{}", &after[..more]);
            if letter != '0' && more == 0 {
                None
            } else {
                after = &after[more..];
                u32::from_str_radix(&code, 8).ok().and_then(char::from_u32)
            }
        }
        'a' => Some('\u{7}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        other => Some(other).filter(|c| c.is_ascii() && !c.is_ascii_alphanumeric()),
    };
    found.map(|found| (found, after)).ok_or((BAD_ESCAPE, upto(rest, after)))
}

/// `\pL`, `\p{Greek}`; `None` if it is not such a class.
fn property(rest: &str) -> Result<Option<&str>, Fault<'_>> {
    let Some(name) = rest.strip_prefix("\\p").or_else(|| rest.strip_prefix("\\P")) else { return Ok(None) };
    let after = match name.chars().next() {
        Some('{') => &name[name.find('}').ok_or((BAD_RANGE, rest))? + 1..],
        first => &name[first.map_or(0, char::len_utf8)..],
    };
    let name = upto(name, after).trim_start_matches('{').trim_end_matches('}');
    let name = name.strip_prefix('^').unwrap_or(name);
    let known = name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && regex_syntax::parse(&format!("\\p{{{name}}}")).is_ok();
    if known { Ok(Some(after)) } else { Err((BAD_RANGE, upto(rest, after))) }
}

const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// A class in brackets; returns the rest.
fn class(whole: &str) -> Result<&str, Fault<'_>> {
    let mut rest = &whole[1..];
    rest = rest.strip_prefix('^').unwrap_or(rest);
    let mut first = true;
    while first || !rest.starts_with(']') {
        first = false;
        if let Some(end) = rest.strip_prefix("[:").and_then(|inner| inner.find(":]")) {
            let name = &rest[2..end + 2];
            if !NAMED.contains(&name.strip_prefix('^').unwrap_or(name)) {
                return Err((BAD_RANGE, &rest[..end + 4]));
            }
            rest = &rest[end + 4..];
            continue;
        }
        if let Some(after) = property(rest)? {
            rest = after;
            continue;
        }
        if rest.starts_with('\\') && is_perl(rest[1..].chars().next()) {
            rest = &rest[2..];
            continue;
        }
        let range = rest;
        let (low, after) = member(rest, whole)?;
        rest = after;
        if rest.len() >= 2 && rest.starts_with('-') && !rest[1..].starts_with(']') {
            let (high, after) = member(&rest[1..], whole)?;
            rest = after;
            if high < low {
                return Err((BAD_RANGE, upto(range, rest)));
            }
        }
    }
    Ok(&rest[1..])
}

fn member<'p>(rest: &'p str, whole: &'p str) -> Result<(char, &'p str), Fault<'p>> {
    match rest.chars().next() {
        None => Err((NO_BRACKET, whole)),
        Some('\\') => character(rest),
        Some(letter) => Ok((letter, &rest[letter.len_utf8()..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_gos_messages() {
        for (pattern, expected) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("a)b(", "unexpected ): `a)b(`"),
            ("[a", "missing closing ]: `[a`"),
            ("x[]", "missing closing ]: `[]`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[a-\\d]", "invalid escape sequence: `\\d`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*?+", "invalid nested repetition operator: `*?+`"),
            ("a{1}{2}", "invalid nested repetition operator: `{1}{2}`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|+?", "missing argument to repetition operator: `+?`"),
            ("(?i)*", "missing argument to repetition operator: `*`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{999}){999}", "invalid repeat count: `{999}`"),
            ("(a{2}b{10}){101}", "invalid repeat count: `{101}`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("\\8", "invalid escape sequence: `\\8`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("\\Z", "invalid escape sequence: `\\Z`"),
            ("\\C", "invalid escape sequence: `\\C`"),
            ("\\xZ", "invalid escape sequence: `\\xZ`"),
            ("\\x{110000}", "invalid escape sequence: `\\x{110000`"),
            ("\\pX", "invalid character class range: `\\pX`"),
            ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            ("(?P<>a)", "invalid named capture: `(?P<>`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
            ("(?<!a)", "invalid named capture: `(?<!a)`"),
        ] {
            assert_eq!(fault(pattern), Some(format!("error parsing regexp: {expected}")), "{pattern}");
        }
    }

    #[test]
    fn valid_patterns_have_no_error() {
        for pattern in [
            "",
            "a|b",
            "^*",
            "()",
            "(|a)*",
            "a{,2}",
            "a{",
            "a{01}",
            "x{1,1000}",
            "(a{10}){100}",
            "(a{0}){1000}",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[-a]",
            "[\\d-z]",
            "\\Qa**",
            "\\Q\\E",
            "\\123",
            "\\x{10FFFF}",
            "\\pL",
            "\\p{^Greek}",
            "(?i-s:a)b",
            "(?<n>a)",
            "\\A\\z\\b",
            "[[:^word:]]",
            "é*",
            "a(?i)*",
        ] {
            assert_eq!(fault(pattern), None, "{pattern}");
        }
    }
}
