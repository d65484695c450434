//! The loads of published stories, with the programs that they used: hey, wrk and ab.
//!
//! ```text
//! a core: server ◀─ another core: hey, wrk or ab       row after row, round after round
//! ```

use std::env;
use std::fs;

use clap::Args;

use super::cores::TwoCores;
use super::options::{CommonArgs, IsolationArgs, TwoCoreArgs, command_line, file_name, with_isolation};
use super::output::RecordFile;
use super::race::{HELLO_WORLD, raise_descriptor_limit};
use crate::client::story_tools;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::server::PeerServer;
use crate::records::stories::{MeasuredRow, StoriesRecord, StoriesSettings, Story, StoryRow};
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab stories`.
#[derive(Args)]
pub(crate) struct StoriesArgs {
    /// Run each load this often
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run a load without a number of requests for this long; the story has 30
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures each row of each story, prints the report and writes the record. Fails if a response is not what it should be.
pub(crate) fn run(args: &StoriesArgs) -> Result<(), LabError> {
    args.isolation.enter_with_usual_policy()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    output.finish(&LabRecord::Stories(record))
}

fn measure(args: &StoriesArgs) -> Result<StoriesRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    let page = |story: Story| {
        let content = match story {
            Story::StagedServer => HELLO_WORLD.to_vec(),
            story => generated_site::lines(story.page_len()),
        };
        (format!("page-{}.html", story.page_len()), content)
    };
    let first = page(Story::SimpleServer);
    let mut bed = TestBed::new(&env::temp_dir(), (&first.0, first.1), args.common.tarpon.as_deref(), None)?;
    raise_descriptor_limit(CONNECTION_COUNT_MAX)?;
    for story in [Story::FileServer, Story::CaseStudy, Story::StagedServer] {
        let (name, content) = page(story);
        fs::write(bed.site().join(name), content)?;
    }
    let mut wanted: Vec<PeerServer> = Vec::new();
    for row in StoryRow::ALL {
        if !wanted.contains(&row.server) {
            wanted.push(row.server);
        }
    }
    let servers = bed.prepare(bed.installed(wanted))?;
    let is_there = |row: &StoryRow| servers.iter().any(|measured| measured.server == row.server);
    let rows = StoryRow::ALL.into_iter().filter(is_there);
    let mut rows: Vec<MeasuredRow> = rows.map(|row| MeasuredRow { row, results: Vec::new() }).collect();
    for round in 1..=args.rounds {
        for MeasuredRow { row, results } in &mut rows {
            let (name, content) = page(row.story);
            bed.use_content(name, content);
            let process = bed.start(row.server)?;
            let run = || story_tools::run(row.load, process.address(), &bed.path(), args.seconds);
            let result = cores.on_client_core(run)?;
            eprintln!(
                "round {round}, {}, {}, {}: {:.0} requests/s",
                row.story,
                row.load,
                row.server.name(),
                result.rate
            );
            results.push(result);
        }
    }
    let settings = StoriesSettings {
        rounds: args.rounds,
        seconds: args.seconds,
        server_core: cores.server,
        client_core: cores.client,
        isolated: !args.isolation.no_isolation,
    };
    Ok(StoriesRecord { command: args.command(), machine, settings, servers, rows })
}

/// The most connections of a load.
const CONNECTION_COUNT_MAX: usize = 10_000;

impl StoriesArgs {
    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("seconds", self.seconds.to_string()),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
        ]);
        with_isolation(command_line("stories", &options), &self.isolation)
    }
}
