//! `[log]`: what is logged, and where.

use super::EventFormat;
use super::{CommandKind, Config, ConfigSection, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{LogClientIp, LogFormat, Rotation};
use CommandKind::{Carrier, Serve};
use std::{num::NonZeroU32, time::Duration};

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "log",
    count: 1..=1,
    help: "What is logged, and where",
    key: None,
    options: OPTIONS,
    begin: |_| (),
};

/// What every option here has in common.
const LOG: Opt = Opt { on: &[Serve, Carrier], heading: "Log", ..OPT };

const OPTIONS: &[Opt] = &[
    Opt {
        name: "access-log",
        value_name: "WHERE",
        kind: ValueKind::Target(|config, target| config.log.access = target),
        example: "access.log",
        refused: &["", "unix:"],
        help: "Where a line of each request goes: a file, - for standard output, unix:PATH, a socket that takes datagrams or a \
               stream, or off, nowhere",
        ..LOG
    },
    Opt {
        name: "access-log-format",
        former_name: "access-log-form",
        value_name: "NAME",
        kind: ValueKind::Word(&[
            ("combined", |config| config.log.logging.format = LogFormat::Combined),
            ("common", |config| config.log.logging.format = LogFormat::Common),
            ("json", |config| config.log.logging.format = LogFormat::Json),
            ("simple", |config| config.log.logging.format = LogFormat::Simple),
        ]),
        default: OptionDefault::Value("combined"),
        help: "What such a line looks like; times are UTC",
        ..LOG
    },
    Opt {
        name: "log-client-ip",
        former_name: "log-addresses",
        value_name: "HOW",
        kind: ValueKind::Word(&[
            ("full", |config| config.log.logging.client_ip = LogClientIp::Full),
            ("truncated", |config| config.log.logging.client_ip = LogClientIp::Truncated),
            ("none", |config| config.log.logging.client_ip = LogClientIp::None),
        ]),
        default: OptionDefault::Value("full"),
        help: "What of clients' addresses is logged: all; truncated to the network, which is 24 bits of IPv4 and 48 of IPv6; or \
               nothing",
        ..LOG
    },
    Opt {
        name: "access-log-sample",
        former_name: "access-log-one-in",
        value_name: "COUNT",
        kind: ValueKind::Count(ONE_IN, "requests", |config, count| {
            config.log.logging.sample = NonZeroU32::new(count).expect("one at least");
        }),
        default: OptionDefault::Value("1"),
        example: "100",
        help: "Log one request in so many, chosen by chance, and each that is answered with status 400 or above",
        ..LOG
    },
    Opt {
        name: "access-log-size",
        value_name: "BYTES",
        kind: ValueKind::Size(64 << 10..=1 << 40, "", |config, len| rotation(config).len_max = Some(len)),
        example: "100MiB",
        help: "Begin another file when this one has so many bytes; the others are kept as FILE.1, FILE.2 and so on",
        ..LOG
    },
    Opt {
        name: "access-log-age",
        value_name: "TIME",
        kind: ValueKind::Time(AGES, |config, age| rotation(config).age_max = Some(age)),
        example: "1d",
        help: "Begin another file when this one is so old",
        ..LOG
    },
    Opt {
        name: "access-log-keep",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=10_000, "files", |config, count| rotation(config).keep = count),
        default: OptionDefault::Value("7"),
        example: "30",
        help: "How many of these others are kept",
        ..LOG
    },
    Opt {
        name: "debug",
        kind: ValueKind::Flag(|config, on| config.server.settings.debug = on),
        help: "Show each request as it happens, with its headers and those of the response. Headers may have passwords in them, and this \
               is slow: it is for looking, not for keeping",
        ..LOG
    },
    Opt {
        name: "log-format",
        value_name: "NAME",
        kind: ValueKind::Word(&[
            ("auto", |config| config.log.events = EventFormat::Auto),
            ("human", |config| config.log.events = EventFormat::Human),
            ("json", |config| config.log.events = EventFormat::Json),
        ]),
        default: OptionDefault::Value("auto"),
        help: "How the server says what happens to it: human, in words; json, as lines of JSON on standard error; or auto, in \
               words where standard error is a terminal, and else as JSON",
        ..LOG
    },
];

/// One in a million is as good as none.
pub(super) const ONE_IN: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// A file for each second helps nobody, and one for ten years is as good as one for ever.
const AGES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400);

fn rotation(config: &mut Config) -> &mut Rotation {
    &mut config.log.rotation
}
