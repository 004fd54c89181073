//! Certificate requests in DER, by a writer of their own: a library writes none that are malformed.
//! No signature is right, as NodeRestriction does not look at it.

use super::super::super::random::Random;
use super::mutate;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const ATTRIBUTES: u8 = 0xa0;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const CHALLENGE_PASSWORD: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x07];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// Identifiers of curves, and a point that is on each.
const CURVES: [(&[u8], &str); 4] = [
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
         4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
    ),
    (
        &[0x2b, 0x81, 0x04, 0x00, 0x21],
        "b70e0cbd6bb4bf7f321390b94a03c1d356c21122343280d6115c1d21\
         bd376388b5f723fb4c22dfe6cd4375a05a07476444d5819985007e34",
    ),
    (
        &[0x2b, 0x81, 0x04, 0x00, 0x22],
        "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7\
         3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
    ),
    (
        &[0x2b, 0x81, 0x04, 0x00, 0x23],
        "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66\
         011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
    ),
];

fn hex(digits: &str) -> Vec<u8> {
    let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect()
}

fn value(identifier: u8, contents: impl AsRef<[u8]>) -> Vec<u8> {
    let contents = contents.as_ref();
    let length = u16::try_from(contents.len()).unwrap();
    let [high, low] = length.to_be_bytes();
    let mut value = match length {
        0..0x80 => vec![identifier, low],
        0x80..0x100 => vec![identifier, 0x81, low],
        0x100.. => vec![identifier, 0x82, high, low],
    };
    value.extend(contents);
    value
}

fn values(identifier: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    value(identifier, parts.concat())
}

/// `parts` in a SEQUENCE, mostly. Go allows more at its end, and nothing missing.
fn structure(random: &mut Random, mut parts: Vec<Vec<u8>>) -> Vec<u8> {
    if random.chance(2) {
        parts.push(random.pick(&[value(NULL, []), vec![0xff], value(0xa1, [])]));
    }
    if random.chance(1) {
        parts.pop();
    }
    let identifier = if random.chance(1) { SET } else { SEQUENCE };
    values(identifier, &parts)
}

pub(super) fn der(random: &mut Random) -> Vec<u8> {
    let version = random.mostly(
        vec![INTEGER, 1, 0],
        &[
            vec![INTEGER, 1, 5],
            vec![INTEGER, 0],
            vec![INTEGER, 2, 0, 0],
            vec![INTEGER, 2, 0, 0x80],
            vec![INTEGER, 2, 0xff, 0x80],
            value(INTEGER, [0x7f; 8]),
            value(INTEGER, [0x7f; 9]),
            vec![0x0a, 1, 0],
        ],
    );
    let parts = vec![version, subject(random), key(random), attributes(random)];
    let info = structure(random, parts);
    let algorithm = algorithm(random, ECDSA_WITH_SHA256, vec![]);
    let parts = vec![
        info,
        algorithm,
        bits(random, &[0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01]),
    ];
    let mut request = structure(random, parts);
    if random.chance(10) {
        mutate(random, &mut request);
    }
    if random.chance(2) {
        request.extend([0, 0]);
    }
    request
}

fn algorithm(random: &mut Random, name: &[u8], parameters: Vec<u8>) -> Vec<u8> {
    let mut parts = vec![object_id(random, name)];
    if !parameters.is_empty() {
        parts.push(parameters);
    }
    structure(random, parts)
}

fn object_id(random: &mut Random, right: &[u8]) -> Vec<u8> {
    if random.chance(97) {
        return value(OBJECT_ID, right);
    }
    value(
        OBJECT_ID,
        random.pick(&[
            &[][..],
            &[0x80, 0x01],
            &[0x55, 0x84],
            &[0x55, 0x04, 0x80, 0x03],
            &[0x55, 0x04, 0x03, 0x01],
            &[0x87, 0xff, 0xff, 0xff, 0x7f],
            &[0x88, 0x80, 0x80, 0x80, 0x00],
            &[0x81, 0x80, 0x80, 0x80, 0x80, 0x00],
        ]),
    )
}

fn bits(random: &mut Random, octets: &[u8]) -> Vec<u8> {
    let padding = random.mostly(0, &[0, 1, 3, 7, 8, 0xff]);
    let contents = [&[padding], octets].concat();
    if random.chance(1) {
        return value(BIT_STRING, random.pick(&[&[][..], &[0], &[1]]));
    }
    value(BIT_STRING, contents)
}

