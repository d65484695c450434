//! Plots as SVG: bars with the range of the rounds, and lines over a logarithmic axis.
//!
//! Black becomes the colour of the text around the plot, so that the plot can be read on a dark page too.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::records::round::MeasuredServer;
use crate::records::server::PeerServer;
use crate::stats::Spread;

/// A plot that belongs to a table.
#[derive(Clone, Debug)]
pub(crate) enum LabPlot {
    Bars(Vec<PlotBar>),
    Lines(LinePlot),
}

/// A row of a plot: the median as a bar, and the range of the rounds.
#[derive(Clone, Debug)]
pub(crate) struct PlotBar {
    pub(super) name: String,
    pub(super) spread: Spread,
    /// The median as text.
    pub(super) value: String,
    pub(super) kind: BarKind,
}

/// What a bar or a line stands for, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarKind {
    Tarpon,
    Null,
    Other,
}

/// Lines over the same axes.
#[derive(Clone, Debug)]
pub(crate) struct LinePlot {
    /// The units of the horizontal axis, which is logarithmic, and of the vertical one.
    pub(super) axes: [&'static str; 2],
    pub(super) lines: Vec<PlotLine>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlotLine {
    pub(super) name: String,
    pub(super) kind: BarKind,
    /// In the order of the horizontal axis.
    pub(super) points: Vec<(f64, f64)>,
}

impl LabPlot {
    /// Returns bars of a number of servers: those that have it.
    pub(super) fn of_servers(
        servers: &[MeasuredServer],
        spread: impl Fn(PeerServer) -> Option<Spread>,
        format: impl Fn(f64) -> String,
    ) -> Option<LabPlot> {
        let bars = servers.iter().filter_map(|measured| {
            let spread = spread(measured.server)?;
            let kind = BarKind::of(measured.server);
            Some(PlotBar { name: measured.name.clone(), spread, value: format(spread.median), kind })
        });
        let bars: Vec<PlotBar> = bars.collect();
        (!bars.is_empty()).then_some(LabPlot::Bars(bars))
    }

    /// Draws the plot. Screen readers read `label`.
    pub(super) fn svg(&self, label: &str) -> String {
        let (mut svg, height) = (String::new(), self.height());
        let drawn = {
            let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
            match self {
                LabPlot::Bars(bars) => draw_bars(&area, bars),
                LabPlot::Lines(lines) => draw_lines(&area, lines),
            }
            .and_then(|()| area.present())
        };
        drawn.expect("a string takes any text");
        let size = format!("width=\"{WIDTH}\" height=\"{height}\"");
        let label = label.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        svg.replacen(&size, &format!("role=\"img\" aria-label=\"{label}\""), 1)
            .replace("#000000", "currentColor")
    }

    fn height(&self) -> u32 {
        match self {
            LabPlot::Bars(bars) => bars.len() as u32 * ROW_HEIGHT + 4,
            LabPlot::Lines(_) => 360,
        }
    }
}

type PlotResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The area of a plot that becomes a string.
type SvgArea<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_bars(area: &SvgArea<'_>, bars: &[PlotBar]) -> PlotResult {
    let largest = bars.iter().map(|bar| bar.spread.max).fold(f64::MIN_POSITIVE, f64::max);
    let x = |number: f64| NAME_WIDTH + (number / largest * BAR_WIDTH).round() as i32;
    for (row, bar) in bars.iter().enumerate() {
        let top = row as i32 * ROW_HEIGHT as i32;
        let middle = top + ROW_HEIGHT as i32 / 2 + 2;
        let Spread { median, min, max } = bar.spread;
        area.draw(&text(&bar.name, (NAME_WIDTH - 8, middle), HPos::Right))?;
        let corners = [(NAME_WIDTH, top + 6), (x(median).max(NAME_WIDTH + 1), top + ROW_HEIGHT as i32 - 2)];
        area.draw(&Rectangle::new(corners, bar.kind.colour().filled()))?;
        area.draw(&PathElement::new([(x(min), middle), (x(max), middle)], BLACK.stroke_width(1)))?;
        for end in [min, max] {
            area.draw(&PathElement::new(
                [(x(end), middle - 3), (x(end), middle + 3)],
                BLACK.stroke_width(1),
            ))?;
        }
        area.draw(&text(&bar.value, (x(max) + 8, middle), HPos::Left))?;
    }
    Ok(())
}

fn draw_lines(area: &SvgArea<'_>, plot: &LinePlot) -> PlotResult {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let least = points().map(|(x, _)| *x).fold(f64::MAX, f64::min);
    let most = points().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let highest = points().map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d((least..most.max(least * 1.01)).log_scale(), 0.0..highest * 1.05)?;
    let [x_axis, y_axis] = plot.axes;
    chart
        .configure_mesh()
        .x_desc(x_axis)
        .y_desc(y_axis)
        .label_style(font())
        .axis_desc_style(font())
        .axis_style(BLACK)
        .bold_line_style(GREY.mix(0.35))
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|number| short(*number))
        .y_label_formatter(&|number| short(*number))
        .draw()?;
    for (number, PlotLine { name, kind, points }) in plot.lines.iter().enumerate() {
        let style = LINE_COLOURS[number % LINE_COLOURS.len()].stroke_width(if *kind == BarKind::Tarpon {
            3
        } else {
            2
        });
        // Many points would hide their line.
        let point_size = if points.len() <= POINTS_WITH_DOTS_MAX { 3 } else { 0 };
        let line =
            chart.draw_series(LineSeries::new(points.iter().copied(), style).point_size(point_size))?;
        line.label(name.clone()).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(font())
        .background_style(TRANSPARENT)
        .draw()
}

impl BarKind {
    /// Returns what the numbers of a server stand for.
    pub(super) fn of(server: PeerServer) -> BarKind {
        match server {
            server if server.is_null() => BarKind::Null,
            server if server.is_tarpon() && server.current_build().is_none() => BarKind::Tarpon,
            _ => BarKind::Other,
        }
    }

    /// Colours of Okabe and Ito, which differ without red and green too.
    fn colour(self) -> RGBColor {
        match self {
            BarKind::Tarpon => RGBColor(0, 114, 178),
            BarKind::Null => RGBColor(153, 153, 153),
            BarKind::Other => RGBColor(230, 159, 0),
        }
    }
}

const LINE_COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(153, 153, 153),
];

const GREY: RGBColor = RGBColor(128, 128, 128);

fn font() -> TextStyle<'static> {
    ("sans-serif", 14).into_font().color(&BLACK)
}

