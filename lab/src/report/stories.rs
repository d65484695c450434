//! The report of stories: a row for each row of their tables, and what became of their lessons.

use super::phrases;
use super::table::{LabReport, NONE, ReportColumn, ReportTable, median, min_max};
use crate::format::{rate, thousands};
use crate::records::stories::{MeasuredRow, StoriesRecord, StoryLesson, StoryResult};
use crate::stats::Spread;

/// Returns the report.
pub(super) fn report(stories: &StoriesRecord) -> LabReport {
    let rows = stories.rows.iter().map(|measured| row(stories, measured)).collect();
    let lessons = StoryLesson::ALL.iter().map(|lesson| lesson_row(stories, lesson)).collect();
    LabReport {
        tables: vec![
            (Some("Loads".to_owned()), ReportTable { columns: COLUMNS, rows, plot: None }),
            (Some("Lessons".to_owned()), ReportTable { columns: LESSONS, rows: lessons, plot: None }),
        ],
        caption: caption(stories),
        command: stories.command.clone(),
    }
}

const COLUMNS: &[ReportColumn] = &[
    ("story", Some("story")),
    ("load", Some("load")),
    ("server", Some("server")),
    ("published", Some("published requests/s")),
    ("req/s", Some("requests/s")),
    ("range", Some("range")),
    ("p50 ms", Some("p50, ms")),
    ("p99 ms", Some("p99, ms")),
];

fn row(stories: &StoriesRecord, MeasuredRow { row, results }: &MeasuredRow) -> Vec<String> {
    let name =
        stories.servers.iter().find(|measured| measured.server == row.server).map(|measured| &measured.name);
    let rates = stories.rate(row);
    let times = |time: fn(&StoryResult) -> Option<f64>| Spread::of(results.iter().filter_map(time));
    let ms = |ms: f64| format!("{ms:.2}");
    vec![
        row.story.to_string(),
        format!("`{}`", row.load),
        name.cloned().unwrap_or_default(),
        row.published.map_or(NONE.into(), |count| thousands(count as usize)),
        median(rates, rate),
        min_max(rates, rate),
        median(times(|result| result.p50_ms), ms),
        median(times(|result| result.p99_ms), ms),
    ]
}

const LESSONS: &[ReportColumn] = &[
    ("lesson", Some("lesson")),
    ("published", Some("gain, published")),
    ("measured", Some("gain here")),
    ("verdict", Some("verdict")),
];

fn lesson_row(stories: &StoriesRecord, lesson: &StoryLesson) -> Vec<String> {
    let verdict = stories.verdict(lesson);
    let times = |gain: f64| format!("×{gain:.1}");
    vec![
        format!("{}: {}", lesson.story, lesson.text),
        times(verdict.published),
        verdict.measured.map_or(NONE.into(), times),
        verdict.words().to_owned(),
    ]
}

fn caption(stories: &StoriesRecord) -> String {
    let settings = &stories.settings;
    let plural = if settings.rounds == 1 { "" } else { "s" };
    format!(
        "Medians of {} round{plural}. Each load runs for {} s (30 s in its story), or has the number of requests of its story; any other response than a \
         whole one with status 200 fails the experiment. The naive servers stand for those of the stories: they fork for each request, as these \
         did. The gains compare, and not the rates: the stories had other machines, with more cores. The pool of fsrv had 8 processes; tarpon's prefork has \
         64. A lesson is reproduced if its gain is at least half of the published one. The server has a core, and the client another one, {}. {}.",
        settings.rounds,
        settings.seconds,
        phrases::isolation_with_usual_policy(settings.isolated),
        stories.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::machine::MachineInfo;
    use crate::records::round::MeasuredServer;
    use crate::records::stories::{StoriesSettings, StoryRow};

    #[test]
    fn rows_stand_beside_the_published_ones() {
        let text = report(&stories()).markdown();
        let row =
            "| simple_server | `hey -c 8 -disable-keepalive` | naive | 229 | 200 | 100–300 | 2.00 | – |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| ×10.7 | – | not decided: a server is missing |"), "{text}");
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Stories(stories());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    fn stories() -> StoriesRecord {
        let row = StoryRow::ALL[0];
        let results = [100.0, 200.0, 300.0].map(|rate| StoryResult { rate, p50_ms: Some(2.0), p99_ms: None });
        StoriesRecord {
            command: "tarpon-lab stories".into(),
            machine: MachineInfo::example(),
            settings: StoriesSettings {
                rounds: 3,
                seconds: 5,
                server_core: 0,
                client_core: 1,
                isolated: true,
            },
            servers: vec![MeasuredServer { server: row.server, name: "naive".into() }],
            rows: vec![MeasuredRow { row, results: results.into() }],
        }
    }
}
