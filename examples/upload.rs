//! Uploads of any length, which are written to a file as they arrive: `cargo run --example upload [ADDRESS [DIRECTORY]]`.
//!
//! ```sh
//! curl -T large.iso http://127.0.0.1:8080/upload     # the number of bytes, and the name of the file
//! curl http://127.0.0.1:8080/upload/1                # the file
//! ```

use std::{
    env,
    error::Error,
    fs::{self, File},
    io,
    net::TcpListener,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};
use tarpon::{Functions, Request, Response, Route, Server, Settings};

struct Uploads {
    directory: PathBuf,
    count: AtomicU32,
}

impl Uploads {
    fn respond(&self, request: &mut Request<'_>) -> io::Result<Response> {
        match (request.method(), request.path().strip_prefix("/upload/").map(str::parse::<u32>)) {
            ("PUT" | "POST", None) => self.store(request),
            ("GET" | "HEAD", Some(Ok(number))) => match File::open(self.path(number)) {
                Ok(file) => {
                    let len = file.metadata()?.len();
                    Ok(Response::file("application/octet-stream", file, 0..len))
                }
                Err(_) => Ok(Response::text("no such upload\n").status(404)),
            },
            _ => Ok(Response::new(405).field("Allow", "GET, HEAD, POST, PUT")),
        }
    }

    fn store(&self, request: &mut Request<'_>) -> io::Result<Response> {
        let number = self.count.fetch_add(1, Relaxed) + 1;
        let mut file = File::create_new(self.path(number))?;
        // Memory is bounded: a client that sends faster than the disk writes has to wait. It may leave before the end.
        let len = io::copy(request, &mut file).inspect_err(|_| drop(fs::remove_file(self.path(number))))?;
        Ok(Response::text(format!("{len} bytes in /upload/{number}\n"))
            .status(201)
            .field("Location", format!("/upload/{number}")))
    }

    fn path(&self, number: u32) -> PathBuf {
        self.directory.join(number.to_string())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let directory = PathBuf::from(env::args().nth(2).unwrap_or("uploads".to_owned()));
    fs::create_dir_all(&directory)?;
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);
    let uploads = Uploads { directory, count: AtomicU32::new(0) };
    let upload = Route::new("/upload", move |request| uploads.respond(request));
    let functions = Functions::new().route(upload.on_threads().content_len_max(1 << 40));
    Server::start(&Settings::default(), vec![listener.try_into()?], functions)?.join()?;
    Ok(())
}
