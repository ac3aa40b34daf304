//! A query under construction.

use super::query_value;

/// The query of a URL, with its `?` unless it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(String);

impl Query {
    /// Adds a parameter, whose name needs no escapes.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(query_value(value));
        self
    }

    /// Adds a parameter unless it is absent or empty.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) if !value.is_empty() => self.with(name, value),
            _ => self,
        }
    }

    /// The path with this query.
    pub fn after(&self, path: &str) -> String {
        [path, &self.0].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        assert_eq!(Query::default().after("/p"), "/p");
        let query = Query::default().with("labelSelector", "a=b,c in (d)").with_some("continue", Some(""));
        let query = query.with_some("limit", None).with_some("name", Some("ä.~_-%"));
        assert_eq!(query.after("/p"), "/p?labelSelector=a%3Db%2Cc%20in%20%28d%29&name=%C3%A4.~_-%25");
    }
}
