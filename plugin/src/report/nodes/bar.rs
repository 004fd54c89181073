//! Bars in a table.

/// The characters that fill an eighth of a cell, two eighths, …
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar of so many cells. More than 100 % fills it, and more than nothing shows.
pub(super) fn bar(percent: f64, cells: usize, unicode: bool) -> String {
    let (steps, empty) = if unicode { (8, '·') } else { (1, '.') };
    let filled = filled(percent, cells * steps);
    let whole = filled / steps;
    let mut bar: String = (0..whole)
        .map(|_| if unicode { '█' } else { '#' })
        .collect();
    let part = filled % steps;
    bar.extend(part.checked_sub(1).and_then(|part| EIGHTHS.get(part)));
    let used = whole + usize::from(part > 0);
    bar.extend((used..cells).map(|_| empty));
    bar
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a bar has few steps, and the share is between 0 and 1"
)]
fn filled(percent: f64, steps: usize) -> usize {
    let share = (percent / 100.0).clamp(0.0, 1.0);
    let filled = (share * steps as f64).round() as usize;
    filled.max(usize::from(percent > 0.0)).min(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_both_kinds() {
        for (percent, ascii, unicode) in [
            (0.0, "....", "····"),
            (0.1, "#...", "▏···"),
            (25.0, "#...", "█···"),
            (46.0, "##..", "█▉··"),
            (99.0, "####", "████"),
            (116.1, "####", "████"),
            (-3.0, "....", "····"),
            (f64::INFINITY, "####", "████"),
            (f64::NAN, "....", "····"),
        ] {
            assert_eq!(bar(percent, 4, false), ascii, "{percent}");
            assert_eq!(bar(percent, 4, true), unicode, "{percent}");
        }
        assert_eq!(bar(50.0, 0, true), "");
    }
}