fn subject(random: &mut Random) -> Vec<u8> {
    let mut sets = Vec::new();
    if random.chance(70) {
        let organization = attribute(random, ORGANIZATION, "system:nodes");
        sets.push(value(SET, organization));
    }
    for _ in 0..random.mostly(1, &[0, 2, 3]) {
        let names: Vec<Vec<u8>> = (0..random.mostly(1, &[0, 2, 3]))
            .map(|_| {
                let name = random.mostly(
                    "system:node:n1",
                    &[
                        "system:node:n2",
                        "",
                        "n1",
                        "system:node:n1\0",
                        "system:node:é",
                        "system:node:N1",
                    ],
                );
                attribute(random, COMMON_NAME, name)
            })
            .collect();
        let identifier = if random.chance(1) { SEQUENCE } else { SET };
        sets.push(values(identifier, &names));
    }
    let identifier = random.mostly(SEQUENCE, &[SEQUENCE, SEQUENCE, SEQUENCE, SET, OCTET_STRING]);
    values(identifier, &sets)
}

fn attribute(random: &mut Random, kind: &[u8], text: &str) -> Vec<u8> {
    let identifier = random.pick(&[UTF8_STRING, PRINTABLE_STRING]);
    let text = match random.below(100) {
        0..82 => value(identifier, text),
        82..88 => {
            let mut utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            let end: [&[u8]; 9] = [
                &[],
                &[],
                &[],
                &[0, 0],
                &[0],
                &[0xd8, 0x00],
                &[0xd8, 0x00, 0xdc, 0x00],
                &[0xff, 0xfe],
                &[0xfd, 0xd0],
            ];
            utf16.extend(random.pick(&end));
            value(BMP_STRING, utf16)
        }
        // Every universal tag, also with other classes and as a constructed value.
        88..95 => {
            let tag = u8::try_from(random.below(31)).unwrap();
            value(tag | random.mostly(0, &[0x20, 0x80, 0xa0, 0xc0]), text)
        }
        95 => [
            &[
                random.pick(&[0x1f, 0x9f]),
                random.pick(&[0x0c, 0x1e, 0x1f, 0x80]),
                1,
            ],
            &[b'x'][..],
        ]
        .concat(),
        96 => value(
            identifier,
            random.pick(&[&[0xff][..], b"*&", b"a@b", "é".as_bytes(), b"12 3"]),
        ),
        97 => value(
            random.pick(&[0x12, 0x14, 0x16]),
            random.pick(&[&[0xe9][..], b"12 3", b"system:node:n1"]),
        ),
        98 => {
            let contents: &[&[u8]] = &[
                &[],
                &[0],
                &[0xff],
                &[1],
                &[0, 0],
                &[0, 0x80],
                &[0xff, 0xff],
                &[9; 9],
            ];
            value(
                random.pick(&[BOOLEAN, INTEGER, BIT_STRING, NULL, OBJECT_ID]),
                random.pick(contents),
            )
        }
        _ => value(
            random.pick(&[0x17, 0x18]),
            random.pick(&["260101000000Z", "20260101000000Z", "x"]),
        ),
    };
    let parts = vec![object_id(random, kind), text];
    structure(random, parts)
}

