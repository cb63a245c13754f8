//! The chart: one bar per contender, least and median.

use super::measure::Times;

/// Start-up as an SVG.
pub fn bars(all: &[Times]) -> String {
    const LEFT: f64 = 170.0;
    const WIDTH: f64 = 520.0;
    const ROW: f64 = 34.0;
    let longest = all
        .iter()
        .map(|times| times.median().as_secs_f64())
        .fold(0.0, f64::max);
    let height = ROW * all.len() as f64 + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\">Start-up of /bin/true, unprivileged: median (light) and least (dark), µs</text>\n",
        LEFT + WIDTH + 110.0
    );
    for (row, times) in all.iter().enumerate() {
        let y = 40.0 + ROW * row as f64;
        let scale = |time: f64| WIDTH * time / longest;
        let (light, dark) = if times.name == "sjail" {
            ("#f4a261", "#d1495b")
        } else {
            ("#a8c5da", "#30638e")
        };
        svg += &format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"22\" fill=\"{light}\"/>\n\
             <rect x=\"{LEFT}\" y=\"{:.0}\" width=\"{:.1}\" height=\"8\" fill=\"{dark}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.0}\">{}</text>\n",
            LEFT - 8.0,
            y + 16.0,
            times.name,
            scale(times.median().as_secs_f64()),
            y + 7.0,
            scale(times.least().as_secs_f64()),
            LEFT + scale(times.median().as_secs_f64()) + 6.0,
            y + 16.0,
            times.median().as_micros(),
        );
    }
    svg + "</svg>\n"
}
