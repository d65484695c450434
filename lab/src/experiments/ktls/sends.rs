//! Ways to send a file to a socket, in clear text and sealed by the kernel. The receiver, another thread, drops what arrives.
//!
//! The keys are installed without a handshake: the receiver does not open the records.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use rustix::io::Errno;

use super::responses::LOADS;
use crate::error::LabError;
use crate::records::ktls::{SendCost, SendTotal};
use crate::records::send_method::SendMethod;
use crate::sys::file_sender::{FileSender, drain, sending_time};
use crate::sys::set_option;

/// Measures each method with each size but the smallest ones, in clear text and sealed.
pub(super) fn measure() -> Result<Vec<SendCost>, LabError> {
    let mut costs = Vec::new();
    for is_sealed in [false, true] {
        for method in SendMethod::ALL {
            for (size, _) in LOADS.into_iter().filter(|(size, _)| *size >= SIZE_MIN) {
                let files = (TOTAL_LEN / size).max(1) as u32;
                let how = if is_sealed { "sealed" } else { "in clear text" };
                let cost = cost(method, is_sealed, size, files)
                    .map_err(|error| format!("{method}, {how}, {size} bytes: {error}"))?;
                let cost = SendCost { method, is_sealed, size, files, cost };
                let per_kib = cost.per_kib(|cost| cost.instructions);
                let per_kib =
                    per_kib.map_or("refused".to_owned(), |count| format!("{count:.0} instructions per KiB"));
                println!("{method}, {how}, {size} bytes: {per_kib}");
                costs.push(cost);
            }
        }
    }
    Ok(costs)
}

/// Returns `None` if the kernel refuses the method.
fn cost(method: SendMethod, is_sealed: bool, size: u64, files: u32) -> Result<Option<SendTotal>, LabError> {
    let mut sender = FileSender::open(&PathBuf::from(format!("/site/{size}.bin")), Vec::new())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    if is_sealed {
        seal(&socket)?;
    }
    let receiver = thread::spawn(move || drain(receiver));
    // The first file is not counted: it fills pages of the pipe, and begins a thread of the ring.
    let outcome = sender.send(method, &socket).and_then(|()| {
        let (before, calls_before) = (sending_time()?, sender.system_calls);
        (0..files).try_for_each(|_| sender.send(method, &socket))?;
        let instructions = (sending_time()? - before).as_nanos() as u64;
        Ok(SendTotal { instructions, system_calls: sender.system_calls - calls_before })
    });
    drop(socket);
    let received = receiver.join().expect("the receiver does not panic")?;
    match outcome {
        Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => Ok(None),
        Err(error) => Err(error.into()),
        // Records are longer than what they carry.
        Ok(_) if received < size * u64::from(files + 1) => {
            Err(format!("{received} bytes have arrived").into())
        }
        Ok(total) => Ok(Some(total)),
    }
}

/// Lets the kernel seal what is sent: TLS 1.3 with AES-128-GCM. Linux, Documentation/networking/tls.rst.
fn seal(socket: &TcpStream) -> io::Result<()> {
    let mut keys = [0u8; CRYPTO_INFO_LEN];
    keys[..2].copy_from_slice(&TLS_1_3.to_ne_bytes());
    keys[2..4].copy_from_slice(&AES_128_GCM.to_ne_bytes());
    set_option(socket, libc::SOL_TCP, libc::TCP_ULP, b"tls\0")?;
    set_option(socket, SOL_TLS, TLS_TX, &keys)
}

/// Files below this length are not sent here: servers copy them with their head.
const SIZE_MIN: u64 = 16 << 10;

/// Bytes to send with each method, unless one file is longer.
const TOTAL_LEN: u64 = 16 << 20;

/// Linux, `include/uapi/linux/tls.h`.
const SOL_TLS: i32 = 282;
const TLS_TX: i32 = 1;
const TLS_1_3: u16 = 0x0304;
const AES_128_GCM: u16 = 51;
/// Version, cipher, initialization vector (8), key (16), salt (4), sequence number (8).
const CRYPTO_INFO_LEN: usize = 40;
