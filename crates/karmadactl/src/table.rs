//! kubectl's table layout: upper-case headings, columns padded to the widest cell plus three blanks, no borders.

use std::fmt::Write as _;

/// Gap between columns; `k8s.io/cli-runtime` sets its tab writer to the same.
const GAP: usize = 3;

/// Lays out headings and rows. A row may be shorter than the headings; the last cell of a line is never padded.
pub fn render(headings: Option<&[String]>, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).chain(headings.map(<[String]>::len)).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in headings.into_iter().chain(rows.iter().map(Vec::as_slice)) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in headings.into_iter().chain(rows.iter().map(Vec::as_slice)) {
        for (position, cell) in row.iter().enumerate() {
            if position + 1 == row.len() {
                out.push_str(cell);
            } else {
                let pad = widths[position] - cell.chars().count() + GAP;
                let _ = write!(out, "{cell}{:pad$}", "");
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_align_as_kubectl_prints_them() {
        let text = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let rows = [text(&["nginx", "Karmada", "0/2", "-"]), text(&["nginx", "member1", "1/1", "Y"])];
        expect![[r#"
            NAME    CLUSTER   READY   ADOPTION
            nginx   Karmada   0/2     -
            nginx   member1   1/1     Y
        "#]]
        .assert_eq(&render(Some(&text(&["NAME", "CLUSTER", "READY", "ADOPTION"])), &rows));
    }
}
