//! An API with JSON: `cargo run --example json_api [ADDRESS]`.
//!
//! ```sh
//! curl -d '{"text":"milk"}' http://127.0.0.1:8080/notes     # 201, and the note with its number
//! curl http://127.0.0.1:8080/notes/1
//! curl -X DELETE http://127.0.0.1:8080/notes/1
//! ```

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    net::TcpListener,
    sync::{Mutex, PoisonError},
};
use tarpon::{Functions, Request, Response, Route, Server, Settings};

#[derive(Clone, Serialize, Deserialize)]
struct Note {
    #[serde(default)]
    number: u32,
    text: String,
}

/// The notes by number.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<u32, Note>>);

impl Notes {
    fn respond(&self, request: &mut Request<'_>) -> Result<Response, Box<dyn Error + Send + Sync>> {
        // Held for a moment only, so the function may run on the worker.
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = request.path();
        let number = path.strip_prefix("/notes/").map(str::parse);
        Ok(match (request.method(), number) {
            ("GET", None) => json(&notes.values().collect::<Vec<_>>())?,
            ("POST", None) => {
                let Ok(mut note) = serde_json::from_slice::<Note>(request.content()?) else {
                    return Ok(Response::text("expected {\"text\": \"…\"}\n").status(400));
                };
                note.number = notes.last_key_value().map_or(1, |(last, _)| last + 1);
                notes.insert(note.number, note.clone());
                json(&note)?.status(201).field("Location", format!("/notes/{}", note.number))
            }
            ("GET", Some(Ok(number))) if notes.contains_key(&number) => json(&notes[&number])?,
            ("DELETE", Some(Ok(number))) if notes.remove(&number).is_some() => Response::new(204),
            ("GET" | "DELETE", Some(_)) => Response::text("no such note\n").status(404),
            _ => Response::new(405).field("Allow", "GET, POST, DELETE"),
        })
    }
}

fn json(value: &impl Serialize) -> serde_json::Result<Response> {
    Ok(Response::json(serde_json::to_vec(value)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);
    let notes = Notes::default();
    let functions = Functions::new().route(Route::new("/notes", move |request| notes.respond(request)));
    Server::start(&Settings::default(), vec![listener.try_into()?], functions)?.join()?;
    Ok(())
}
