//! Sizes and figures as words.

use hostir::diag::count_text;

/// `512 bytes`, `1.5 KiB`, `12 MiB`.
pub(super) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = None;
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = Some(name);
    }
    match unit {
        None => count_text(bytes as usize, "byte").to_string(),
        Some(unit) => format!("{} {unit}", (value * 10.0).round() / 10.0),
    }
}

/// Two digits: `1.2e-7`, `0.04`, `120`.
pub(super) fn four_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let text = format!("{value:.1e}").replace(".0e", "e");
    match text.parse::<f64>() {
        Ok(rounded) if (0.01..10_000.0).contains(&value.abs()) => rounded.to_string(),
        _ => text,
    }
}
