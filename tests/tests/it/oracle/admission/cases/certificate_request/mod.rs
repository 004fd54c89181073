//! Certificate requests, right and wrong ones, in PEM.

mod der;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::super::random::Random;
use der::der;

// Near misses of the parts of a block.
const LABELS: &[&str] = &[
    "CERTIFICATE",
    "NEW CERTIFICATE REQUEST",
    "",
    "CERTIFICATE REQUEST ",
    "certificate request",
    "A:B",
];
const END_LABELS: &[&str] = &["CERTIFICATE REQUEST", "CERTIFICATE", ""];
const BEGINS: &[&str] = &[
    "----BEGIN ",
    "-----BEGIN",
    " -----BEGIN ",
    "x-----BEGIN ",
    "-----BEGIN  ",
    "------BEGIN ",
];
const BEGIN_ENDS: &[&str] = &[
    "-----\r\n",
    "-----  \t\n",
    "----\n",
    "-----x\n",
    "-----",
    "------\n",
    "-----\n\n",
    "\n",
];
const HEADERS: &[&str] = &[
    "Proc-Type: 4,ENCRYPTED\n",
    "a:b\nc: d\n\n",
    ":\n",
    "a: b\r\n \r\n",
    "a: b",
    "-----BEGIN x: y\n",
    "-----BEGIN x: y-----\n",
    "-----END x: y-----\n",
    "a: -----BEGIN CERTIFICATE REQUEST-----\n",
    "a: b\n-----BEGIN CERTIFICATE REQUEST-----\n",
    "é: \0\n",
];
const BREAKS: &[&str] = &[
    "\r\n", " \n", "\t", " ", "\n\n", "\r", "\u{b}", "\n-", "\n:\n",
];
const ENDS: &[&str] = &[
    "-----END ",
    "\r\n-----END ",
    "\n -----END ",
    "\n\n-----END ",
    "\n----END ",
    "\n-----END",
    "\n-----BEGIN ",
    "",
];
const END_ENDS: &[&str] = &[
    "-----",
    "-----\r\n",
    "----- \t\r\n",
    "-----x\n",
    "----\n",
    "------\n",
    "----- x\n",
    "\n",
    "-----\r",
    "-----\u{c}\n",
];

/// The text of `spec.request`, before base64.
pub(super) fn pem(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    if random.chance(60) {
        let request = der(random);
        text.extend(block(random, &request, false));
    } else {
        for _ in 0..=random.below(3) {
            let request = der(random);
            text.extend(filler(random).as_bytes());
            text.extend(block(random, &request, true));
        }
        text.extend(filler(random).as_bytes());
    }
    if random.chance(8) {
        mutate(random, &mut text);
    }
    text
}

/// A block, and if `is_odd` mostly not as one writes it.
fn block(random: &mut Random, der: &[u8], is_odd: bool) -> Vec<u8> {
    let odd = |random: &mut Random, right: &str, near: &[&str]| {
        if is_odd && random.chance(12) {
            random.pick(near).to_owned()
        } else {
            right.to_owned()
        }
    };
    let label = odd(random, "CERTIFICATE REQUEST", LABELS);
    let same = label.clone();
    let end_label = odd(random, &same, END_LABELS);
    let begin = odd(random, "-----BEGIN ", BEGINS);
    let begin_end = odd(random, "-----\n", BEGIN_ENDS);
    let headers = odd(random, "", HEADERS);
    let width = if is_odd {
        random.pick(&[64, 64, 1, 76, 10_000])
    } else {
        64
    };
    let line_break = odd(random, "\n", BREAKS);
    let encoded = BASE64_STANDARD.encode(der);
    let mut lines: Vec<String> = encoded
        .as_bytes()
        .chunks(width)
        .map(|line| String::from_utf8(line.to_vec()).unwrap())
        .collect();
    if is_odd && random.chance(10) {
        lines.truncate(random.below(3));
    }
    let mut body = lines.join(&line_break);
    if is_odd && random.chance(10) {
        body = random.pick(&[
            body.trim_end_matches('=').to_owned(),
            format!("{body}="),
            format!("{body}===="),
            format!("{body}QQ=="),
            body.replace("==", "=\n="),
            body.replace('+', "-").replace('/', "_"),
            // A bit that base64 does not use.
            body.replace("A=", "B="),
            body.replace("A==", "B=="),
        ]);
    }
    let end = odd(random, "\n-----END ", ENDS);
    let end_end = odd(random, "-----\n", END_ENDS);
    format!("{begin}{label}{begin_end}{headers}{body}{end}{end_label}{end_end}").into_bytes()
}

fn filler(random: &mut Random) -> String {
    if random.chance(50) {
        return String::new();
    }
    random
        .pick(&[
            "\n",
            "\r\n",
            " ",
            "a comment\n",
            "a comment",
            "a: b\n",
            "-----BEGIN CERTIFICATE REQUEST-----\n",
            "-----BEGIN CERTIFICATE REQUEST-----",
            "-----BEGIN CERTIFICATE-----\n",
            "-----BEGIN ",
            "-----END CERTIFICATE REQUEST-----\n",
            "\n-----END CERTIFICATE REQUEST-----\n",
            "\n-----END ",
            "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n",
            "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE REQUEST-----\n",
            "-----BEGIN CERTIFICATE REQUEST-----\n???\n-----END CERTIFICATE REQUEST-----\n",
            "-----BEGIN A:B-----\nQUJD\n-----END A:B-----\n",
            "-----BEGIN -----BEGIN CERTIFICATE REQUEST-----\n",
            "x\n-----END -----BEGIN CERTIFICATE REQUEST-----\n",
            "\u{feff}",
            "\0",
        ])
        .to_owned()
}

/// Changes some octets.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(2) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let octet = u8::try_from(random.below(256)).unwrap();
        match random.below(6) {
            0 => bytes[at] = octet,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.insert(at, octet),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => bytes.push(octet),
        }
    }
}