fn text(text: &str, at: (i32, i32), side: HPos) -> Text<'static, (i32, i32), String> {
    Text::new(text.to_owned(), at, font().pos(Pos::new(side, VPos::Center)))
}

/// Formats a number of an axis.
fn short(number: f64) -> String {
    match number {
        1e9.. => format!("{:.0}G", number / 1e9),
        1e6.. => format!("{:.0}M", number / 1e6),
        1e3.. => format!("{:.0}k", number / 1e3),
        10.0.. => format!("{number:.0}"),
        _ => format!("{number:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// Points of a line that have a dot each.
const POINTS_WITH_DOTS_MAX: usize = 120;

/// In pixels, before the page scales the plot.
const WIDTH: u32 = 640;
const ROW_HEIGHT: u32 = 26;
const NAME_WIDTH: i32 = 210;
const BAR_WIDTH: f64 = 260.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_medians() {
        let bar = |name: &str, median, kind| PlotBar {
            name: name.into(),
            spread: Spread { median, min: median * 0.9, max: median * 1.25 },
            value: format!("{median}"),
            kind,
        };
        let bars = vec![bar("a <b>", 100.0, BarKind::Tarpon), bar("c", 50.0, BarKind::Other)];
        let svg = LabPlot::Bars(bars).svg("requests \"per\" second");
        assert!(
            svg.starts_with("<svg role=\"img\" aria-label=\"requests &quot;per&quot; second\" viewBox="),
            "{svg}"
        );
        assert!(svg.contains("a &lt;b&gt;") && !svg.contains("#000000"), "{svg}");
        let widths: Vec<&str> =
            svg.split("<rect ").skip(1).filter_map(|rect| rect.split("width=\"").nth(1)).collect();
        let widths: Vec<&str> = widths.iter().filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(widths, ["208", "104"], "{svg}");
    }

    #[test]
    fn lines_have_axes_and_names() {
        let points = vec![(1.0, 5.0), (1_000.0, 7.0)];
        let lines = vec![PlotLine { name: "one".into(), kind: BarKind::Tarpon, points }];
        let svg = LabPlot::Lines(LinePlot { axes: ["bytes", "ns per byte"], lines }).svg("a");
        for part in ["one", "bytes", "ns per byte", "polyline"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn numbers_of_axes_are_short() {
        for (number, want) in
            [(0.0, "0"), (0.25, "0.25"), (1.5, "1.5"), (64.0, "64"), (20_000.0, "20k"), (3e6, "3M")]
        {
            assert_eq!(short(number), want);
        }
    }
}
