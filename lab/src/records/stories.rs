//! The record of stories: the loads of published stories, with the programs that they used, beside their figures.
//!
//! The figures are constants here, because no experiment of the lab measures them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::round::MeasuredServer;
use super::server::PeerServer;
use crate::stats::Spread;

/// All numbers of an experiment with stories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoriesRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: StoriesSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of [`StoryRow::ALL`], without servers that are not installed.
    pub(crate) rows: Vec<MeasuredRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoriesSettings {
    pub(crate) rounds: u32,
    /// How long a load lasts that has no number of requests; 30 in the story.
    pub(crate) seconds: u32,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) isolated: bool,
}

/// The stories that the lab repeats with their own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Story {
    /// `simple_server`, in C: a page of 137 bytes.
    SimpleServer,
    /// `fsrv`, in C: a process for each request, and a pool of processes.
    FileServer,
    /// The case study of a book: nginx, tuned step by step.
    CaseStudy,
    /// A server in C++ that was rewritten in stages, and answers from a function.
    StagedServer,
}

impl Story {
    /// Returns the length of the page in bytes.
    pub(crate) fn page_len(self) -> usize {
        match self {
            Story::SimpleServer => 137,
            // The story serves the program itself, and does not tell its length.
            Story::FileServer => 20 << 10,
            // The length of the reads of its disk.
            Story::CaseStudy => 4 << 10,
            // "Hello world"
            Story::StagedServer => 12,
        }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Story::SimpleServer => "simple_server",
            Story::FileServer => "fsrv",
            Story::CaseStudy => "case study",
            Story::StagedServer => "staged server",
        })
    }
}

/// A load as a story generates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoryLoad {
    /// `hey -c 8`
    Hey,
    /// `hey -c 8 -disable-keepalive`
    HeyClosed,
    /// `wrk -t8 -c8`
    Wrk,
    /// `wrk -t12 -c400`
    WrkCaseStudy,
    /// `wrk -t8 -c1000`: its warm-up
    WrkWarmUp,
    /// `wrk -t8 -c10000`: its baseline
    WrkMany,
    /// `wrk -t4 -c5000`, with a head of 4 KiB
    WrkHeads,
    /// `ab -n 8000 -c 10`
    Ab,
    /// `ab -n 800 -c 10`: a tenth of the story's requests, for a server that needs minutes for all
    AbTenth,
    /// `ab -n 300 -c 4`
    AbFew,
}

impl fmt::Display for StoryLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoryLoad::Hey => "hey -c 8",
            StoryLoad::HeyClosed => "hey -c 8 -disable-keepalive",
            StoryLoad::Wrk => "wrk -t8 -c8",
            StoryLoad::WrkCaseStudy => "wrk -t12 -c400",
            StoryLoad::WrkWarmUp => "wrk -t8 -c1000",
            StoryLoad::WrkMany => "wrk -t8 -c10000",
            StoryLoad::WrkHeads => "wrk -t4 -c5000, heads of 4 KiB",
            StoryLoad::Ab => "ab -n 8000 -c 10",
            StoryLoad::AbTenth => "ab -n 800 -c 10",
            StoryLoad::AbFew => "ab -n 300 -c 4",
        })
    }
}

/// A row of a story's table, and the server that stands for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoryRow {
    pub(crate) story: Story,
    pub(crate) server: PeerServer,
    pub(crate) load: StoryLoad,
    /// Requests per second of the story's server, if there is one in its place.
    pub(crate) published: Option<u32>,
}

impl StoryRow {
    /// All rows: those of the stories, and behind each of them the same load on tarpon.
    #[rustfmt::skip]
    pub(crate) const ALL: [StoryRow; 27] = {
        use PeerServer::{Apache, FunctionRust, NaiveDatabase, NaiveFiles, NaiveProgram, Nginx, Python, TarponEpoll, TarponFork, TarponPrefork, TarponUring};
        use Story::{CaseStudy, FileServer, SimpleServer, StagedServer};
        use StoryLoad::{Ab, AbFew, AbTenth, Hey, HeyClosed, Wrk, WrkCaseStudy, WrkHeads, WrkMany, WrkWarmUp};
        const fn row(story: Story, server: PeerServer, load: StoryLoad, published: Option<u32>) -> StoryRow {
            StoryRow { story, server, load, published }
        }
        [
            row(SimpleServer, NaiveDatabase, HeyClosed, Some(229)),
            row(SimpleServer, NaiveFiles,    HeyClosed, Some(2_451)),
            row(SimpleServer, TarponFork,    HeyClosed, None),
            row(SimpleServer, TarponEpoll,   HeyClosed, None),
            row(SimpleServer, TarponUring,   HeyClosed, None),
            row(SimpleServer, Nginx,         Hey,       Some(107_162)),
            row(SimpleServer, TarponUring,   Hey,       None),
            row(SimpleServer, Nginx,         Wrk,       Some(126_395)),
            row(SimpleServer, TarponUring,   Wrk,       None),
            row(FileServer,   Python,        AbFew,     Some(148)),
            row(FileServer,   Apache,        Ab,        Some(4_111)),
            row(FileServer,   NaiveProgram,  AbTenth,   Some(355)),
            row(FileServer,   NaiveFiles,    Ab,        Some(3_120)),
            row(FileServer,   TarponFork,    Ab,        Some(3_120)),
            row(FileServer,   TarponPrefork, Ab,        Some(7_257)),
            row(FileServer,   TarponEpoll,   Ab,        None),
            row(FileServer,   TarponUring,   Ab,        None),
            row(CaseStudy,    Nginx,         WrkCaseStudy, Some(56_789)),
            row(CaseStudy,    TarponEpoll,   WrkCaseStudy, None),
            row(CaseStudy,    TarponUring,   WrkCaseStudy, None),
            row(StagedServer, FunctionRust,  WrkWarmUp, Some(58_248)),
            row(StagedServer, TarponUring,   WrkWarmUp, None),
            row(StagedServer, FunctionRust,  WrkMany,   Some(44_944)),
            row(StagedServer, TarponUring,   WrkMany,   None),
            row(StagedServer, FunctionRust,  WrkHeads,  Some(34_930)),
            row(StagedServer, TarponUring,   WrkHeads,  None),
            row(StagedServer, Nginx,         WrkHeads,  None),
        ]
    };
}

