//! The examples of docs/guides: each test takes the files of its page out of it, and runs them.
//!
//! | module | page |
//! |---|---|
//! | `first_site` | a first site with a certificate, against an ACME directory |
//! | `apache` | from Apache, beside a real one |
//! | `platforms` | from Netlify or Cloudflare Pages |
//! | `load_balancer` | behind a load balancer, with HAProxy |
//! | `container` | in a container: the image's command in namespaces |
//! | `fleet` | a fleet of three servers |
//! | `hosts` | programs in the place of ssh and scp |

mod apache;
mod container;
mod first_site;
mod fleet;
mod hosts;
mod load_balancer;
mod platforms;

use std::{fs, path::Path};

/// Returns the code blocks of a guide in a language.
fn blocks(guide: &str, language: &str) -> Vec<String> {
    let page = page(guide);
    let (mut blocks, mut lines) = (Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        let Some(found) = line.strip_prefix("```") else { continue };
        let text: String =
            lines.by_ref().take_while(|line| *line != "```").map(|line| line.to_owned() + "\n").collect();
        if found == language {
            blocks.push(text);
        }
    }
    blocks
}

/// Returns the only code block of a guide in a language.
fn block(guide: &str, language: &str) -> String {
    let mut blocks = blocks(guide, language);
    assert_eq!(blocks.len(), 1, "docs/guides/{guide}.md has one block of {language}");
    blocks.remove(0)
}

/// Replaces a part of an example, which must have it.
#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from} in {text}");
    text.replace(from, to)
}

fn page(guide: &str) -> String {
    fs::read_to_string(root().join(format!("docs/guides/{guide}.md"))).expect("the page")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
