//! kubectl's table layout: columns padded to the widest cell plus three blanks, no borders. On a terminal, cells that
//! do not fit its width are shortened; a pipe or a file gets them whole.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Gap between columns; `k8s.io/cli-runtime` sets its tab writer to the same.
const GAP: usize = 3;
/// The minimum width of a column of kubectl's tab writer, without the gap.
const NARROWEST_COLUMN: usize = 3;
/// The minimum width of a shortened cell, unless its heading is longer.
const LEAST: usize = 8;
/// A last cell is broken where it has at least this many characters a line.
const NARROWEST: usize = 20;
/// Columns whose cells are names that people copy into other commands; like the first column, they stay whole.
const WHOLE: [&str; 4] = ["NAME", "NAMESPACE", "CLUSTER", "WORKLOAD"];

/// Lays out lines of cells. It stores column widths, so that a watch stays aligned with earlier output.
#[derive(Clone, Debug)]
pub struct Layout {
    widths: Vec<usize>,
    /// No column is narrower.
    least: usize,
    gap: usize,
    terminal: Option<Terminal>,
    /// The columns at which the last cell of a line is broken.
    broken: Option<usize>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { widths: Vec::new(), least: 0, gap: GAP, terminal: None, broken: None }
    }
}

/// The terminal that a table is fitted to.
#[derive(Clone, Debug)]
struct Terminal {
    columns: usize,
    /// How far each column of the table may be shortened; `None`: not at all.
    least: Vec<Option<usize>>,
}

impl Layout {
    /// A table that is shortened to `columns` characters a line if there are so few; `headings` name its columns.
    pub fn fitting(columns: Option<usize>, headings: &[String]) -> Self {
        let least = |(position, heading): (usize, &String)| {
            let is_whole = position == 0 || WHOLE.contains(&heading.as_str());
            (!is_whole).then(|| heading.chars().count().max(LEAST))
        };
        let terminal =
            columns.map(|columns| Terminal { columns, least: headings.iter().enumerate().map(least).collect() });
        Self { terminal, ..Self::default() }
    }

    /// A table whose columns are as wide as kubectl's even for the shortest cells.
    pub fn of_columns() -> Self {
        Self { least: NARROWEST_COLUMN, ..Self::default() }
    }

    /// A table whose last cells wrap at `columns`, so that no text is cut.
    pub fn breaking(columns: Option<usize>) -> Self {
        Self { broken: columns, ..Self::default() }
    }

    /// A label and its text, separated only by the label's padding.
    pub fn labelled(columns: Option<usize>) -> Self {
        Self { gap: 0, ..Self::breaking(columns) }
    }