/// The measurements of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuredRow {
    pub(crate) row: StoryRow,
    /// What the program printed, in each round.
    pub(crate) results: Vec<StoryResult>,
}

/// The numbers that the program of a load has printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoryResult {
    pub(crate) rate: f64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

/// A lesson of a story: one server is so many times as fast as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoryLesson {
    pub(crate) text: &'static str,
    pub(crate) story: Story,
    pub(crate) before: PeerServer,
    pub(crate) after: PeerServer,
}

impl StoryLesson {
    pub(crate) const ALL: [StoryLesson; 3] = [
        StoryLesson {
            text: "no database of types is loaded for each request",
            story: Story::SimpleServer,
            before: PeerServer::NaiveDatabase,
            after: PeerServer::NaiveFiles,
        },
        StoryLesson {
            text: "no program is asked for the type of a file",
            story: Story::FileServer,
            before: PeerServer::NaiveProgram,
            after: PeerServer::NaiveFiles,
        },
        StoryLesson {
            text: "a pool of processes is ahead of Apache httpd",
            story: Story::FileServer,
            before: PeerServer::Apache,
            after: PeerServer::TarponPrefork,
        },
    ];
}

/// What became of a lesson.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LessonVerdict {
    /// How many times as fast, in the story.
    pub(crate) published: f64,
    /// The same here. `None`: a server of it is missing.
    pub(crate) measured: Option<f64>,
}

impl LessonVerdict {
    /// Returns the verdict in words: reproduced if the gain is at least half of the published one.
    pub(crate) fn words(self) -> &'static str {
        let half = 1.0 + (self.published - 1.0) / 2.0;
        match self.measured {
            None => "not decided: a server is missing",
            Some(gain) if gain >= half => "reproduced",
            Some(gain) if gain > 1.0 => "reproduced in part",
            Some(_) => "not reproduced",
        }
    }
}

impl StoriesRecord {
    /// Returns the requests per second of a row over the rounds.
    pub(crate) fn rate(&self, row: &StoryRow) -> Option<Spread> {
        let measured = self.rows.iter().find(|measured| measured.row == *row)?;
        Spread::of(measured.results.iter().map(|result| result.rate))
    }

    /// Returns what became of a lesson.
    pub(crate) fn verdict(&self, lesson: &StoryLesson) -> LessonVerdict {
        let row = |server| {
            let is_wanted = |row: &&StoryRow| {
                row.story == lesson.story && row.server == server && row.published.is_some()
            };
            StoryRow::ALL.iter().find(is_wanted).expect("each lesson has its rows")
        };
        let [before, after] = [row(lesson.before), row(lesson.after)];
        let published = |row: &StoryRow| f64::from(row.published.expect("it was looked for"));
        let measured =
            self.rate(after).zip(self.rate(before)).map(|(after, before)| after.median / before.median);
        LessonVerdict { published: published(after) / published(before), measured }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_follows_from_the_gain() {
        #[rustfmt::skip]
        let cases = [
            // published, measured, verdict
            (10.0, Some(20.0), "reproduced"),
            (10.0, Some(5.5),  "reproduced"),
            (10.0, Some(5.4),  "reproduced in part"),
            (10.0, Some(1.0),  "not reproduced"),
            (10.0, None,       "not decided: a server is missing"),
        ];
        for (published, measured, want) in cases {
            assert_eq!(LessonVerdict { published, measured }.words(), want, "{measured:?}");
        }
    }

    #[test]
    fn each_lesson_has_its_rows() {
        let rows = StoryRow::ALL[..2].iter().zip([100.0, 900.0]).map(|(row, rate)| MeasuredRow {
            row: *row,
            results: vec![StoryResult { rate, p50_ms: None, p99_ms: None }],
        });
        let record = StoriesRecord {
            command: String::new(),
            machine: MachineInfo::example(),
            settings: StoriesSettings {
                rounds: 1,
                seconds: 1,
                server_core: 0,
                client_core: 1,
                isolated: true,
            },
            servers: Vec::new(),
            rows: rows.collect(),
        };
        let verdicts = StoryLesson::ALL.map(|lesson| record.verdict(&lesson));
        assert_eq!(verdicts.map(|verdict| verdict.measured), [Some(9.0), None, None]);
        assert_eq!(verdicts[0].words(), "reproduced");
    }
}
