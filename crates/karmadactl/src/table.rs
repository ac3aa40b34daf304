//! kubectl's table layout: columns padded to the widest cell plus three blanks, no borders.

use std::fmt::Write as _;

/// Gap between columns; `k8s.io/cli-runtime` sets its tab writer to the same.
const GAP: usize = 3;

/// Lays out lines of cells. It remembers its columns' widths, so that a watch stays aligned with what was printed.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    widths: Vec<usize>,
}

impl Layout {
    /// A line may be shorter than others; its last cell is never padded.
    pub fn render(&mut self, lines: &[Vec<String>]) -> String {
        for line in lines {
            self.widths.resize(self.widths.len().max(line.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = String::new();
        for line in lines {
            for (position, cell) in line.iter().enumerate() {
                out.push_str(cell);
                if position + 1 < line.len() {
                    let pad = self.widths[position] - cell.chars().count() + GAP;
                    let _ = write!(out, "{:pad$}", "");
                }
            }
            out.push('\n');
        }
        out
    }
}

/// A cell's first line, without what would steer the terminal.
pub fn printable(text: &str) -> String {
    let (first, more) = match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => (&text[..end], true),
        None => (text, false),
    };
    let mut shown = String::with_capacity(first.len());
    for c in first.chars() {
        match c {
            '\u{1b}' => shown.push_str("^["),
            c if c.is_control() => shown.push(' '),
            c => shown.push(c),
        }
    }
    if more {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_align_as_kubectl_prints_them() {
        let line = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let mut layout = Layout::default();
        let lines = [line(&["NAME", "CLUSTER", "READY"]), line(&["nginx", "Karmada", "0/2"]), line(&["a", "m", "1/1"])];
        expect![[r#"
            NAME    CLUSTER   READY
            nginx   Karmada   0/2
            a       m         1/1
        "#]]
        .assert_eq(&layout.render(&lines));
        assert_eq!(layout.render(&[line(&["b", "m", "2/2"])]), "b       m         2/2\n");
    }

    #[test]
    fn cells_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\tc"), "a^[[31mb c");
        assert_eq!(printable("first\nsecond"), "first...");
    }
}