fn key(random: &mut Random) -> Vec<u8> {
    let null = value(NULL, []);
    let positive = |random: &mut Random| {
        random.mostly(
            vec![INTEGER, 3, 1, 0, 1],
            &[
                vec![INTEGER, 1, 0],
                vec![INTEGER, 1, 0x80],
                vec![INTEGER, 0],
                vec![INTEGER, 2, 0, 1],
                value(INTEGER, [0x55; 64]),
                value(0x0a, [1]),
            ],
        )
    };
    let (name, parameters, mut key): (&[u8], _, _) = match random.below(20) {
        0 | 1 => {
            let numbers = vec![positive(random), positive(random)];
            (
                &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
                null,
                structure(random, numbers),
            )
        }
        2 => (
            &[0x2b, 0x65, 0x70],
            vec![],
            vec![7; random.mostly(32, &[0, 31, 33])],
        ),
        3 => {
            let numbers = vec![positive(random), positive(random), positive(random)];
            let parameters = structure(random, numbers);
            (
                &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01],
                parameters,
                positive(random),
            )
        }
        // X25519, and an algorithm that nobody knows.
        4 => (&[0x2b, 0x65, 0x6e], vec![], vec![1, 2, 3]),
        5 => (&[0x2a, 0x03, 0x04], vec![], vec![]),
        _ => {
            let other = random.pick(&CURVES);
            let (curve, point) = random.mostly(CURVES[0], &[other]);
            let form = random.mostly(4, &[0, 2, 3, 5]);
            let key = [vec![form], hex(point)].concat();
            (
                &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01],
                object_id(random, curve),
                key,
            )
        }
    };
    if random.chance(3) {
        mutate(random, &mut key);
    }
    let parameters = random.mostly(
        parameters.clone(),
        &[
            parameters.clone(),
            parameters,
            vec![],
            value(NULL, []),
            vec![0x05, 0x01, 0x00],
        ],
    );
    let parts = vec![algorithm(random, name, parameters), bits(random, &key)];
    structure(random, parts)
}

fn attributes(random: &mut Random) -> Vec<u8> {
    let count = random.mostly(0, &[1, 1, 2]) + usize::from(random.chance(30));
    let list: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            if random.chance(10) {
                return random.pick(&[
                    value(SEQUENCE, []),
                    value(NULL, []),
                    vec![SEQUENCE, 3, OBJECT_ID, 1],
                    vec![0x05],
                ]);
            }
            let kind = random.mostly(EXTENSION_REQUEST, &[CHALLENGE_PASSWORD]);
            let mut contents = vec![extensions(random)];
            if random.chance(5) {
                let more = extensions(random);
                contents.push(random.pick(&[value(NULL, []), vec![0x05, 0x01], more]));
            }
            if random.chance(3) {
                contents.clear();
            }
            let identifier = random.mostly(SET, &[SET, SET, SEQUENCE]);
            let parts = vec![object_id(random, kind), values(identifier, &contents)];
            structure(random, parts)
        })
        .collect();
    values(
        random.mostly(
            ATTRIBUTES,
            &[ATTRIBUTES, ATTRIBUTES, ATTRIBUTES, 0x80, 0xa1, SEQUENCE],
        ),
        &list,
    )
}

fn extensions(random: &mut Random) -> Vec<u8> {
    let list: Vec<Vec<u8>> = (0..random.mostly(1, &[0, 2]))
        .map(|_| {
            let kind = random.mostly(SUBJECT_ALT_NAME, &[KEY_USAGE]);
            let mut parts = vec![object_id(random, kind)];
            if random.chance(20) {
                parts.push(value(
                    BOOLEAN,
                    random.mostly(&[0xff][..], &[&[0], &[1], &[], &[0, 0]]),
                ));
            }
            let names = alternative_names(random);
            parts.push(value(
                random.mostly(OCTET_STRING, &[OCTET_STRING, OCTET_STRING, BIT_STRING]),
                names,
            ));
            structure(random, parts)
        })
        .collect();
    let identifier = random.mostly(SEQUENCE, &[SEQUENCE, SEQUENCE, SET]);
    values(identifier, &list)
}

fn alternative_names(random: &mut Random) -> Vec<u8> {
    let names: Vec<Vec<u8>> = (0..random.below(3))
        .map(|_| {
            let (identifier, contents) = random.mostly(
                (0x82, &b"n1.example.com"[..]),
                &[
                    (0x82, "é".as_bytes()),
                    (0x81, b"a@b"),
                    (0x81, &[0xff]),
                    (0x86, b"https://n1/"),
                    (0x86, &[0xff]),
                    (0x87, &[10, 0, 0, 1]),
                    (0x87, &[0; 16]),
                    (0x87, &[1, 2]),
                    (0x83, &[0xff]),
                    (0xa4, b""),
                    (0xa2, &[0xff]),
                ],
            );
            if random.chance(2) {
                return vec![0x9f, 0x22, 0];
            }
            value(identifier, contents)
        })
        .collect();
    let mut list = values(random.mostly(SEQUENCE, &[SEQUENCE, SEQUENCE, SET]), &names);
    if random.chance(3) {
        mutate(random, &mut list);
    }
    list
}
