//! JSON pointers, and what one operation does at the place of one.

use serde_json::Value;

use super::{MAX_DEPTH, PatchError, Spent};

/// A JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    text: String,
    /// Its unescaped tokens; without any it is the whole document or, if it has a text, no place at all.
    pub tokens: Vec<String>,
}

/// Why there is no value at a pointer.
#[derive(Debug)]
pub enum Fault {
    /// Nothing holds its last token.
    Nowhere,
    /// The last token is not in the value that should have it.
    Inside(String),
    /// A limit is exceeded.
    Limit(PatchError),
}

impl From<PatchError> for Fault {
    fn from(limit: PatchError) -> Self {
        Self::Limit(limit)
    }
}

impl Fault {
    /// The error of an operation, with the words of Kubernetes' library.
    pub fn of(self, nowhere: impl Fn() -> String, inside: impl Fn() -> String) -> PatchError {
        match self {
            Self::Nowhere => PatchError::NotApplicable(format!("{}: missing value", nowhere())),
            Self::Inside(why) => PatchError::NotApplicable(format!("{}: {why}", inside())),
            Self::Limit(error) => error,
        }
    }
}

impl Pointer {
    /// Text before the first slash is ignored; without a slash the pointer is the whole document, or nowhere.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        let unescaped = |token: &str| token.replace("~1", "/").replace("~0", "~");
        let tokens: Vec<String> =
            text.split_once('/').into_iter().flat_map(|(_, rest)| rest.split('/')).map(unescaped).collect();
        if tokens.len() > MAX_DEPTH {
            return Err(PatchError::NotApplicable(format!("path is deeper than {MAX_DEPTH}")));
        }
        Ok(Self { text: text.to_owned(), tokens })
    }

    fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    pub fn last(&self) -> &str {
        self.tokens.last().map_or("", String::as_str)
    }

    /// `None` for a missing member of an object; any other missing value is an error.
    pub fn get<'a>(&self, target: &'a Value) -> Result<Option<&'a Value>, Fault> {
        let Some((last, before)) = self.tokens.split_last() else { return Err(Fault::Nowhere) };
        let step = |value: &'a Value, token: &String| match value {
            Value::Object(map) => map.get(token),
            Value::Array(items) => items.get(index(token, items.len()).ok()?),
            _ => None,
        };
        match before.iter().try_fold(target, step) {
            Some(Value::Object(map)) => Ok(map.get(last)),
            Some(Value::Array(items)) => Ok(items.get(index(last, items.len())?)),
            _ => Err(Fault::Nowhere),
        }
    }

    /// The value that holds the last token, and that token.
    fn parent<'a, 't>(&'t self, target: &'a mut Value) -> Result<(&'a mut Value, &'t str), Fault> {
        let Some((last, before)) = self.tokens.split_last() else { return Err(Fault::Nowhere) };
        let mut value = target;
        for token in before {
            value = match value {
                Value::Object(map) => map.get_mut(token),
                Value::Array(items) => index(token, items.len()).ok().and_then(|i| items.get_mut(i)),
                _ => None,
            }
            .ok_or(Fault::Nowhere)?;
        }
        Ok((value, last))
    }

    fn check_depth(&self, levels: usize) -> Result<(), PatchError> {
        if self.tokens.len() + levels > MAX_DEPTH {
            return Err(PatchError::NotApplicable(format!("the result is deeper than {MAX_DEPTH}")));
        }
        Ok(())
    }

    pub fn add(&self, target: &mut Value, value: Value, spent: &mut Spent) -> Result<(), Fault> {
        let (levels, nodes) = measure(&value);
        spent.work(nodes)?;
        self.check_depth(levels)?;
        match self.parent(target)? {
            (Value::Object(map), token) => {
                map.insert(token.to_owned(), value);
            }
            (Value::Array(items), "-") => items.push(value),
            // One more place than there are items.
            (Value::Array(items), token) => {
                let number = number(token)
                    .map_err(|why| Fault::Inside(format!("value was not a proper array index: '{token}': {why}")))?;
                let at = place(number, items.len() + 1)?;
                spent.work(items.len() - at)?;
                items.insert(at, value);
            }
            _ => return Err(Fault::Nowhere),
        }
        Ok(())
    }

    pub fn replace(&self, target: &mut Value, value: Value) -> Result<(), Fault> {
        self.check_depth(measure(&value).0)?;
        if self.is_root() {
            if !value.is_object() && !value.is_array() {
                return Err(PatchError::NotApplicable("a document is an object or an array".to_owned()).into());
            }
            *target = value;
            return Ok(());
        }
        match self.parent(target)? {
            (Value::Object(map), token) => {
                map.insert(token.to_owned(), value);
            }
            (Value::Array(items), token) => {
                let at = index(token, items.len())?;
                items[at] = value;
            }
            _ => return Err(Fault::Nowhere),
        }
        Ok(())
    }

    pub fn remove(&self, target: &mut Value, spent: &mut Spent) -> Result<Value, Fault> {
        match self.parent(target)? {
            (Value::Object(map), token) => {
                let missing = || Fault::Inside(format!("Unable to remove nonexistent key: {token}: missing value"));
                map.remove(token).ok_or_else(missing)
            }
            (Value::Array(items), token) => {
                let at = index(token, items.len())?;
                spent.work(items.len() - at)?;
                Ok(items.remove(at))
            }
            _ => Err(Fault::Nowhere),
        }
    }

    pub fn test(&self, target: &Value, expected: &Value) -> Result<(), PatchError> {
        let actual = if self.is_root() { Ok(Some(target)) } else { self.get(target) };
        let actual = actual.map_err(|fault| {
            let missing = || format!("test operation does not apply: is missing path: {self}");
            fault.of(missing, || format!("error in test for path: '{self}'"))
        })?;
        if actual.unwrap_or(&Value::Null) == expected {
            return Ok(());
        }
        Err(PatchError::TestFailed(self.text.clone()))
    }
}

impl std::fmt::Display for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The place in an array of so many items that a token means.
fn index(token: &str, count: usize) -> Result<usize, Fault> {
    place(number(token).map_err(Fault::Inside)?, count)
}

/// A number as Go reads it.
fn number(token: &str) -> Result<i64, String> {
    let digits = token.strip_prefix(['+', '-']).unwrap_or(token);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    token.parse::<i64>().ok().filter(|_| is_number).ok_or_else(|| {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.Atoi: parsing {token:?}: {why}")
    })
}

/// The place of a number, which is counted from the end where it is negative.
fn place(number: i64, count: usize) -> Result<usize, Fault> {
    let at = if number < 0 { number.checked_add_unsigned(count as u64) } else { Some(number) };
    let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < count);
    at.ok_or_else(|| Fault::Inside(format!("Unable to access invalid index: {number}: invalid index referenced")))
}

/// Levels of containers, and values in all. Recursion is bounded because no value in a document is deeper than
/// [`MAX_DEPTH`].
fn measure(value: &Value) -> (usize, usize) {
    let join = |(levels, nodes): (usize, usize), item| {
        let (deeper, more) = measure(item);
        (levels.max(deeper + 1), nodes + more)
    };
    match value {
        Value::Array(items) => items.iter().fold((1, 1), join),
        Value::Object(map) => map.values().fold((1, 1), join),
        _ => (0, 1),
    }
}