    /// A line may be shorter than others; its last cell is never padded.
    pub fn render(&mut self, lines: &[Vec<String>]) -> String {
        for line in lines {
            self.widths.resize(self.widths.len().max(line.len()), self.least);
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let widths = match &self.terminal {
            Some(terminal) => fitted(&self.widths, &terminal.least, terminal.columns),
            None => self.widths.clone(),
        };
        let mut out = String::new();
        for line in lines {
            for (position, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                let length = cell.chars().count();
                if position + 1 == line.len() && self.broken.is_some() {
                    self.last(&mut out, cell, position);
                } else if length > width {
                    out.extend(cell.chars().take(width.saturating_sub(1)));
                    out.push('…');
                } else {
                    out.push_str(cell);
                }
                if position + 1 < line.len() {
                    let pad = width.saturating_sub(length) + self.gap;
                    let _ = write!(out, "{:pad$}", "");
                }
            }
            out.push('\n');
        }
        out
    }
}

impl Layout {
    fn last(&self, out: &mut String, cell: &str, position: usize) {
        let begin: usize = self.widths[..position].iter().map(|width| width + self.gap).sum();
        let available_width = self
            .broken
            .and_then(|columns| columns.checked_sub(begin))
            .filter(|available_width| *available_width >= NARROWEST);
        let Some(available_width) = available_width else { return out.push_str(cell) };
        for (index, piece) in pieces(cell, available_width).into_iter().enumerate() {
            if index > 0 {
                let _ = write!(out, "\n{:begin$}", "");
            }
            out.push_str(piece);
        }
    }
}

/// A text in pieces of at most `available_width` characters, broken between words where possible.
fn pieces(text: &str, available_width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(available_width) {
        // A blank right behind the piece ends it too.
        let after = end + rest[end..].chars().next().map_or(0, char::len_utf8);
        let blank = rest[..after].rfind(' ').filter(|at| *at > 0);
        let (piece, more) = match blank {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => rest.split_at(end),
        };
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// The widths of a table of at most `columns` characters: no column exceeds a common limit, as high as possible, or its
/// minimum width. If the table is still too wide, minimum widths are used, and the terminal wraps the lines.
fn fitted(widths: &[usize], least: &[Option<usize>], columns: usize) -> Vec<usize> {
    let limited = |limit: usize| -> Vec<usize> {
        let one = |(position, &width): (usize, &usize)| match least.get(position).copied().flatten() {
            Some(least) => width.min(limit.max(least)),
            None => width,
        };
        widths.iter().enumerate().map(one).collect()
    };
    let available_width = columns.saturating_sub(GAP * widths.len().saturating_sub(1));
    // Cells may have many thousand characters: the limit is searched by halves.
    let (mut fits, mut too_wide) = (0, widths.iter().copied().max().unwrap_or(0) + 1);
    while too_wide - fits > 1 {
        let middle = fits.midpoint(too_wide);
        let is_fitting = limited(middle).iter().sum::<usize>() <= available_width;
        *(if is_fitting { &mut fits } else { &mut too_wide }) = middle;
    }
    limited(fits)
}

/// At most so many characters of a text, and then an ellipsis.
pub fn cut(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

/// The first line of a cell, without terminal control characters.
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
    fn the_widest_columns_are_shortened_first() {
        let check = |columns: usize, widths: &[usize], least: &[Option<usize>], expected: &[usize]| {
            assert_eq!(fitted(widths, least, columns), expected, "{widths:?} in {columns}");
        };
        let free = [None, Some(8), Some(8)];
        check(80, &[10, 20, 30], &free, &[10, 20, 30]);
        check(60, &[10, 20, 30], &free, &[10, 20, 24]);
        check(46, &[10, 20, 30], &free, &[10, 15, 15]);
        check(46, &[10, 20, 100_000], &free, &[10, 15, 15]);
        check(20, &[10, 20, 30], &free, &[10, 8, 8]);
        check(20, &[40, 5, 30], &free, &[40, 5, 8]);
        check(10, &[40], &[None], &[40]);
        check(0, &[], &[], &[]);
        // Lines with more cells than headings.
        check(20, &[10, 20, 30], &[None], &[10, 20, 30]);
    }

    #[test]
    fn names_stay_whole_on_a_narrow_terminal() {
        let line = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let headings = line(&["NAME", "CLUSTER", "IMAGES", "SELECTOR"]);
        let row = line(&["a-rather-long-name", "member1", "registry.example/shop/web:1.2.3", "app=web,tier=front"]);
        let lines = [headings.clone(), row.clone()];
        let shown = |columns| Layout::fitting(columns, &headings).render(&lines);
        expect![[r#"
            NAME                 CLUSTER   IMAGES               SELECTOR
            a-rather-long-name   member1   registry.example/…   app=web,tier=front
        "#]]
        .assert_eq(&shown(Some(70)));
        assert_eq!(shown(None), Layout::default().render(&lines));
        // A watch continues with the same columns.
        let mut layout = Layout::fitting(Some(70), &headings);
        layout.render(&lines);
        let first = layout.render(std::slice::from_ref(&row));
        assert_eq!(Some(first.as_str()), shown(Some(70)).split_inclusive('\n').nth(1));
    }

    #[test]
    fn last_cells_are_broken_where_a_terminal_ends() {
        let rows =
            |text: &str| vec![["NAME", "WHY"].map(str::to_owned).to_vec(), vec!["web".to_owned(), text.to_owned()]];
        let text = "no policy selects the workload, which stays where it is";
        let narrow = Layout::breaking(Some(30)).render(&rows(text));
        expect![[r#"
            NAME   WHY
            web    no policy selects the
                   workload, which stays
                   where it is
        "#]]
        .assert_eq(&narrow);
        for columns in [None, Some(200), Some(10)] {
            let whole = Layout::breaking(columns).render(&rows(text));
            assert_eq!(whole, format!("NAME   WHY\nweb    {text}\n"), "{columns:?}");
        }
        for available_width in 1..12 {
            for text in ["", "a", "a bb ccc dddd eeeee", "ééééé ééé", "aaaaaaaaaaaaaaaaaaaaaa", " a", "a "] {
                let pieces = pieces(text, available_width);
                assert!(pieces.iter().all(|piece| piece.chars().count() <= available_width), "{pieces:?}");
                let letters = |text: &str| text.replace(' ', "");
                assert_eq!(letters(&pieces.concat()), letters(text));
            }
        }
    }

    #[test]
    fn cells_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\tc"), "a^[[31mb c");
        assert_eq!(printable("first\nsecond"), "first...");
    }
}
