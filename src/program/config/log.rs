//! `[log]`: the access log and the messages of the server.

use super::EventFormat;
use super::{CommandKind, Config, ConfigSection, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{LogClientIp, LogFormat, Rotation};
use CommandKind::{Embedded, Serve};
use std::{num::NonZeroU32, time::Duration};

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "log",
    count: 1..=1,
    help: "The access log and the messages of the server",
    key: None,
    options: OPTIONS,
    add: |_| (),
};

/// The fields that all options here share.
const LOG: Opt = Opt { commands: &[Serve, Embedded], heading: "Log", ..OPT };

const OPTIONS: &[Opt] = &[
    Opt {
        name: "access-log",
        value_name: "WHERE",
        kind: ValueKind::Target(|config, target| config.log.access = target),
        example: "access.log",
        invalid: &["", "unix:"],
        help: "Write a line for each request to this file or socket",
        details: "A path names a file, - standard output, unix:PATH a socket that takes datagrams or a stream. The value off disables the log.",
        ..LOG
    },
    Opt {
        name: "access-log-format",
        former_name: "access-log-form",
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("combined", |config| config.log.logging.format = LogFormat::Combined),
            ("common", |config| config.log.logging.format = LogFormat::Common),
            ("json", |config| config.log.logging.format = LogFormat::Json),
            ("simple", |config| config.log.logging.format = LogFormat::Simple),
        ]),
        default: OptionDefault::Value("combined"),
        help: "Select the format of the access log",
        details: "Times are UTC.",
        ..LOG
    },
    Opt {
        name: "log-client-ip",
        former_name: "log-addresses",
        value_name: "HOW",
        kind: ValueKind::Choice(&[
            ("full", |config| config.log.logging.client_ip = LogClientIp::Full),
            ("truncated", |config| config.log.logging.client_ip = LogClientIp::Truncated),
            ("none", |config| config.log.logging.client_ip = LogClientIp::None),
        ]),
        default: OptionDefault::Value("full"),
        help: "Log client addresses in full, truncated to their network, or not at all",
        details: "The value truncated keeps 24 bits of IPv4 and 48 bits of IPv6.",
        ..LOG
    },
    Opt {
        name: "access-log-sample",
        former_name: "access-log-one-in",
        value_name: "COUNT",
        kind: ValueKind::Count(ONE_IN, "requests", |config, count| {
            config.log.logging.sample = NonZeroU32::new(count).expect("the range starts at 1");
        }),
        default: OptionDefault::Value("1"),
        example: "100",
        help: "Log one request in this many, chosen at random",
        details: "A request that is answered with status 400 or above is always logged.",
        ..LOG
    },
    Opt {
        name: "access-log-size",
        value_name: "BYTES",
        kind: ValueKind::Size(64 << 10..=1 << 40, "", |config, len| rotation(config).len_max = Some(len)),
        example: "100MiB",
        help: "Rotate the access log when it has this many bytes",
        details: "Rotated files are named FILE.1, FILE.2 and so on.",
        ..LOG
    },
    Opt {
        name: "access-log-age",
        value_name: "TIME",
        kind: ValueKind::Time(AGES, |config, age| rotation(config).age_max = Some(age)),
        example: "1d",
        help: "Rotate the access log when it reaches this age",
        ..LOG
    },
    Opt {
        name: "access-log-keep",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=10_000, "files", |config, count| rotation(config).keep = count),
        default: OptionDefault::Value("7"),
        example: "30",
        help: "Keep this many rotated files",
        ..LOG
    },
    Opt {
        name: "debug",
        kind: ValueKind::Flag(|config, on| config.server.settings.debug = on),
        help: "Print each request and response with its headers",
        details: "For debugging only: it is slow, and headers may contain passwords.",
        ..LOG
    },
    Opt {
        name: "log-format",
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("auto", |config| config.log.events = EventFormat::Auto),
            ("human", |config| config.log.events = EventFormat::Human),
            ("json", |config| config.log.events = EventFormat::Json),
        ]),
        default: OptionDefault::Value("auto"),
        help: "Select the format of the messages that the server prints",
        details: "The value human prints text; json prints lines of JSON on standard error; auto prints text if standard error is a terminal, and else JSON.",
        ..LOG
    },
];

/// A sample of less than one in a million is as good as no log.
pub(super) const ONE_IN: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// A new file more often than every second is useless; ten years are as good as never.
const AGES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400);

fn rotation(config: &mut Config) -> &mut Rotation {
    &mut config.log.rotation
}
