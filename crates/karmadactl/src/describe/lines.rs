//! Lines of cells, aligned as Go's tabwriter does.

use serde_json::Value;

use crate::table::{cut, printable};

/// Longer annotations begin on a new line, and are cut there.
const LONG: usize = 140;

/// Lines of cells: a column ends at a line that lacks it.
#[derive(Debug, Default)]
pub struct Lines(Vec<Vec<String>>);

impl Lines {
    pub fn pair(&mut self, level: usize, label: &str, value: &str) {
        self.0.push(vec![format!("{}{label}", "  ".repeat(level)), value.to_owned()]);
    }

    pub fn plain(&mut self, level: usize, text: &str) {
        self.0.push(vec![format!("{}{text}", "  ".repeat(level))]);
    }

    pub fn cells(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    /// A line whose cells are separated by tabs; terminal control characters are removed.
    pub fn text(&mut self, level: usize, text: &str) {
        let mut cells: Vec<String> = text.split('\t').map(printable).collect();
        cells[0].insert_str(0, &"  ".repeat(level));
        self.0.push(cells);
    }

    /// A map, with its label on the first line only.
    pub fn map(&mut self, level: usize, label: &str, map: &Value, sign: &str) {
        let Some(map) = map.as_object().filter(|map| !map.is_empty()) else {
            return self.pair(level, label, "<none>");
        };
        let mut label = label;
        for (key, value) in map {
            // kubectl leaves out the record of client-side apply.
            if key == crate::apply::LAST_APPLIED {
                continue;
            }
            let value = apimachinery::jsonpath::shown(value);
            let value = value.strip_suffix('\n').unwrap_or(&value);
            let is_long = key.len() + value.len() + 2 > LONG || value.contains('\n');
            if sign == ": " && is_long {
                self.pair(level, label, &format!("{key}:"));
                for line in value.split('\n').map(printable) {
                    self.pair(level, "", &format!("  {}", cut(&line, LONG - 2)));
                }
            } else {
                self.pair(level, label, &format!("{key}{sign}{}", printable(value)));
            }
            label = "";
        }
        if !label.is_empty() {
            self.pair(level, label, "<none>");
        }
    }

    pub fn render(&self) -> String {
        let mut widths: Vec<Vec<usize>> =
            self.0.iter().map(|cells| cells.iter().map(|cell| cell.chars().count()).collect()).collect();
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        (0..columns).for_each(|column| self.align(column, &mut widths));
        let mut text = String::new();
        for (cells, widths) in self.0.iter().zip(&widths) {
            for (position, cell) in cells.iter().enumerate() {
                text.push_str(cell);
                if position + 1 < cells.len() {
                    text.push_str(&" ".repeat(widths[position] - cell.chars().count() + 2));
                }
            }
            text.push('\n');
        }
        text
    }

    /// Gives the cells of a column one width in each run of lines that have it. Only a cell that another follows
    /// belongs to a column.
    fn align(&self, column: usize, widths: &mut [Vec<usize>]) {
        let has = |line: usize| self.0[line].len() > column + 1;
        let mut start = 0;
        while start < self.0.len() {
            if !has(start) {
                start += 1;
                continue;
            }
            let end = (start..self.0.len()).find(|line| !has(*line)).unwrap_or(self.0.len());
            let width = (start..end).map(|line| widths[line][column]).max().unwrap_or_default();
            (start..end).for_each(|line| widths[line][column] = width);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_annotations_are_cut() {
        let mut lines = Lines::default();
        let annotations = json!({"a": "x".repeat(200), "b": "1\n2\n", "c": "y".repeat(137), "d": "y".repeat(138)});
        lines.map(0, "A:", &annotations, ": ");
        let indent = "    ";
        let expected = [
            "A:  a:".to_owned(),
            format!("{indent}  {}...", "x".repeat(138)),
            format!("{indent}b:"),
            format!("{indent}  1"),
            format!("{indent}  2"),
            format!("{indent}c: {}", "y".repeat(137)),
            format!("{indent}d:"),
            format!("{indent}  {}", "y".repeat(138)),
        ];
        assert_eq!(lines.render().lines().collect::<Vec<_>>(), expected);
    }
}
